//! Every kind of lock behind one interface, so that a test can go through all of them.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use leasehold::{Lease, LeaseSet, LockError, Locks, LossReason, Wait};

/// A way to hold a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A mutex.
    Mutex,
    /// A hold of a reentrant mutex, by an owner of this name.
    Reentrant(&'static str),
    /// This many of the [`LIMIT`] permits.
    Permits(u32),
    /// A reader.
    Read,
    /// A writer.
    Write,
    /// Three mutexes together. The second one has the name.
    All,
}

/// The number of permits of a semaphore.
pub const LIMIT: u32 = 3;

/// One of each kind.
pub const EVERY_KIND: [Kind; 7] = [
    Kind::Mutex,
    Kind::Reentrant("me"),
    Kind::Permits(1),
    Kind::Permits(2),
    Kind::Read,
    Kind::Write,
    Kind::All,
];

/// The guard of a lock.
#[derive(Debug)]
pub enum Guard {
    /// One lock.
    One(Lease),
    /// Several mutexes.
    All(LeaseSet),
}

/// An acquisition in progress.
pub type Taking = Pin<Box<dyn Future<Output = Result<Guard, LockError>> + Send>>;

impl Kind {
    /// Waits for it, for as long as it takes.
    #[must_use]
    pub fn lock(self, locks: &Locks, name: &str, ttl: Duration) -> Taking {
        let (locks, name) = (locks.clone(), name.to_owned());
        Box::pin(async move {
            let wait = Wait::Forever;
            let lease = match self {
                Self::Mutex => locks.mutex(name).ttl(ttl).wait(wait).lock().await,
                Self::Reentrant(owner) => {
                    locks.reentrant_mutex(name).owner(owner).ttl(ttl).wait(wait).lock().await
                }
                Self::Permits(1) => {
                    locks.semaphore(name, LIMIT).ttl(ttl).wait(wait).acquire().await
                }
                Self::Permits(weight) => {
                    locks.semaphore(name, LIMIT).ttl(ttl).wait(wait).acquire_many(weight).await
                }
                Self::Read => locks.rw_lock(name).ttl(ttl).wait(wait).read().await,
                Self::Write => locks.rw_lock(name).ttl(ttl).wait(wait).write().await,
                Self::All => {
                    let leases = locks.all(names(&name)).ttl(ttl).wait(wait).lock().await;
                    return leases.map(Guard::All);
                }
            };
            lease.map(Guard::One)
        })
    }

    /// Takes it if it is free.
    #[must_use]
    pub fn try_lock(self, locks: &Locks, name: &str, ttl: Duration) -> Taking {
        let (locks, name) = (locks.clone(), name.to_owned());
        Box::pin(async move {
            let lease = match self {
                Self::Mutex => locks.mutex(name).ttl(ttl).try_lock().await,
                Self::Reentrant(owner) => {
                    locks.reentrant_mutex(name).owner(owner).ttl(ttl).try_lock().await
                }
                Self::Permits(1) => locks.semaphore(name, LIMIT).ttl(ttl).try_acquire().await,
                Self::Permits(weight) => {
                    locks.semaphore(name, LIMIT).ttl(ttl).try_acquire_many(weight).await
                }
                Self::Read => locks.rw_lock(name).ttl(ttl).try_read().await,
                Self::Write => locks.rw_lock(name).ttl(ttl).try_write().await,
                Self::All => {
                    return locks.all(names(&name)).ttl(ttl).try_lock().await.map(Guard::All);
                }
            };
            lease.map(Guard::One)
        })
    }

    /// The kind that blocks this one when another client holds it.
    #[must_use]
    pub fn rival(self) -> Self {
        match self {
            Self::Mutex | Self::All => Self::Mutex,
            Self::Reentrant(_) => Self::Reentrant("another"),
            Self::Permits(_) => Self::Permits(LIMIT),
            Self::Read | Self::Write => Self::Write,
        }
    }
}

/// Acquires and renews a lock of each kind with the first client, and hands it over to the second.
///
/// # Panics
///
/// If any of it fails.
pub async fn hand_over_each(first: &Locks, second: &Locks) {
    const TTL: Duration = Duration::from_secs(30);
    for (nth, kind) in EVERY_KIND.into_iter().enumerate() {
        let name = format!("each:{nth}");
        let guard = kind.rival().lock(first, &name, TTL).await.expect("it is free");
        for lease in guard.leases() {
            lease.renew().await.expect("it is held");
        }
        let waiting = tokio::spawn(kind.lock(second, &name, TTL));
        while first.inspect(&name).await.expect("an answer").waiting == 0 {
            tokio::task::yield_now().await;
        }
        guard.release().await.expect("it is held");
        let guard = waiting.await.expect("no panic").expect("it is handed over");
        guard.release().await.expect("it is held");
    }
}

/// The mutexes of [`Kind::All`]. A name that begins with a letter sorts between the two others. So
/// a waiter for it holds one of them, and has not asked for the other yet.
fn names(name: &str) -> [String; 3] {
    ["0:", "", "z:"].map(|before| format!("{before}{name}"))
}

impl Guard {
    /// Its leases.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        match self {
            Self::One(lease) => std::slice::from_ref(lease).iter(),
            Self::All(leases) => leases.into_iter(),
        }
    }

    /// True if all of it is held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.leases().all(Lease::is_held)
    }

    /// Waits until a lease of it is lost.
    pub async fn lost(&self) -> LossReason {
        match self {
            Self::One(lease) => lease.lost().await,
            Self::All(leases) => leases.lost().await.1,
        }
    }

    /// Releases all of it.
    ///
    /// # Errors
    ///
    /// As of the release.
    pub async fn release(self) -> Result<(), LockError> {
        match self {
            Self::One(lease) => lease.release().await.map(drop),
            Self::All(leases) => leases.release().await,
        }
    }
}
