//! What the director asks for in the end: all of each lock.

use std::time::Duration;

use leasehold::{Lease, LockError};
use leasehold_history::Kind;

use super::wishes::{LEDGER, LIMIT, LINGERING, MUTEX, PERMITS, REENTRANT, RW, SECOND};
use super::{Client, LONGEST_TTL};

/// A dead holder's lease, and the places of dead waiters, are over long before.
const WAIT: Duration = Duration::from_secs(40);

/// One lock, and how to ask for all of it.
pub(crate) struct Probe {
    pub(crate) lock: &'static str,
    pub(crate) kind: Kind,
}

/// One for each lock.
pub(crate) const PROBES: [Probe; 7] = [
    Probe { lock: MUTEX, kind: Kind::Mutex },
    Probe { lock: SECOND, kind: Kind::Mutex },
    Probe { lock: LINGERING, kind: Kind::Mutex },
    Probe { lock: LEDGER, kind: Kind::Mutex },
    Probe { lock: REENTRANT, kind: Kind::Reentrant },
    Probe { lock: PERMITS, kind: Kind::Permits },
    Probe { lock: RW, kind: Kind::Write },
];

impl Probe {
    /// True if this client has such a lock.
    pub(crate) fn is_on(&self, client: &Client) -> bool {
        match client {
            Client::All(_) => true,
            Client::Quorum(_) => matches!(self.kind, Kind::Mutex | Kind::Write),
        }
    }

    pub(crate) async fn acquire(&self, client: &Client) -> Result<Lease, LockError> {
        let (lock, ttl) = (self.lock, LONGEST_TTL);
        match (self.kind, client) {
            (Kind::Reentrant, Client::All(locks)) => {
                locks.reentrant_mutex(lock).owner("probe").ttl(ttl).wait(WAIT).lock().await
            }
            (Kind::Permits, Client::All(locks)) => {
                locks.semaphore(lock, LIMIT).ttl(ttl).wait(WAIT).acquire_many(LIMIT).await
            }
            (Kind::Write, Client::All(locks)) => {
                locks.rw_lock(lock).ttl(ttl).wait(WAIT).write().await
            }
            (Kind::Write, Client::Quorum(locks)) => {
                locks.rw_lock(lock).ttl(ttl).wait(WAIT).write().await
            }
            (_, Client::All(locks)) => locks.mutex(lock).ttl(ttl).wait(WAIT).lock().await,
            (_, Client::Quorum(locks)) => locks.mutex(lock).ttl(ttl).wait(WAIT).lock().await,
        }
    }
}
