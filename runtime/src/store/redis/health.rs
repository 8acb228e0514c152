//! What is known of a server and the connections to it: which are given up, and
//! what may still come of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use redis::RedisError;

use super::connection::PATIENCE;
use super::fault::Fault;
use super::hints::Ears;
use super::lock;
use crate::store::Hint;

/// One server, as all its connections know it.
#[derive(Debug)]
pub(super) struct Shared {
    /// Host and port, without credentials.
    pub(super) server: String,
    start: Instant,
    /// Connections that were given up, and may still hold commands of ours.
    pub(super) abandoned: Mutex<Vec<Name>>,
    pub(super) last_error: Mutex<Option<RedisError>>,
    pub(super) ears: Ears,
    /// When the last connection was made.
    pub(super) made: Mutex<Option<Instant>>,
}

impl Shared {
    pub(super) fn new(server: String, ears: Ears) -> Arc<Self> {
        Arc::new(Self {
            server,
            start: Instant::now(),
            abandoned: Mutex::default(),
            last_error: Mutex::default(),
            ears,
            made: Mutex::default(),
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
                if u128::from(silent) >= PATIENCE.as_millis() {
                    self.give_up(health);
                }
            }
        }
    }

    /// Uses a connection no more.
    pub(super) fn give_up(&self, health: &Health) {
        if !health.is_given_up.swap(true, Ordering::Relaxed) {
            tracing::warn!(server = %self.server, "the connection to the lock store is given up; making another");
            lock(&self.abandoned).extend(health.name.get().cloned());
            // What is told from now on is told to nobody. Who waits asks again, and
            // so makes another connection; where nobody does, there is no need.
            self.ears.tell(Hint::Missed);
        }
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
    is_given_up: AtomicBool,
    /// When the first command of those that still have no answer was sent; 0:
    /// there is none.
    silent_since: AtomicU64,
    /// When the last answer came.
    answered: AtomicU64,
}

impl Health {
    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Relaxed)
    }
}

/// What a server calls a connection. The number alone is not enough: a server
/// that was restarted gives it to somebody else's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) id: String,
    pub(super) address: String,
}

impl Name {
    /// Reads it off `CLIENT INFO`.
    pub(super) fn read(info: &str) -> Option<Self> {
        let field = |name| info.split(' ').find_map(|field| field.strip_prefix(name));
        Some(Self { id: field("id=")?.to_owned(), address: field("addr=")?.to_owned() })
    }
}
