//! What is known of a server and the connections to it: which are given up, and
//! what may still come of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use redis::{ErrorKind, RedisError};
use tokio::sync::watch;

use super::errors::Fault;
use super::hints::Ears;
use super::server_info::{Run, Server};
use super::settings::Settings;
use super::{errors, lock};
use crate::store::{Hint, StoreError};

/// How long a connection may be silent before it is given up, at least.
const PATIENCE: Duration = Duration::from_millis(500);

/// Over how long the clients that lost their connections together make new ones: a server
/// has room for 511 that it has not accepted yet, and the next are tried again a second later.
const SPREAD: Duration = Duration::from_millis(250);

/// One server, as all its connections know it.
#[derive(Debug)]
pub(super) struct Shared {
    /// Host and port, without credentials; or what else it is found by.
    pub(super) server: String,
    pub(super) settings: Settings,
    start: Instant,
    /// Where the last connection led.
    pub(super) address: watch::Sender<String>,
    /// It is a node of a cluster, which has to be spoken to as a whole.
    is_of_cluster: AtomicBool,
    /// Connections that were given up, and may still hold commands of ours.
    pub(super) abandoned: Mutex<Vec<Name>>,
    pub(super) last_error: Mutex<Option<RedisError>>,
    pub(super) ears: Arc<Ears>,
    /// Its last start that was seen, and the connection that it was seen by.
    run: Mutex<Option<(Run, Arc<Health>)>>,
    /// When the last connection was made.
    pub(super) made: Mutex<Option<Instant>>,
    /// When the next may be made, once one that was there is missed.
    pub(super) due: Mutex<Option<Instant>>,
}

impl Shared {
    pub(super) fn new(server: String, settings: Settings, ears: Arc<Ears>) -> Arc<Self> {
        Arc::new(Self {
            server,
            settings,
            start: Instant::now(),
            address: watch::Sender::default(),
            is_of_cluster: AtomicBool::new(false),
            abandoned: Mutex::default(),
            last_error: Mutex::default(),
            ears,
            run: Mutex::default(),
            made: Mutex::default(),
            due: Mutex::default(),
        })
    }

    /// Notes what a command on a connection met.
    pub(super) fn judge(&self, health: &Health, sent: Instant, fault: Fault) {
        match fault {
            Fault::Answered => {
                health.answered.fetch_max(self.millis(Instant::now()), Ordering::Relaxed);
                health.silent_since.store(0, Ordering::Relaxed);
            }
            Fault::Broken => self.give_up(health),
            Fault::Silent => {
                // The first of a row of unanswered commands counts from when
                // it was sent; a short TTL asks often, and alone proves little.
                let sent = self.millis(sent).max(1);
                let since = &health.silent_since;
                let first = since.compare_exchange(0, sent, Ordering::Relaxed, Ordering::Relaxed);
                let since = first.map_or_else(|earlier| earlier, |_| sent);
                // A connection that answers, slowly, is not silent.
                let since = since.max(health.answered.load(Ordering::Relaxed));
                let silent = self.millis(Instant::now()).saturating_sub(since);
                let patience = self.settings.command_timeout.max(PATIENCE);
                if u128::from(silent) >= patience.as_millis() {
                    self.give_up(health);
                }
            }
        }
    }

    /// Uses a connection no more.
    pub(super) fn give_up(&self, health: &Health) {
        if !health.is_given_up.swap(true, Ordering::Relaxed) {
            tracing::warn!(server = %self.server, "the connection to the lock store is given up; making another");
            if !health.is_lent {
                lock(&self.abandoned).extend(health.name.get().cloned());
            }
            // What is told from now on is told to nobody. Who waits asks again, and
            // so makes another connection; where nobody does, there is no need.
            if health.hears {
                self.ears.tell(Hint::Missed);
            }
        }
    }

    /// Why the server may grant nothing now: it was started a moment ago, and may have
    /// lost what it had granted before.
    pub(super) fn why_not_to_grant(&self, health: &Health) -> Option<String> {
        let counts_after = self.settings.counts_after?;
        match health.up_since().map(|since| since.elapsed()) {
            Some(up) if up >= counts_after => None,
            Some(up) => Some(format!(
                "the server started {} s ago and may have lost locks; it counts after \
                 {counts_after:?}",
                up.as_secs()
            )),
            None => Some(
                "the server does not say since when it is up, and may have lost locks; allow the \
                 user +info"
                    .to_owned(),
            ),
        }
    }

    /// When a connection may be made in the place of one that was lost: a moment later, of
    /// random length, since the server's other clients have lost theirs, too. That is short
    /// beside what the command may take that needs it, and so beside the rest of a short lease.
    pub(super) fn may_connect(&self, now: Instant, limit: Duration) -> Instant {
        if lock(&self.made).is_none() {
            return now;
        }
        let due = *lock(&self.due).get_or_insert_with(|| now + SPREAD.mul_f64(fastrand::f64()));
        due.min(now + limit / 2)
    }

    /// Why there is no connection: what the last try to make one met.
    pub(super) fn no_connection(&self) -> StoreError {
        let error = lock(&self.last_error).clone();
        errors::not_run(error.unwrap_or_else(|| {
            (ErrorKind::Io, "no connection in time", self.server.clone()).into()
        }))
    }

    /// Notes which start of the server a new connection leads to.
    pub(super) fn meet(&self, server: Option<&Server>, health: &Arc<Health>) {
        let now = Instant::now();
        health.answered.fetch_max(self.millis(now), Ordering::Relaxed);
        let mut known = lock(&self.run);
        self.is_of_cluster.store(server.is_some_and(|it| it.is_of_cluster), Ordering::Relaxed);
        let Some(server) = server else { return };
        let before = known.as_ref().map(|(run, by)| {
            let answered = Duration::from_millis(by.answered.load(Ordering::Relaxed));
            (run, self.start + answered)
        });
        let run = Run::new(server, now, before);
        let _ = health.up_since.set(run.up_since); // it has none yet
        *known = Some((run, health.clone()));
    }

    /// Whether it says that it is a node of a cluster.
    pub(super) fn is_of_cluster(&self) -> bool {
        self.is_of_cluster.load(Ordering::Relaxed)
    }

    /// What tells its last start that was seen from any other.
    pub(super) fn run(&self) -> Option<String> {
        lock(&self.run).as_ref().map(|(run, _)| run.id().to_owned())
    }

    fn millis(&self, time: Instant) -> u64 {
        u64::try_from(time.saturating_duration_since(self.start).as_millis()).unwrap_or(u64::MAX)
    }
}

/// One connection.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// What the server calls it, if we may ask.
    pub(super) name: OnceLock<Name>,
    /// Hints come by it.
    pub(super) hears: bool,
    /// Others use it too: it is not ours to end.
    pub(super) is_lent: bool,
    /// Since when its server is up, if that is known.
    up_since: OnceLock<Option<Instant>>,
    is_given_up: AtomicBool,
    /// When the first command of those that still have no answer was sent; 0:
    /// there is none.
    silent_since: AtomicU64,
    /// When the last answer came.
    answered: AtomicU64,
}

impl Health {
    pub(super) fn new(hears: bool, is_lent: bool) -> Self {
        Self { hears, is_lent, ..Self::default() }
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Relaxed)
    }

    /// Since when the server is up, at the latest; nothing if it did not say.
    pub(super) fn up_since(&self) -> Option<Instant> {
        self.up_since.get().copied().flatten()
    }
}

/// What a server calls a connection. The number alone is not enough: a server
/// that was restarted gives it to somebody else's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) id: String,
    pub(super) address: String,
    /// The server that calls it so: another has its own names.
    pub(super) server: String,
}

impl Name {
    /// Reads it off `CLIENT INFO`.
    pub(super) fn read(info: &str, server: &str) -> Option<Self> {
        let field = |name| info.split(' ').find_map(|field| field.strip_prefix(name));
        let (id, address) = (field("id=")?.to_owned(), field("addr=")?.to_owned());
        Some(Self { id, address, server: server.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ClientId;

    fn server() -> Arc<Shared> {
        let ears = Arc::new(Ears::new(ClientId::random(), String::new()));
        Shared::new(String::new(), Settings::default(), ears)
    }

    #[test]
    fn who_loses_a_connection_together_makes_another_alone() {
        let (begun, limit) = (Instant::now(), Duration::from_millis(500));
        let mut times: Vec<_> = (0..100)
            .map(|_| {
                let server = server();
                assert_eq!(server.may_connect(begun, limit), begun, "none was lost");
                *lock(&server.made) = Some(begun);
                let due = server.may_connect(begun, limit);
                for _ in 0..100 {
                    assert_eq!(server.may_connect(begun, limit), due, "one moment a client");
                }
                due - begun
            })
            .collect();
        times.sort();
        assert!(times[99] <= SPREAD, "{times:?}");
        assert!(times[25] < SPREAD / 2 && times[75] > SPREAD / 2, "{times:?}");
    }

    /// A lease of 100 ms has commands of 33, and some 60 ms until its end when one fails.
    #[test]
    fn a_short_lease_does_not_wait() {
        let (begun, short) = (Instant::now(), Duration::from_millis(33));
        for _ in 0..100 {
            let server = server();
            *lock(&server.made) = Some(begun);
            server.may_connect(begun, Duration::from_millis(500));
            assert!(server.may_connect(begun, short) <= begun + short / 2);
        }
    }
}
