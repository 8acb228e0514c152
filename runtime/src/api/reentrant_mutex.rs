//! The reentrant mutex: one owner at a time, which may lock it again.

use super::lock_options::{common_setters, setters, text_setters};
use super::lock_spec::LockSpec;
use crate::core::error::LockError;
use crate::engine::lease::Lease;
use crate::store::Kind;

/// A mutex that its owner may lock again while it holds it: a cheap handle, from
/// [`Locks::reentrant_mutex`](crate::Locks::reentrant_mutex).
///
/// The owner is a name that you choose, such as a job's id. It is never a thread or a task,
/// because async code moves between them. Callers that give the same name are one owner, in
/// whatever process they run.
///
/// Each `lock` makes a lease with a TTL of its own. The mutex is free when the owner's last
/// lease is released or has ended. All leases of an owner have the same fencing token, for
/// as long as the owner holds one of them. A request that is sent twice, because a reply
/// was lost, makes one lease.
///
/// Prefer a [`Mutex`](crate::Mutex) where you can, and pass its lease to the functions that
/// need the lock. Then the code shows who relies on it.
///
/// The idea is Redisson's `RLock`. It counts an owner's locks; this mutex keeps a set of leases.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// let locks = leasehold::Locks::in_memory();
/// let outer = locks.reentrant_mutex("import").owner("job-7").lock().await?;
/// let inner = locks.reentrant_mutex("import").owner("job-7").lock().await?;
/// assert!(locks.reentrant_mutex("import").owner("job-8").try_lock().await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a mutex does nothing until it is locked"]
pub struct ReentrantMutex {
    spec: LockSpec,
}

impl ReentrantMutex {
    pub(crate) fn new(spec: LockSpec) -> Self {
        Self { spec }
    }

    setters! {
        (spec.given):
        /// The owner of these leases: 1 to 128 bytes without control characters. It is
        /// required.
        owner;
        /// How long a lease lasts without a renewal: 100 ms to 24 h, by default 30 s. The
        /// client renews it every third of this time. The owner's other leases keep their own
        /// TTLs.
        ttl;
        /// How long [`lock`](Self::lock) waits: a duration, or [`Wait::Forever`](crate::Wait::Forever). The default
        /// is 10 s.
        wait;
    }

    common_setters!((spec.given));

    text_setters!((spec.given));

    /// Acquires the lock for its owner. While other owners hold it, waits for at most
    /// [`wait`](Self::wait).
    ///
    /// Owners are served in the order in which they came. An owner that holds the lock
    /// already gets another lease at once. It does not queue behind its own waiters.
    ///
    /// # Errors
    ///
    /// - [`LockError::TimedOut`] if other owners held the lock, or were before this one in
    ///   the queue, for the whole wait.
    /// - [`LockError::Busy`] in the same case, with a wait of zero.
    /// - [`LockError::InvalidOption`] if there is no owner, or an option is out of its
    ///   range. No command is sent.
    #[doc = include_str!("errors/waiting.md")]
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped before it is ready, it leaves no lease. It gives
    /// up its place in the queue as [`Mutex::lock`](crate::Mutex::lock) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::Released;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// let import = locks.reentrant_mutex("import").owner("job-7");
    ///
    /// let outer = import.lock().await?;
    /// let inner = import.lock().await?;
    /// assert_eq!(outer.fence()?, inner.fence()?);
    /// assert_eq!(inner.release().await?, Released::StillHeld(1));
    /// assert_eq!(outer.release().await?, Released::Free);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock(&self) -> impl Future<Output = Result<Lease, LockError>> + Send + use<> {
        self.spec.acquire(self.kind())
    }

    /// Acquires the lock if its owner holds it already, or if it is free and has no
    /// waiters, and never waits.
    ///
    /// # Errors
    ///
    /// - [`LockError::Busy`] if its owner does not hold the lock, and others hold it or
    ///   wait for it.
    /// - [`LockError::InvalidOption`] if there is no owner, or an option is out of its
    ///   range. No command is sent.
    #[doc = include_str!("errors/trying.md")]
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped before it is ready, it leaves no lease.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// let import = |job: &str| locks.reentrant_mutex("import").owner(job);
    /// let outer = import("job-7").try_lock().await?;
    /// let inner = import("job-7").try_lock().await?;
    /// assert!(import("job-8").try_lock().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_lock(&self) -> impl Future<Output = Result<Lease, LockError>> + Send + use<> {
        self.spec.try_acquire(self.kind())
    }

    fn kind(&self) -> Result<Kind, LockError> {
        if self.spec.given.owner.is_some() {
            return Ok(Kind::Reentrant);
        }
        Err(LockError::InvalidOption {
            option: "owner",
            problem: "a reentrant mutex needs an owner; name it with `.owner(…)`".to_owned(),
        })
    }
}
