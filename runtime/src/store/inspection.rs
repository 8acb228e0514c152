//! The answer of a store that looks at a lock: its holders and its waiters.

use std::time::{Duration, SystemTime};

use super::ClientId;
use super::job_info::JobInfo;
#[cfg(feature = "serde")]
use super::serialize::{rfc3339, seconds, some_rfc3339, some_seconds};
use crate::core::fence::Fence;
use crate::core::limit_override::LimitOverride;
use crate::core::system_time::system_time;
use crate::system;

/// How many holders, and how many waiters, are listed: as many as a script may go through.
pub(super) const MOST: usize = 64;

/// A lock's kind, holders and waiters, from [`Locks::inspect`](crate::Locks::inspect).
///
/// It may be out of date when it arrives. So it is for people, not for a program's
/// decisions.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let locks = leasehold::Locks::in_memory();
/// let lease = locks.semaphore("reports", 4).acquire_many(3).await?;
/// let reports = locks.inspect("reports").await?;
/// assert_eq!((reports.held, reports.waiting), (1, 0));
/// assert_eq!(reports.holders[0].weight, 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LockInfo {
    /// The name of the lock.
    pub name: String,
    /// The kind of the lock. `None` if the store has no record of it: a minute after a
    /// release, and at once when a lease has expired.
    pub kind: Option<LockKind>,
    /// The holders: the first 64, in the order in which their leases end.
    pub holders: Vec<Holder>,
    /// The number of all holders.
    pub held: u64,
    /// How long `hold_at_least` keeps the lock without a holder.
    #[cfg_attr(feature = "serde", serde(rename = "kept_seconds", serialize_with = "some_seconds"))]
    pub kept: Option<Duration>,
    /// The waiters: the first 64, in their order. Of a process with several waiters, the
    /// store may know only one.
    pub waiters: Vec<Waiter>,
    /// The number of all waiters in the store.
    pub waiting: u64,
    /// The limit that an operator has set for this semaphore, by its name, or by a label that may be
    /// its own: a template that the name fits. The store does not know the label of a name.
    pub limit: Option<Box<LimitOverride>>,
    /// The last success of work under [`once`](crate::Mutex::once) or
    /// [`once_per`](crate::Mutex::once_per). `None` if the store knows of none, or no longer:
    /// it remembers a success for as long as it counts; with `once_per` for 32 periods, and at
    /// least for a day.
    pub last_success: Option<LastSuccess>,
    /// The runs of a job: of work with [`once_per`](crate::Mutex::once_per) or a schedule.
    pub job: Option<Box<JobInfo>>,
}

/// The last success of work that is to succeed once, in [`LockInfo::last_success`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let locks = leasehold::Locks::in_memory();
/// let mail = locks.mutex("mail:42").once(Duration::from_secs(60 * 60));
/// mail.lock().await?.complete().await?;
///
/// let success = locks.inspect("mail:42").await?.last_success.expect("it has succeeded");
/// assert!(success.counts_for > Duration::from_secs(59 * 60));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LastSuccess {
    /// When the work succeeded, by the server's clock.
    #[cfg_attr(feature = "serde", serde(serialize_with = "rfc3339"))]
    pub completed: SystemTime,
    /// Until when it counts as done, by the server's clock.
    #[cfg_attr(feature = "serde", serde(serialize_with = "rfc3339"))]
    pub until: SystemTime,
    /// How long it counts as done from now. Zero if it does no longer.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "counts_for_seconds", serialize_with = "seconds")
    )]
    pub counts_for: Duration,
    /// When the tick of that run began, if the lock had
    /// [`once_per`](crate::Mutex::once_per).
    #[cfg_attr(feature = "serde", serde(serialize_with = "some_rfc3339"))]
    pub tick: Option<SystemTime>,
}

impl LastSuccess {
    /// All times are in milliseconds since the Unix epoch. No tick is 0.
    pub(super) fn new(until: u64, completed: u64, tick: u64, now: u64) -> Self {
        Self {
            completed: system_time(completed),
            until: system_time(until),
            counts_for: Duration::from_millis(until.saturating_sub(now)),
            tick: (tick > 0).then(|| system_time(tick)),
        }
    }
}

/// The kind of a lock that the store has a record of.
///
/// # Examples
///
/// ```
/// use leasehold::LockKind;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let locks = leasehold::Locks::in_memory();
/// let read = locks.rw_lock("catalogue").read().await?;
/// assert_eq!(locks.inspect("catalogue").await?.kind, Some(LockKind::RwLock));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
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
    /// Not a lock of this crate: something else has this name in the store.
    Foreign,
}

impl LockKind {
    /// The kind's name in metrics and JSON, and in the tool's output: `mutex`, `reentrant_mutex`, `semaphore`,
    /// `rw_lock` or `foreign`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::ReentrantMutex => "reentrant_mutex",
            Self::Semaphore => "semaphore",
            Self::RwLock => "rw_lock",
            Self::Foreign => "foreign",
        }
    }
}

/// One holder of a lock, in [`LockInfo::holders`].
///
/// # Examples
///
/// ```
/// use leasehold::Holder;
///
/// fn show(holder: &Holder) -> String {
///     let host = holder.client.as_ref().map_or("unknown", |client| client.host.as_str());
///     format!("{host}, for another {:?}", holder.remaining)
/// }
/// ```
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Holder {
    /// The client; `None` if the store does not know it, or no longer.
    pub client: Option<ClientInfo>,
    /// The owner, if one was given.
    pub owner: Option<String>,
    /// The note, if one was given. If the lease was handed over inside a process, it is the note
    /// of the first.
    pub note: Option<String>,
    /// True for the writer of a read-write lock.
    pub is_writer: bool,
    /// How much of a semaphore's limit it takes. 1 for all other locks.
    pub weight: u32,
    /// The fencing token, if the lease has one. If the lease was handed over inside a
    /// process, it is the token of the first: those of the next leases are up to 63
    /// greater. If it [may be idle](Self::may_be_idle), it is the last token but 63 that its
    /// client may give: the lease's own may be smaller.
    pub fence: Option<Fence>,
    /// How long it has held the lock. If it [may be idle](Self::may_be_idle), and has a token:
    /// the time since its client last told the store so. `None` if the store does not know it:
    /// the lock's record was deleted.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "held_for_seconds", serialize_with = "some_seconds")
    )]
    pub held_for: Option<Duration>,
    /// The time until its lease ends, unless it is renewed.
    #[cfg_attr(feature = "serde", serde(rename = "remaining_seconds", serialize_with = "seconds"))]
    pub remaining: Duration,
    /// True if its client may keep the lease without using it, because of
    /// [`linger`](crate::Mutex::linger). The store does not know whether a task works under
    /// it now. Of a semaphore and of readers, it is true for all holders of that client.
    pub may_be_idle: bool,
}

/// One waiter for a lock, in [`LockInfo::waiters`].
///
/// # Examples
///
/// ```
/// use leasehold::Waiter;
///
/// fn show(waiter: &Waiter) -> String {
///     let service = waiter.client.as_ref().map_or("unknown", |client| client.service.as_str());
///     format!("{service} has waited for {:?}", waiter.waiting_for)
/// }
/// ```
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Waiter {
    /// The client; `None` if the store does not know it, or no longer.
    pub client: Option<ClientInfo>,
    /// The owner, if one was given.
    pub owner: Option<String>,
    /// The note, if one was given.
    pub note: Option<String>,
    /// True if it waits to write.
    pub is_writer: bool,
    /// How much of a semaphore's limit it asks for. 1 for all other locks.
    pub weight: u32,
    /// How long it has waited.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "waiting_for_seconds", serialize_with = "seconds")
    )]
    pub waiting_for: Duration,
}

/// A client as operators see it: its service, its host and its process.
///
/// # Examples
///
/// ```
/// use leasehold::ClientInfo;
///
/// fn show(client: &ClientInfo) -> String {
///     format!("{} on {}, process {}", client.service, client.host, client.process)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ClientInfo {
    /// The client's id. The ids of all its requests begin with it.
    pub id: ClientId,
    /// The name of its service.
    pub service: String,
    /// The name of its machine; empty if it is unknown.
    pub host: String,
    /// Its process id.
    pub process: u32,
}

impl ClientInfo {
    /// A client of this process. Without a service it has the name of the program's file.
    pub(crate) fn of_process(id: ClientId, service: Option<String>) -> Self {
        let service = service.unwrap_or_else(program);
        Self { id, service, host: system::host(), process: system::process_id() }
    }
}

fn program() -> String {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(|path| path.file_stem());
    name.map_or_else(|| "unknown".to_owned(), |name| name.to_string_lossy().into_owned())
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

/// The result of [`Locks::force_release`](crate::Locks::force_release).
///
/// # Examples
///
/// ```
/// use leasehold::Forced;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let locks = leasehold::Locks::in_memory();
/// match locks.force_release("order:42").await? {
///     Forced::Released { held, fence, .. } => println!("{held} holders; write {fence} next"),
///     Forced::NotHeld => println!("it was free"),
///     other => println!("{other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "it says whether the lock was held at all, and the token to write to the resource"]
pub enum Forced {
    /// All holders lost the lock.
    Released {
        /// How many holders there were.
        held: u64,
        /// A token greater than those of all former holders, and not greater than those of
        /// all later ones. A resource that has seen it refuses the former holders.
        fence: Fence,
    },
    /// Nobody held the lock. Nothing has changed.
    NotHeld,
    /// The name belongs to something that is not a lock of this crate. Nothing has changed.
    Foreign,
}
