//! The answer of a store that looks at a lock: its holders and its waiters.

use std::time::{Duration, SystemTime};

use super::holder::{Holder, Waiter};
use super::job_info::{JobInfo, LastSuccess};
use super::note::Note;
#[cfg(feature = "serde")]
use super::serialize::{rfc3339, some_seconds};
use crate::core::fence::Fence;
use crate::core::limit_override::LimitOverride;
use crate::core::system_time::system_time;

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
    /// How long the lock is kept without a holder: by `hold_at_least`, or after a failed run of its job.
    #[cfg_attr(feature = "serde", serde(rename = "kept_seconds", serialize_with = "some_seconds"))]
    pub kept: Option<Duration>,
    /// By how much the server's clock is behind the lock's last fencing token, if by a second or more: the
    /// clock was set back. Until it is there again, the store does not know how long the lock is held, and
    /// the locks of processes that died before stay held for as much longer.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "clock_behind_seconds", serialize_with = "some_seconds")
    )]
    pub clock_behind: Option<Duration>,
    /// The waiters: the first 64, in their order. The store may know only
    /// one of a process's waiters.
    pub waiters: Vec<Waiter>,
    /// The number of all waiters in the store.
    pub waiting: u64,
    /// The limit that the last permit of a held semaphore was counted against: that of its code, or an
    /// operator's. `None` for a lock of another kind, a free semaphore, and where a version of this crate
    /// granted it that does not say so.
    pub last_limit: Option<u32>,
    /// The limit that an operator has set for this semaphore, by its name, or by a label that may be
    /// its own: a template that the name fits. The store does not know the label of a name.
    pub limit: Option<Box<LimitOverride>>,
    /// The last success of work under [`once`](crate::Mutex::once) or
    /// [`once_per`](crate::Mutex::once_per). `None` if the store knows of none, or no longer:
    /// it remembers a success for as long as it counts; with `once_per` for 32 periods, and at
    /// least for a day.
    pub last_success: Option<LastSuccess>,
    /// Who last took it from its holders by force, for a day.
    pub last_forced: Option<Box<ForcedBy>>,
    /// The runs of a job: of work with [`once_per`](crate::Mutex::once_per) or a schedule.
    pub job: Option<Box<JobInfo>>,
}

impl LockInfo {
    /// The limits that this semaphore's permits are counted against, the lowest first: that of the last
    /// permit, and those of the waiters that are listed. More than one where callers disagree, as
    /// while a deployment changes it. Empty for another kind of lock, and for a free semaphore.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let locks = leasehold::Locks::in_memory();
    /// let _lease = locks.semaphore("reports", 4).acquire().await?;
    /// assert_eq!(locks.inspect("reports").await?.limits(), [4]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn limits(&self) -> Vec<u32> {
        let waiters = self.waiters.iter().filter_map(|waiter| waiter.limit);
        let mut limits: Vec<_> = self.last_limit.into_iter().chain(waiters).collect();
        limits.sort_unstable();
        limits.dedup();
        limits
    }

    /// How many permits of a semaphore its holders have. For another lock, how many holders there are.
    ///
    /// With more than 64 holders it is the least that it can be: those that are not listed count as one.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let locks = leasehold::Locks::in_memory();
    /// let _lease = locks.semaphore("reports", 4).acquire_many(3).await?;
    /// assert_eq!(locks.inspect("reports").await?.permits_held(), 3);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn permits_held(&self) -> u64 {
        let listed: u64 = self.holders.iter().map(|holder| u64::from(holder.weight)).sum();
        listed + self.held.saturating_sub(self.holders.len() as u64)
    }

    /// The holder that has held the lock for the longest time, of those that are listed: where something
    /// hangs, it is the one to look at. A holder whose time the store does not know comes last.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let locks = leasehold::Locks::in_memory();
    /// let pool = locks.semaphore("pool", 2);
    /// let _hangs = pool.clone().note("hangs").acquire().await?;
    /// # tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    /// let _works = pool.note("works").acquire().await?;
    /// let info = locks.inspect("pool").await?;
    /// let longest = info.longest_holder().expect("two hold it");
    /// assert_eq!(longest.note.as_deref(), Some("hangs"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn longest_holder(&self) -> Option<&Holder> {
        // The first of several that are held for equally long.
        self.holders.iter().rev().max_by_key(|holder| holder.held_for)
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

/// Who took a lock by force, and why, in [`LockInfo::last_forced`].
///
/// # Examples
///
/// ```
/// use leasehold::ForcedBy;
///
/// fn show(forced: &ForcedBy) -> String {
///     let why = forced.why.as_deref().unwrap_or("no reason given");
///     format!("{} took it from {} holders: {why}", forced.by, forced.held)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ForcedBy {
    /// When, by the store's clock.
    #[cfg_attr(feature = "serde", serde(serialize_with = "rfc3339"))]
    pub at: SystemTime,
    /// From how many holders.
    pub held: u64,
    /// Who.
    pub by: String,
    /// Why, if that was said.
    pub why: Option<String>,
}

impl ForcedBy {
    /// At this time, in milliseconds since the Unix epoch.
    pub(super) fn new(at: u64, held: u64, by: &Note, why: Option<&Note>) -> Self {
        let text = |note: &Note| note.text().to_owned();
        Self { at: system_time(at), held, by: text(by), why: why.map(text) }
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
    /// The holders lost the lock: all of them, or those that were named.
    Released {
        /// How many holders lost it.
        held: u64,
        /// How many of them were told, and so know it in a moment. The others learn it from their next
        /// renewal.
        told: u64,
        /// A token greater than those of all former holders, and not greater than those of
        /// all later ones. A resource that has seen it refuses the former holders. If readers lost a
        /// lock that their owner goes on to write, it is that writer's.
        fence: Fence,
    },
    /// Nobody held the lock, or none of those that were named. Nothing has changed.
    NotHeld,
    /// The name belongs to something that is not a lock of this crate. Nothing has changed.
    Foreign,
}
