//! What a store knows of a lock: who holds it, and who waits for it.

use std::time::Duration;

use super::ClientId;
use crate::core::fence::Fence;

/// How many holders, and how many waiters, are named: as many as a script may go through.
pub(super) const MOST: usize = 64;

/// What the store knows of a lock, from [`Locks::inspect`](crate::Locks::inspect).
///
/// It was so when the store was asked, and may have changed since: for people, and
/// not for decisions of a program.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LockInfo {
    /// Which kind of lock it is; nothing if the store has no record of it: a minute
    /// after it was released, and at once when a lease has run out.
    pub kind: Option<LockKind>,
    /// Who holds it: the first 64, by when their leases end.
    pub holders: Vec<Holder>,
    /// How many hold it in all.
    pub held: u64,
    /// How long it stays held without a holder, by `hold_at_least`.
    pub kept: Option<Duration>,
    /// Who waits for it: the first 64, in their order. Of a process that waits
    /// several times, the store may know one.
    pub waiters: Vec<Waiter>,
    /// How many wait for it in all.
    pub waiting: u64,
}

/// A kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockKind {
    /// A [`Mutex`](crate::Mutex).
    Mutex,
    /// A [`ReentrantMutex`](crate::ReentrantMutex).
    ReentrantMutex,
    /// A [`Semaphore`](crate::Semaphore).
    Semaphore,
    /// A [`RwLock`](crate::RwLock).
    RwLock,
    /// No lock of this crate: something else has its name in the store.
    Foreign,
}

/// Who holds a lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Holder {
    /// The process; nothing if that is not known (any more).
    pub client: Option<ClientInfo>,
    /// The owner, if it was given one.
    pub owner: Option<String>,
    /// Whether it is the writer of a read-write lock.
    pub is_writer: bool,
    /// How much of a semaphore's limit it takes; 1 for all other locks.
    pub weight: u32,
    /// The fencing token, if it has one. Where a lease went from task to task inside of a
    /// process, it is the first one's: theirs are up to 63 greater.
    pub fence: Option<Fence>,
    /// For how long it has held it; nothing for a permit or a reader, of whom that
    /// is not stored.
    pub held_for: Option<Duration>,
    /// How long its lease lasts, unless it is renewed.
    pub remaining: Duration,
}

/// Who waits for a lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Waiter {
    /// The process; nothing if that is not known (any more).
    pub client: Option<ClientInfo>,
    /// The owner, if it was given one.
    pub owner: Option<String>,
    /// Whether it is to write.
    pub is_writer: bool,
    /// How much of a semaphore's limit it asks for; 1 for all other locks.
    pub weight: u32,
    /// For how long it has waited.
    pub waiting_for: Duration,
}

/// Who a client is, for those who ask who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientInfo {
    /// The client's id, with which all its request ids begin.
    pub id: ClientId,
    /// The service's name.
    pub service: String,
    /// The machine's name; empty if it is not known.
    pub host: String,
    /// The process id.
    pub process: u32,
}

impl ClientInfo {
    /// A client of this process, and of this service; by default it is called as the
    /// program's file.
    pub(crate) fn of_process(id: ClientId, service: Option<String>) -> Self {
        let service = service.unwrap_or_else(program);
        Self { id, service, host: host(), process: std::process::id() }
    }
}

fn program() -> String {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(|path| path.file_stem());
    name.map_or_else(|| "unknown".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn host() -> String {
    #[cfg(feature = "redis")]
    let name = gethostname::gethostname().to_string_lossy().into_owned();
    // All who share a store in memory are on one machine, whatever its name.
    #[cfg(not(feature = "redis"))]
    let name = String::new();
    name
}

#[cfg(feature = "internals")]
impl ClientInfo {
    /// A client's record of itself.
    #[doc(hidden)]
    #[must_use]
    pub fn new(id: ClientId, service: String, host: String, process: u32) -> Self {
        Self { id, service, host, process }
    }
}

/// What [`Locks::force_release`](crate::Locks::force_release) did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "it says whether the lock was held at all, and the token to write to the resource"]
pub enum Forced {
    /// It was taken from all who held it.
    Released {
        /// From how many.
        held: u64,
        /// Greater than the tokens of all who held it, and not above those of all
        /// who come: a resource that has seen it refuses the former holders.
        fence: Fence,
    },
    /// Nobody held it. Nothing was changed.
    NotHeld,
    /// What has the name is no lock of this crate. Nothing was changed.
    Foreign,
}
