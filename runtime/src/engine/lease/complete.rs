//! The end of a lease whose work has succeeded.

use std::time::{Duration, SystemTime};

use super::tick::Tick;
use super::{Lease, LeaseHandle, Released, Rest, TRIES};
use crate::core::error::{LockError, Step};
use crate::core::system_time::system_time;
use crate::store::{Ask, Ended, Kind};

impl LeaseHandle {
    /// The tick that the lease belongs to. `None` if the lock has no ticks:
    /// [`once_per`](crate::Mutex::once_per), or a schedule.
    #[must_use]
    pub fn tick(&self) -> Option<Tick> {
        Tick::of(self.local())
    }
}

impl Lease {
    /// How much of its tick was left when the lease was granted. Zero without ticks.
    pub(crate) fn tick_left_at_grant(&self) -> Duration {
        match (self.local().tick, self.local().request.kind) {
            (Some(tick), Kind::Once(once)) => once.tick_left(tick.granted),
            _ => Duration::ZERO,
        }
    }

    /// How long ago its tick had begun when the lease was granted. Zero without ticks.
    pub(crate) fn tick_age_at_grant(&self) -> Duration {
        let age = self.local().tick.map(|tick| tick.granted.saturating_sub(tick.began));
        Duration::from_millis(age.unwrap_or(0))
    }

    /// When the run began that last succeeded, if the store remembers one.
    pub(crate) fn last_success(&self) -> Option<SystemTime> {
        self.local().tick?.last.map(system_time)
    }

    /// Releases the mutex, whose work has failed. Nobody gets it for this pause.
    pub(crate) async fn release_and_keep(self, pause: Duration) -> Result<Released, LockError> {
        self.local().pause_until.get_or_init(|| self.client().store.now() + pause);
        self.release().await
    }

    /// The tick that the lease belongs to: the one that ran when the lock was granted. `None`
    /// if the lock has no ticks: [`once_per`](crate::Mutex::once_per), or a schedule.
    #[must_use]
    pub fn tick(&self) -> Option<Tick> {
        Tick::of(self.local())
    }

    /// Says that the work has succeeded, and releases the lock: from now on the work counts as
    /// done, for as long as [`once`](crate::Mutex::once) or
    /// [`once_per`](crate::Mutex::once_per) says. Whoever waits for the lock gets
    /// [`LockError::Done`].
    ///
    /// If the process dies after its work and before this, the work runs again. Let the work
    /// write the tick or the fencing token in its own transaction if that must not happen.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if the lease had ended before. The work does not count as done:
    ///   another process may be running it. Where the answer was lost and the question is
    ///   repeated, this can also come after a success that counted, if the next run has
    ///   succeeded since or the success counts no more.
    /// - [`LockError::InvalidOption`] if the lock has neither `once` nor `once_per`. The lock
    ///   is released.
    /// - [`LockError::Unsupported`] if the store can't remember what was done. No store that
    ///   grants such a lock does that.
    /// - [`LockError::Store`] if the store failed three times, or refuses the client. The
    ///   keeper goes on trying until the TTL is over. With `sync_replicas` also if too few
    ///   replicas have the mark: the server has it, but may lose it in a failover.
    ///
    /// # Cancel safety
    ///
    /// Safe: the work has succeeded, so if the future is dropped after its first poll, the
    /// keeper completes the lease.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::LockError;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = leasehold::Locks::in_memory();
    /// let mail = locks.mutex("invoice-mail:42").once(Duration::from_secs(24 * 60 * 60));
    /// let lease = mail.lock().await?;
    /// lease.run(async { /* send it */ }).await?;
    /// lease.complete().await?;
    ///
    /// assert!(mail.lock().await.is_err_and(|error| error.is_done()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn complete(mut self) -> Result<(), LockError> {
        self.check(Step::Complete)?;
        if !self.may_complete() {
            return Err(LockError::InvalidOption {
                option: "once",
                problem: "the lock has neither `once` nor `once_per`, so its work can't count as \
                          done; set one of them, or release the lease"
                    .to_owned(),
            });
        }
        let was_held = self.stop(self.client().store.now());
        if !was_held && let Some(reason) = self.local().loss() {
            return Err(self.lost_by(reason));
        }
        self.rest = Rest::Complete;
        for tries_left in (0..TRIES).rev() {
            let local = self.local().clone();
            let sent = local.begin_to_send_release();
            let Some(answer) = self.client().store.complete(&local.request, local.success()) else {
                sent.not_sent();
                break;
            };
            match answer.await {
                Err(error) => {
                    sent.failed(&error);
                    if !error.is_passing || tries_left == 0 {
                        return Err(LockError::store(Step::Complete, self.key(), error));
                    }
                }
                Ok(Ended::NotHeld(reason)) => {
                    self.rest = Rest::Nothing;
                    // It would acquire the lock for nobody, and the work is not done.
                    self.client().keeper.cancel_late_grant(&local);
                    if sent.is_first() {
                        return Err(self.lost_on_store(reason).await);
                    }
                    // An earlier try may have done it, so this is told to the caller alone.
                    local.count_out(true);
                    return Err(self.lost_by(reason));
                }
                Ok(_) => {
                    self.rest = Rest::Nothing;
                    self.client().keeper.cancel_late_grant(self.local());
                    self.local().count_out(true);
                    return Ok(());
                }
            }
        }
        Err(LockError::Unsupported { what: "work that succeeds once" })
    }

    /// Returns true if its work can count as done.
    pub(crate) fn may_complete(&self) -> bool {
        matches!(self.local().request.kind, Kind::Once(_))
    }
}
