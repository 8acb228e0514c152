//! The guard of an acquired lock, and how it ends.

mod handle;
mod released;
mod renew;
mod run;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::handle::{LeaseHandle, LeaseState};
pub use self::released::Released;
use super::shared::Shared;
use super::ticket::Ticket;
use crate::client::Client;
use crate::core::error::{LockError, LossReason, Outcome, Step};
use crate::core::fence::Fence;
use crate::core::key::LockKey;
use crate::core::options::Options;
use crate::keeper::loss_reason;
use crate::local_queue::{Asking, TurnId};
use crate::state::lease::{Grant, LocalLease};
use crate::store::Ended;

/// How often a release, or a renewal by hand, is sent before it fails.
const TRIES: u32 = 3;

/// The guard of one acquired lock: the client renews it until it is dropped, and then
/// releases the lock.
///
/// The client renews it every third of its TTL, so you may hold it for longer than the TTL.
/// If the process dies, nobody renews it, and the lock is free after the TTL.
///
/// A drop can't wait for the store. It hands the release to the client's keeper, which
/// works even when the caller's runtime is gone. If the thread that dropped the lease ends
/// meanwhile, its end waits for the release, for at most 2 seconds. Call
/// [`release`](Self::release) to learn whether the lock was held to the end.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// let locks = leasehold::Locks::in_memory();
/// let lease = locks.mutex("order:42").lock().await?;
/// println!("write with the fencing token {}", lease.fence()?);
/// lease.release().await?; // or drop it
/// # Ok(())
/// # }
/// ```
#[must_use = "a lock is released as soon as its lease is dropped: bind it to a name such as `_lease`, and not to `_`"]
pub struct Lease {
    shared: Arc<Shared>,
    handle: LeaseHandle,
    /// The work that its drop has to do.
    rest: Rest,
    /// The turn in which this process may hand it over to its next waiter.
    turn: Option<TurnId>,
    /// How long it may stay with this process after its release.
    linger: Duration,
}

/// The work that is left to do about a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Release it.
    Release,
    /// Release it as if it had never been granted: `hold_at_least` does not apply.
    TakeBack,
    /// Nothing.
    Nothing,
}

impl Lease {
    pub(crate) fn new(shared: &Arc<Shared>, granted: Grant, options: &Options) -> Self {
        let Grant { request, fence, times } = granted;
        let client = &shared.client;
        let (store, shutdown) = (client.store.clone(), client.keeper.shutdown.clone());
        let local = Arc::new(LocalLease::new(store, shutdown, request, fence, times, options));
        client.keeper.watch(&local, local.first_due(times));
        Self {
            shared: shared.clone(),
            handle: LeaseHandle::new(local),
            rest: Rest::Release,
            turn: None,
            linger: options.linger,
        }
    }

    /// The lease of a grant, or nothing if it has ended by now. Then the grant is taken
    /// back, and because nobody has worked under it, `hold_at_least` does not apply.
    pub(crate) fn unless_over(
        shared: &Arc<Shared>,
        granted: Grant,
        options: &Options,
    ) -> Option<Self> {
        let mut lease = Self::new(shared, granted, options);
        if lease.is_held() {
            return Some(lease);
        }
        lease.rest = Rest::TakeBack;
        None
    }

    /// Lets it be handed over inside this process, within this turn.
    pub(crate) fn have_turn(&mut self, turn: Option<TurnId>) {
        self.turn = turn;
    }

    /// The name of the lock.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        self.handle.key()
    }

    /// The fencing token, for the resource to check.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] once the lease is lost: the token is useless.
    /// - [`LockError::NotFenced`] for a permit or a reader's lease, because several are
    ///   held at the same time.
    pub fn fence(&self) -> Result<Fence, LockError> {
        self.handle.fence()
    }

    /// The time until the lease ends, unless it is renewed before. Zero when it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.handle.remaining()
    }

    /// Returns true while the lease is held, by this process's own clock. No command is
    /// sent.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.handle.is_held()
    }

    /// The state of the lease: held, suspect, lost or released, by this process's own
    /// clock. No command is sent.
    #[must_use]
    pub fn state(&self) -> LeaseState {
        self.handle.state()
    }

    /// Waits until the lease is lost: its deadline has passed, or the store has said so. It
    /// is pending for ever if that never happens.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let locks = leasehold::Locks::in_memory();
    /// let lease = locks.mutex("order:42").lock().await?;
    /// tokio::select! {
    ///     reason = lease.lost() => println!("stop: {reason}"),
    ///     () = std::future::ready(()) => println!("the work is done"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lost(&self) -> LossReason {
        self.handle.lost().await
    }

    /// A handle that observes the lease, and neither keeps nor ends it.
    #[must_use]
    pub fn handle(&self) -> LeaseHandle {
        self.handle.clone()
    }

    /// Turns the lease into a ticket for another process. The lock stays held, without
    /// renewals, until [`Locks::adopt`](crate::Locks::adopt) takes it over or its TTL is
    /// over.
    ///
    /// Afterwards the state of this lease's handles is `Released`. The ticket is valid for
    /// [`remaining`](Self::remaining), so call [`renew`](Self::renew) first if it may take
    /// long to arrive. What is left of `hold_at_least` and `max_hold` travels with the
    /// ticket. Their clock stops on the way, and goes on from the adoption.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if the lease had ended before.
    /// - [`LockError::Unsupported`] on a quorum. The lease is released.
    pub fn detach(mut self) -> Result<Ticket, LockError> {
        let ticket = Ticket::of(self.local(), &*self.client().store)?;
        if !self.stop()
            && let Some(reason) = self.local().loss_so_far()
        {
            return Err(self.lost_by(reason));
        }
        self.rest = Rest::Nothing;
        self.local().count_out(false);
        Ok(ticket)
    }

    /// Releases the lock, and waits for the store's answer.
    ///
    /// If the lock is handed over to another task of this process, the store is not asked.
    /// Then this process's own clock says whether the lease was held to the end. The same
    /// holds if the lock [lingers](crate::Mutex::linger) in this process. Then it is not free
    /// on the server; [`release_now`](Self::release_now) frees it.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if the lease had ended before: the work was not protected to
    ///   its end.
    /// - [`LockError::Store`] if the store failed three times, or refuses the client. The
    ///   keeper goes on trying until the TTL is over.
    /// - [`LockError::Quorum`] on a quorum, if too few servers agreed because too many of
    ///   them failed. The keeper goes on trying until the TTL is over.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future drops the lease in it, and the keeper releases the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::Released;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let locks = leasehold::Locks::in_memory();
    /// let lease = locks.mutex("order:42").lock().await?;
    /// assert_eq!(lease.release().await?, Released::Free);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(mut self) -> Result<Released, LockError> {
        self.check(Step::Release)?;
        let was_held = self.stop();
        if !was_held && let Some(reason) = self.local().loss() {
            return Err(self.lost_by(reason));
        }
        let (mut tries_left, mut is_unconfirmed) = (TRIES, false);
        if was_held {
            match self.hand_over() {
                Some(true) => {
                    // The next may be waiting for this thread.
                    tokio::task::yield_now().await;
                    return Ok(Released::Free);
                }
                Some(false) => {
                    // Otherwise a loop that never waits would keep its thread.
                    tokio::task::consume_budget().await;
                    return Ok(Released::Lingers);
                }
                None => {}
            }
            if let Some(asking) = self.begin_lingering() {
                // Boxed: a release that does not ask has no room for it.
                match Box::pin(asking.settle()).await {
                    Ok(ended) => {
                        self.rest = Rest::Nothing;
                        self.local().count_out(!matches!(ended, Some(Ended::NotHeld(_))));
                        return match ended {
                            None => Ok(Released::Lingers),
                            Some(Ended::NotHeld(reason)) => Err(self.lost_on_store(reason).await),
                            Some(_) => {
                                self.client().keeper.cancel_late_grant(self.local());
                                Ok(Released::Free)
                            }
                        };
                    }
                    Err(error) => is_unconfirmed = error.outcome == Outcome::Unknown,
                }
            }
        }
        loop {
            tries_left -= 1;
            let answer = self.client().store.release(&self.local().request, self.local().keep());
            // A task of this process that asks from now on is behind this release.
            self.end_turn();
            match answer.await {
                Err(error) if error.is_passing && tries_left > 0 => {
                    is_unconfirmed |= error.outcome == Outcome::Unknown;
                }
                Err(error) => return Err(LockError::store(Step::Release, self.key(), error)),
                Ok(answer) => {
                    self.rest = Rest::Nothing;
                    self.client().keeper.cancel_late_grant(self.local());
                    self.local().count_out(!matches!(answer, Ended::NotHeld(_)));
                    return match answer {
                        Ended::Kept => Ok(Released::Kept),
                        Ended::StillHeld(left) => Ok(Released::StillHeld(left)),
                        Ended::NotHeld(reason) if !is_unconfirmed || !was_held => {
                            Err(self.lost_on_store(reason).await)
                        }
                        // Not held after a release that had no answer, and not known
                        // to be lost before: that one did it.
                        Ended::Released | Ended::NotHeld(_) => Ok(Released::Free),
                    };
                }
            }
        }
    }

    /// Releases the lock on the server, also if it would [linger](crate::Mutex::linger) in
    /// this process. Otherwise it does what [`release`](Self::release) does.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if the lease had ended before: the work was not protected to
    ///   its end.
    /// - [`LockError::Store`] if the store failed three times, or refuses the client. The
    ///   keeper goes on trying until the TTL is over.
    /// - [`LockError::Quorum`] on a quorum, if too few servers agreed because too many of
    ///   them failed. The keeper goes on trying until the TTL is over.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future drops the lease in it, and the keeper releases the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::Released;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let locks = leasehold::Locks::in_memory();
    /// let cart = locks.mutex("cart:42").linger(Duration::from_secs(2));
    /// assert_eq!(cart.lock().await?.release().await?, Released::Lingers);
    /// assert_eq!(cart.lock().await?.release_now().await?, Released::Free);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release_now(mut self) -> Result<Released, LockError> {
        self.linger = Duration::ZERO;
        if let Some(turn) = self.turn {
            self.shared.queues.stop_lingering(&self.local().request, turn);
        }
        self.release().await
    }

    fn client(&self) -> &Client {
        &self.shared.client
    }

    fn local(&self) -> &Arc<LocalLease> {
        self.handle.local()
    }

    fn check(&self, step: Step) -> Result<(), LockError> {
        self.client().check_not_forked(step, self.key())
    }

    /// The error of a lease that the store does not hold any more.
    async fn lost_on_store(&self, reason: LossReason) -> LockError {
        let request = &self.local().request;
        self.lost_by(loss_reason(&self.client().store, request, reason).await)
    }

    fn lost_by(&self, reason: LossReason) -> LockError {
        LockError::Lost { key: self.key().clone(), reason }
    }

    /// Hands a lease that has just ended to the next waiter in this process. If nobody waits,
    /// it may stay here, idle: then it gives false. `None` if it is to be released instead.
    fn hand_over(&mut self) -> Option<bool> {
        let local = self.local();
        let (queues, lingers) = (&self.shared.queues, !self.linger.is_zero());
        let next = |turn| queues.hand_over(turn, local, local.times_to_hand_over()?, lingers);
        let next = self.turn.and_then(next)?;
        // Before others are woken, whatever that does.
        (self.turn, self.rest) = (None, Rest::Nothing);
        self.local().count_out(true);
        Some(next.wake())
    }

    /// Asks the store whether a lease that has just ended may stay with this process.
    fn begin_lingering(&mut self) -> Option<Asking> {
        if self.linger.is_zero() {
            return None;
        }
        let asking = self.shared.queues.begin_lingering(self.local(), self.turn, self.linger)?;
        self.turn = None;
        Some(asking)
    }

    /// Leaves a lease that has just ended to this process. False if it is to be released.
    fn leave_here(&mut self) -> bool {
        if self.hand_over().is_some() {
            return true;
        }
        let Some(asking) = self.begin_lingering() else { return false };
        let (local, keeper) = (self.local().clone(), self.client().keeper.clone());
        self.client().keeper.run(Box::pin(async move {
            match asking.settle().await {
                Ok(_) => local.count_out(true),
                Err(_) => keeper.release_later(&local, true),
            }
        }));
        true
    }

    fn end_turn(&mut self) {
        if let Some(turn) = self.turn.take() {
            self.shared.queues.end_turn(&self.local().request, turn);
        }
    }

    /// Ends the renewals. Returns false if the lease was lost before.
    fn stop(&self) -> bool {
        let was_held = self.local().begin_release();
        self.client().keeper.forget(self.local());
        was_held
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.rest != Rest::Nothing {
            // A copy in a process that was forked off is not the lease.
            if self.client().keeper.check_not_forked().is_err() {
                return;
            }
            let was_held = self.stop();
            if self.rest == Rest::TakeBack || !was_held || !self.leave_here() {
                self.client().keeper.release_later(self.local(), self.rest == Rest::Release);
            }
        }
        self.end_turn();
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.show("Lease", f)
    }
}
