//! Releasing a lease: to the store, to the next waiter of this process, or to nobody yet.

#[cfg(feature = "tower")]
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Lease, Released, Rest, TRIES};
use crate::core::error::{LockError, LossReason, Step};
use crate::keeper::{Keeper, report_late_loss};
use crate::local_queue::Asking;
use crate::state::lease::LocalLease;
use crate::store::{Ended, StoreError};

impl Lease {
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
        let now = self.client().store.now();
        let was_held = self.local().begin_release(now);
        match was_held.then(|| self.hand_over(now)).flatten() {
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
            None => self.client().keeper.forget(self.local()),
        }
        if !was_held && let Some(reason) = self.local().loss() {
            return Err(self.lost_by(reason));
        }
        if was_held && let Some(asking) = self.begin_lingering(now) {
            // Boxed: a release that does not ask has no room for it.
            let asked = Box::pin(settle(asking, self.local(), &self.client().keeper)).await;
            if let Ok(ended) = asked {
                self.rest = Rest::Nothing;
                return match ended {
                    None => Ok(Released::Lingers),
                    Some(Ended::NotHeld(reason)) => Err(self.lost_on_store(reason).await),
                    Some(_) => Ok(Released::Free),
                };
            }
        }
        let mut tries_left = TRIES;
        loop {
            tries_left -= 1;
            let turn = self.turn.take();
            let answer = self.local().send_release(was_held);
            // A task of this process that asks from now on is behind this release.
            self.end_turn(turn);
            match answer.await {
                Err(error) if !error.is_passing || tries_left == 0 => {
                    return Err(LockError::store(Step::Release, self.key(), error));
                }
                Err(_) => {}
                Ok(answer) => {
                    self.rest = Rest::Nothing;
                    self.client().keeper.cancel_late_grant(self.local());
                    let released = match answer {
                        Ended::NotHeld(reason) => return Err(self.lost_on_store(reason).await),
                        Ended::Released => Released::Free,
                        Ended::Kept => Released::Kept,
                        Ended::StillHeld(left) => Released::StillHeld(left),
                    };
                    self.local().count_out(true);
                    return Ok(released);
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
        self.check(Step::Release)?;
        self.linger = Duration::ZERO;
        if let Some(turn) = self.turn {
            self.shared.queues.stop_lingering(&self.local().request, turn);
        }
        self.release().await
    }

    /// Releases the lease, or completes it if its work is a success and may count as done. The
    /// future is ready when the store has answered, or when it has failed as often as
    /// [`release`](Self::release) allows: then the keeper goes on. Dropping it leaves the rest to
    /// the keeper, too. `None` if the lease was lost, and there is nothing to wait for.
    #[cfg(feature = "tower")]
    pub(crate) fn end(
        mut self,
        is_success: bool,
    ) -> Option<impl Future<Output = ()> + Send + use<>> {
        let (is_held, loss) = (self.is_held(), self.local().loss_so_far());
        if !is_held && !loss.is_some_and(LossReason::ends_by_release) {
            return None;
        }
        Some(async move {
            if !is_held {
                self.release_after_loss().await;
            } else if is_success && self.may_complete() {
                let _ = self.complete().await;
            } else {
                let _ = self.release().await;
            }
        })
    }

    #[cfg(feature = "tower")]
    async fn release_after_loss(&mut self) {
        self.client().keeper.forget(self.local());
        // If it fails, the keeper goes on.
        if let Ok(answer) = self.local().send_release(false).await {
            self.rest = Rest::Nothing;
            self.client().keeper.cancel_late_grant(self.local());
            self.local().count_out(!matches!(answer, Ended::NotHeld(_)));
        }
    }

    /// The error of a lease that the store does not hold any more.
    pub(super) async fn lost_on_store(&self, reason: LossReason) -> LockError {
        // Boxed: seldom, and a release has no room for it.
        let report = Box::pin(report_late_loss(&self.client().store, self.local(), reason));
        self.lost_by(report.await)
    }

    /// Hands a lease that has just ended to the next waiter in this process. If nobody waits,
    /// it may stay here, idle: then it gives false. The keeper no longer handles it. `None` if
    /// it is to be released instead.
    pub(super) fn hand_over(&mut self, now: Instant) -> Option<bool> {
        let (turn, local) = (self.turn?, self.local());
        let times = local.times_to_hand_over(now)?;
        let keeper = &self.client().keeper;
        let mut has_left = false;
        let place = || {
            let place = keeper.leave_place(local);
            has_left = place.is_some();
            place
        };
        let next = self.shared.queues.hand_over(turn, local, times, self.linger, place)?;
        if !has_left {
            keeper.forget(local);
        }
        // Before others are woken, whatever that does.
        (self.turn, self.rest) = (None, Rest::Nothing);
        // It goes on, and is released later.
        self.local().count_out(false);
        Some(next.wake())
    }

    /// Asks the store whether a lease that has just ended may stay with this process.
    fn begin_lingering(&mut self, now: Instant) -> Option<Asking> {
        if self.linger.is_zero() {
            return None;
        }
        let times = self.local().times_to_hand_over(now)?;
        let (queues, lasts) = (&self.shared.queues, self.linger);
        let asking = queues.begin_lingering(self.local(), times, self.turn, lasts)?;
        self.turn = None;
        Some(asking)
    }

    /// Asks the store in the background whether a lease that has just ended may stay with this
    /// process. False if it is to be released.
    pub(super) fn linger_later(&mut self, now: Instant) -> bool {
        let Some(asking) = self.begin_lingering(now) else { return false };
        let (local, keeper) = (self.local().clone(), self.client().keeper.clone());
        let store = self.client().store.clone();
        let counted = keeper.begin_release(self.key());
        self.client().keeper.run(Box::pin(async move {
            match settle(asking, &local, &keeper).await {
                Ok(Some(Ended::NotHeld(reason))) => {
                    report_late_loss(&store, &local, reason).await;
                }
                Ok(_) => {}
                Err(_) => keeper.release_as(counted, &local, true),
            }
        }));
        true
    }
}

/// Waits until the store has said whether a lease stays with this process, and notes how it
/// ended if it does not. An error leaves the release to the caller.
async fn settle(
    asking: Asking,
    local: &Arc<LocalLease>,
    keeper: &Keeper,
) -> Result<Option<Ended>, StoreError> {
    let sent = local.begin_to_send_release();
    let ended = asking.settle().await.transpose().map(|it| sent.answered(it)).transpose()?;
    if !matches!(ended, Some(Ended::NotHeld(_))) {
        // One that stays is released later.
        local.count_out(ended.is_some());
    }
    if ended.is_some() {
        keeper.cancel_late_grant(local);
    }
    Ok(ended)
}
