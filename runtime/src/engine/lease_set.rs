//! The guard of several locks that were acquired together.

mod closure;
mod handle;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join_all;

pub use self::handle::LeaseSetHandle;
use super::lease::{Lease, LeaseHandle, LeaseState, Scope};
use super::rate_status::RateStatus;
use crate::core::error::{LockError, LossReason};
use crate::core::fence::Fence;
use crate::core::key::LockKey;
use crate::core::timers::check_timers;

/// The leases of several locks that were acquired together, by
/// [`MultiLock`](crate::MultiLock). They are released when the set is dropped.
///
/// Each is a [`Lease`] of its own: it is renewed by itself, and that of a mutex has its own
/// fencing token. The work under the set is protected as long as all of them are held. When one is lost,
/// the others stay held until they are released or dropped.
///
/// Bind it to a name, as a [`Lease`]: `let _ = …` would drop it at once.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// let locks = leasehold::Locks::in_memory();
/// let leases = locks.all(["account:1", "account:2"]).lock().await?;
/// assert_eq!(leases.len(), 2);
/// assert!(leases.fence("account:2").is_ok());
/// leases.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the locks are released as soon as their leases are dropped: write `let _leases = ...`; `let _ = ...` releases them at once"]
pub struct LeaseSet {
    /// In the order of their names.
    leases: Vec<Lease>,
    /// In the order of their names.
    pub(super) rates: Vec<RateStatus>,
}

impl LeaseSet {
    /// An empty set.
    pub(crate) const fn new() -> Self {
        Self { leases: Vec::new(), rates: Vec::new() }
    }

    /// The set of leases that were parts of one, in the order of their names.
    #[cfg(feature = "tower")]
    pub(crate) fn of(leases: Vec<Lease>) -> Self {
        Self { leases, rates: Vec::new() }
    }

    #[cfg(feature = "tower")]
    pub(crate) fn into_leases(self) -> Vec<Lease> {
        self.leases
    }

    #[cfg(feature = "tower")]
    pub(crate) fn leases_mut(&mut self) -> &mut [Lease] {
        &mut self.leases
    }

    pub(crate) fn push(&mut self, lease: Lease) {
        let is_sorted =
            self.leases.last().is_none_or(|last| last.key().name() < lease.key().name());
        debug_assert!(is_sorted, "sets that overlap could wait for each other for ever");
        self.leases.push(lease);
    }

    /// The leases one by one, in the order of their names.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Lease> {
        self.leases.iter()
    }

    /// A handle that observes the set from elsewhere. It does not keep the leases.
    #[must_use]
    pub fn handle(&self) -> LeaseSetHandle {
        LeaseSetHandle::new(self.handles().cloned())
    }

    fn handles(&self) -> impl Iterator<Item = &LeaseHandle> {
        self.leases.iter().map(Lease::as_handle)
    }

    /// How each rate stood when its part was taken, in the order of the names.
    #[must_use]
    pub fn rates(&self) -> &[RateStatus] {
        &self.rates
    }

    /// The number of leases: one for each lock.
    #[must_use]
    pub fn len(&self) -> usize {
        self.leases.len()
    }

    /// Returns true if it is a set of rates alone.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// The state of all leases together, by this process's own clock. No command is sent.
    ///
    /// It is [`Lost`](LeaseState::Lost) once one lease is lost,
    /// [`Suspect`](LeaseState::Suspect) while the last renewal of one has failed, and
    /// otherwise [`Held`](LeaseState::Held).
    #[must_use]
    pub fn state(&self) -> LeaseState {
        handle::state(self.handles())
    }

    /// Renews all leases at the same time, for their whole TTL or for the rest of their
    /// `max_hold`, and waits for the store's answers.
    ///
    /// # Errors
    ///
    /// The error of the first lease, in the order of the locks' names, that was not
    /// renewed:
    ///
    /// - [`LockError::Lost`] if it has ended: nothing brings it back.
    /// - [`LockError::Store`] if the store failed three times, or refuses the client. The
    ///   lease is held until its deadline, as before.
    ///
    /// # Cancel safety
    ///
    /// Safe: each lease is renewed or not, and stays held either way.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let locks = leasehold::Locks::in_memory();
    /// let pair = locks.all(["a", "b"]).ttl(Duration::from_secs(10)).auto_renew(false);
    /// let leases = pair.lock().await?;
    /// tokio::time::sleep(Duration::from_secs(6)).await;
    /// leases.renew().await?;
    /// assert!(leases.remaining() > Duration::from_secs(9));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn renew(&self) -> Result<(), LockError> {
        join_all(self.iter().map(Lease::renew)).await.into_iter().collect()
    }

    /// The fencing token of one mutex, for the resource that checks it.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] once any lease of the set is lost.
    /// - [`LockError::NotFenced`] for a permit or a reader, because several are held at the same time.
    /// - [`LockError::InvalidOption`] if the set has no lock of that name.
    pub fn fence(&self, key: impl AsRef<str>) -> Result<Fence, LockError> {
        handle::fence(self.handles(), key.as_ref())
    }

    /// The time until the first lease ends, unless it is renewed before. Zero once one is
    /// lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        handle::remaining(self.handles())
    }

    /// Returns true while all leases are held, by this process's own clock. No command is
    /// sent.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.iter().all(Lease::is_held)
    }

    /// Waits until the first lease is lost, and returns its lock and the reason. It is
    /// pending for ever if none is.
    ///
    /// # Panics
    ///
    /// If it has to wait outside of a Tokio runtime with timers.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::LossReason;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let locks = leasehold::Locks::in_memory();
    /// let leases = locks.all(["a", "b"]).lock().await?;
    /// let _ = locks.force_release("b").await?;
    /// let (key, reason) = leases.lost().await;
    /// assert_eq!((key.name(), reason), ("b", LossReason::Forced));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lost(&self) -> (LockKey, LossReason) {
        handle::lost(self.handles()).await
    }

    /// Runs a function under the leases, the first one outermost. If it `lasts`, the function is a
    /// part of work that ends with the first loss at the latest.
    #[cfg(feature = "tower")]
    pub(crate) fn sync_scope<R>(&self, lasts: bool, work: impl FnOnce() -> R) -> R {
        let _in_span = self.leases.last().map(|last| last.hold().enter());
        Scope::sync_around(Scope::of_set(self.handles(), lasts), work)
    }

    /// Runs a future under the leases to its end, whatever becomes of them.
    #[cfg(feature = "macros")]
    pub(crate) async fn run_to_the_end<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(Scope::around(Scope::of_set(self.handles(), false), work));
        poll_fn(|context| {
            let _in_span = self.leases.last().map(|last| last.hold().enter());
            work.as_mut().poll(context)
        })
        .await
    }

    /// Runs a future under the leases, and drops it when one of them is lost. Inside,
    /// [`LeaseSetHandle::current`] returns this set's handle, and
    /// [`LeaseHandle::current`](crate::LeaseHandle::current) that of its last lease.
    ///
    /// The deadlines are checked before each poll, so work that was paused past one does not
    /// go on.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if a lease was lost before the future was ready.
    /// - [`LockError::NoRuntime`] outside of a Tokio runtime with timers. The future is dropped.
    ///
    /// # Cancel safety
    ///
    /// As safe as the given future, which is dropped with this one.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let locks = leasehold::Locks::in_memory();
    /// let leases = locks.all(["account:1", "account:2"]).lock().await?;
    /// leases.run(async { /* move the money */ }).await?;
    /// leases.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockError> {
        check_timers()?;
        let mut loss = pin!(self.lost());
        let mut work = pin!(Scope::around(Scope::of_set(self.handles(), true), work));
        poll_fn(|context| {
            if let Poll::Ready((key, reason)) = loss.as_mut().poll(context) {
                return Poll::Ready(Err(LockError::Lost { key, reason }));
            }
            if !self.is_held() {
                // One is lost, and how will be known soon.
                return Poll::Pending;
            }
            let _in_span = self.leases.last().map(|last| last.hold().enter());
            work.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Releases all locks at the same time, and waits for the store's answers. It tries all,
    /// even if one fails.
    ///
    /// # Errors
    ///
    /// The error of the first lock, in the order of the names, whose release failed:
    ///
    /// - [`LockError::Lost`] if its lease had ended before: the work was not protected to
    ///   its end.
    /// - [`LockError::Store`] if the store failed three times, or refuses the client. The
    ///   keeper goes on trying until the TTL is over.
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped, the keeper releases the remaining locks.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let locks = leasehold::Locks::in_memory();
    /// let leases = locks.all(["account:1", "account:2"]).lock().await?;
    /// leases.release().await?;
    /// assert!(locks.mutex("account:1").try_lock().await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Result<(), LockError> {
        let released = join_all(self.leases.into_iter().map(Lease::release)).await;
        released.into_iter().try_for_each(|released| released.map(drop))
    }
}

impl<'a> IntoIterator for &'a LeaseSet {
    type Item = &'a Lease;
    type IntoIter = std::slice::Iter<'a, Lease>;

    fn into_iter(self) -> Self::IntoIter {
        self.leases.iter()
    }
}
