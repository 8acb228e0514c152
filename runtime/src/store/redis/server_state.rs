//! The state of one server, shared by all connections to it: which of them are abandoned, when
//! to reconnect, and whether the server may grant.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::{ErrorKind, RedisError};
use tokio::sync::watch;

use super::errors;
use super::errors::LinkOutcome;
use super::hints::HintReceiver;
use super::link_state::{LinkName, LinkState};
use super::server_info::{ServerInfo, ServerRun};
use super::settings::Settings;
use crate::core::log_rate::seldom;
use crate::core::sync::lock;
use crate::store::{Hint, RESUBSCRIBE, StoreError};
use crate::system;

/// How many abandoned connections are remembered, until a handshake has ended them. Those of a
/// server that never comes back stay.
const MOST_ABANDONED: usize = 256;

/// The shortest silence after which a connection is abandoned.
const PATIENCE: Duration = Duration::from_millis(500);

/// Clients that lost their connections at the same time reconnect within this time, each at a
/// random moment: a server's backlog has room for 511, and whoever finds it full tries again
/// only after a second.
const SPREAD: Duration = Duration::from_millis(250);

/// The state of one server.
#[derive(Debug)]
pub(super) struct ServerState {
    /// Host and port without credentials, or the name of the sentinels' master.
    pub(super) name: String,
    pub(super) settings: Settings,
    start: Instant,
    /// Where the last connection led.
    pub(super) address: watch::Sender<String>,
    /// The server says that it is a node of a cluster.
    is_cluster_node: AtomicBool,
    /// Abandoned connections that may still hold commands of ours.
    abandoned: Mutex<Vec<LinkName>>,
    pub(super) last_error: Mutex<Option<RedisError>>,
    pub(super) hints: Arc<HintReceiver>,
    /// The server's last known start, and the connection that reported it.
    run: Mutex<Option<(ServerRun, Arc<LinkState>)>>,
    /// When the last connection was made.
    pub(super) last_connected: Mutex<Option<Instant>>,
    /// When the next connection may be made, once one is missing.
    pub(super) next_connect: Mutex<Option<Instant>>,
}

impl ServerState {
    pub(super) fn new(name: String, settings: Settings, hints: Arc<HintReceiver>) -> Arc<Self> {
        Arc::new(Self {
            name,
            settings,
            start: system::now(),
            address: watch::Sender::default(),
            is_cluster_node: AtomicBool::new(false),
            abandoned: Mutex::default(),
            last_error: Mutex::default(),
            hints,
            run: Mutex::default(),
            last_connected: Mutex::default(),
            next_connect: Mutex::default(),
        })
    }

    /// Notes the outcome of a command that was sent on a connection.
    pub(super) fn record(&self, link: &LinkState, sent: Instant, outcome: LinkOutcome) {
        match outcome {
            LinkOutcome::Answered => {
                link.answered.fetch_max(self.millis(system::now()), Ordering::Relaxed);
                link.silent_since.store(0, Ordering::Relaxed);
            }
            LinkOutcome::Broken => self.abandon(link),
            LinkOutcome::Silent => {
                // Silence counts from when the oldest unanswered command was sent: a client
                // with a short TTL asks often, and one time-out of it proves little.
                let sent = self.millis(sent).max(1);
                let since = &link.silent_since;
                let first = since.compare_exchange(0, sent, Ordering::Relaxed, Ordering::Relaxed);
                let since = first.map_or_else(|earlier| earlier, |_| sent);
                // A connection that answers slowly is not silent.
                let since = since.max(link.answered.load(Ordering::Relaxed));
                let silent = self.millis(system::now()).saturating_sub(since);
                let patience = self.settings.command_timeout.max(PATIENCE);
                if u128::from(silent) >= patience.as_millis() {
                    self.abandon(link);
                }
            }
        }
    }

    /// Uses a connection no more.
    pub(super) fn abandon(&self, link: &LinkState) {
        if !link.is_abandoned.swap(true, Ordering::Relaxed) {
            #[cfg(feature = "metrics")]
            metrics::counter!("leasehold_reconnects_total").increment(1);
            // A server that has become a replica breaks each by its first answer.
            if let Some(left_out) = seldom("connection", &self.name) {
                tracing::warn!(server = %self.name, left_out, "the connection to the lock store failed; a new one replaces it");
            }
            let mut abandoned = lock(&self.abandoned);
            abandoned.extend(link.name.get().cloned());
            let too_many = abandoned.len().saturating_sub(MOST_ABANDONED);
            abandoned.drain(..too_many);
            drop(abandoned);
            // From now on hints are lost. A waiter that asks again makes another connection;
            // where nobody waits, none is needed.
            if link.carries_hints {
                self.hints.deliver(Hint::Missed);
            }
        }
    }

    /// The abandoned connections to the server of this address that are not known to have ended. A
    /// failover may lead to another server, and back.
    pub(super) fn abandoned_at(&self, server: &str) -> Vec<LinkName> {
        let abandoned = lock(&self.abandoned);
        abandoned.iter().filter(|old| old.server == server).cloned().collect()
    }

    /// Notes that these have ended, or that the server does not let us end them.
    pub(super) fn forget_abandoned(&self, ended: &[&LinkName]) {
        lock(&self.abandoned).retain(|old| !ended.contains(&old));
    }

    /// Why the server may grant nothing now, if so: it started a moment ago, and may have lost
    /// the locks that it granted before.
    pub(super) fn refusal_to_grant(&self, link: &LinkState) -> Option<String> {
        let counts_after = self.settings.counts_after?;
        match link.up_since().map(system::since) {
            Some(up) if up >= counts_after => None,
            Some(up) => Some(format!(
                "the server started {} s ago and may have lost locks; it counts after \
                 {counts_after:?}",
                up.as_secs()
            )),
            None => {
                // Somebody may have given the right since: the next connection asks again.
                if lock(&self.last_connected).is_some_and(|at| system::since(at) >= RESUBSCRIBE) {
                    self.abandon(link);
                }
                Some(
                    "the server does not report its uptime and may have lost locks; allow the user \
                     +info"
                        .to_owned(),
                )
            }
        }
    }

    /// When a lost connection may be replaced, for a command with this limit: after a random
    /// pause, since the server's other clients have lost theirs too. The pause is short beside
    /// the limit, and so beside the rest of a short lease.
    pub(super) fn reconnect_at(&self, now: Instant, limit: Duration) -> Instant {
        if lock(&self.last_connected).is_none() {
            return now;
        }
        let mut next = lock(&self.next_connect);
        let next = *next.get_or_insert_with(|| now + system::full_jitter(SPREAD));
        next.min(now + limit / 2)
    }

    /// Why there is no connection: the error of the last attempt to make one.
    pub(super) fn no_connection(&self) -> StoreError {
        let error = lock(&self.last_error).clone();
        let error = error.unwrap_or_else(|| (ErrorKind::Io, "no connection in time").into());
        errors::at_server(&self.name, errors::not_run(error))
    }

    /// Notes which start of the server a new connection leads to.
    pub(super) fn record_start(&self, server: Option<&ServerInfo>, link: &Arc<LinkState>) {
        let now = system::now();
        link.answered.fetch_max(self.millis(now), Ordering::Relaxed);
        let mut known = lock(&self.run);
        let is_cluster_node = server.is_some_and(|it| it.is_cluster_node);
        self.is_cluster_node.store(is_cluster_node, Ordering::Relaxed);
        let Some(server) = server else { return };
        let before = known.as_ref().map(|(run, by)| {
            let answered = Duration::from_millis(by.answered.load(Ordering::Relaxed));
            (run, self.start + answered)
        });
        let run = ServerRun::new(server, now, before);
        let _ = link.up_since.set(run.up_since); // it was not set yet
        *known = Some((run, link.clone()));
    }

    /// Returns true if the server says that it is a node of a cluster.
    pub(super) fn is_cluster_node(&self) -> bool {
        self.is_cluster_node.load(Ordering::Relaxed)
    }

    /// The id of the server's last known start.
    pub(super) fn run_id(&self) -> Option<String> {
        lock(&self.run).as_ref().map(|(run, _)| run.id().to_owned())
    }

    fn millis(&self, time: Instant) -> u64 {
        u64::try_from(time.saturating_duration_since(self.start).as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ClientId;

    fn server() -> Arc<ServerState> {
        let hints = HintReceiver::without_channel(ClientId::random());
        ServerState::new(String::new(), Settings::default(), hints)
    }

    #[test]
    fn clients_reconnect_at_random_moments() {
        let (begun, limit) = (Instant::now(), Duration::from_millis(500));
        let mut times: Vec<_> = (0..100)
            .map(|_| {
                let server = server();
                assert_eq!(server.reconnect_at(begun, limit), begun, "none was lost");
                *lock(&server.last_connected) = Some(begun);
                let next = server.reconnect_at(begun, limit);
                for _ in 0..100 {
                    assert_eq!(server.reconnect_at(begun, limit), next, "one moment a client");
                }
                next - begun
            })
            .collect();
        times.sort();
        assert!(times[99] <= SPREAD, "{times:?}");
        assert!(times[25] < SPREAD / 2 && times[75] > SPREAD / 2, "{times:?}");
    }

    /// A lease of 100 ms has a limit of 33 ms a command: when one fails, 60 ms are left.
    #[test]
    fn a_short_lease_reconnects_sooner() {
        let (begun, short) = (Instant::now(), Duration::from_millis(33));
        for _ in 0..100 {
            let server = server();
            *lock(&server.last_connected) = Some(begun);
            server.reconnect_at(begun, Duration::from_millis(500));
            assert!(server.reconnect_at(begun, short) <= begun + short / 2);
        }
    }

    /// Its user may have been given the right to `INFO` since.
    #[test]
    fn a_server_that_has_not_said_its_uptime_is_asked_again() {
        let settings = Settings { counts_after: Some(Duration::ZERO), ..Settings::default() };
        let hints = HintReceiver::without_channel(ClientId::random());
        let server = ServerState::new(String::new(), settings, hints);
        for (ago, is_abandoned) in [(Duration::ZERO, false), (RESUBSCRIBE, true)] {
            let link = LinkState::new(false);
            *lock(&server.last_connected) = Instant::now().checked_sub(ago);
            assert!(server.refusal_to_grant(&link).is_some());
            assert_eq!(link.is_abandoned(), is_abandoned, "connected {ago:?} ago");
        }
    }

    /// A failover and one back, before the first connection's bytes have all arrived.
    #[test]
    fn abandoned_connections_are_remembered_for_their_own_server() {
        let server = server();
        let abandon = |number: usize, at: &str| {
            let link = LinkState::new(false);
            let name = LinkName::parse(&format!("id={number} addr=h:{number}"), at);
            link.name.set(name.unwrap()).unwrap();
            server.abandon(&link);
        };
        abandon(0, "a");
        abandon(1, "b");
        let at_b = server.abandoned_at("b");
        server.forget_abandoned(&at_b.iter().collect::<Vec<_>>());
        assert_eq!((server.abandoned_at("a").len(), server.abandoned_at("b").len()), (1, 0));
        for number in 0..MOST_ABANDONED {
            abandon(number, "c");
        }
        assert_eq!(server.abandoned_at("a").len(), 0, "the oldest is forgotten");
        assert_eq!(server.abandoned_at("c").len(), MOST_ABANDONED);
    }
}
