//! The guard: what acquiring gives, and what ends it.

mod handle;
mod released;
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
use crate::keeper::{RenewOutcome, loss_reason, renew};
use crate::local_queue::TurnId;
use crate::state::lease::{Grant, LocalLease};
use crate::store::Ended;

/// How often a release, or a renewal by hand, is sent before it is given up.
const TRIES: u32 = 3;

/// The right to a lock, for as long as it is renewed: released when dropped.
///
/// The client renews it every third of its TTL until it is released, so it
/// may be held for longer than the TTL; a process that dies stops renewing,
/// and the lock is free after the TTL.
///
/// Dropping cannot wait for the store, so it hands the release to the keeper,
/// which also serves when the caller's runtime is gone, and makes the thread
/// it was dropped on wait for it, for at most 2 seconds, when that thread
/// ends. Call [`release`](Self::release) to learn whether the lock was held to
/// the end.
#[must_use = "a lock is released as soon as its lease is dropped: bind it to a name such as `_lease`, and not to `_`"]
pub struct Lease {
    shared: Arc<Shared>,
    handle: LeaseHandle,
    /// What is left to be done about it when it is dropped.
    rest: Rest,
    /// The turn in which the next in this process may have it.
    turn: Option<TurnId>,
}

/// What is left to be done about a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// It is to be released.
    Release,
    /// The same, and as if it had never been granted: nothing is kept.
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
        }
    }

    /// The lease of a grant, unless it is over by now: then it is taken back, and as nobody
    /// has worked under it, nothing is kept.
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

    /// The next in this process may have it, within this turn.
    pub(crate) fn have_turn(&mut self, turn: Option<TurnId>) {
        self.turn = turn;
    }

    /// The lock.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        self.handle.key()
    }

    /// The fencing token, for the resource to check.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] once the lease is lost: its token is of no use.
    /// - [`LockError::NotFenced`] for a permit or a reader's lease, of which several
    ///   are out.
    pub fn fence(&self) -> Result<Fence, LockError> {
        self.handle.fence()
    }

    /// How long it lasts, unless it is renewed before; zero when it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.handle.remaining()
    }

    /// Whether it is held now, by this process's own clock: no command is sent.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.handle.is_held()
    }

    /// How it stands, by this process's own clock: no command is sent.
    #[must_use]
    pub fn state(&self) -> LeaseState {
        self.handle.state()
    }

    /// Resolves when the lease is lost: when its deadline has passed, or the
    /// store has said so. It is pending for ever if it is not.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is lost when it is dropped.
    pub async fn lost(&self) -> LossReason {
        self.handle.lost().await
    }

    /// A handle that tells about the lease, and neither keeps nor ends it.
    #[must_use]
    pub fn handle(&self) -> LeaseHandle {
        self.handle.clone()
    }

    /// Lets the lease run for its whole TTL from now, or for what is left of its
    /// `max_hold`, and waits for the store's answer.
    ///
    /// Leases are renewed unasked; this is for those that were acquired with
    /// `auto_renew(false)`, and before [`detach`](Self::detach).
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if the lease has ended: nothing brings it back.
    /// - [`LockError::Store`] if the store failed. The lease is held until its
    ///   deadline, as before.
    ///
    /// # Cancel safety
    ///
    /// Safe: it is renewed, or not, and holds either way.
    pub async fn renew(&self) -> Result<(), LockError> {
        self.check(Step::Renew)?;
        for tries_left in (0..TRIES).rev() {
            if !self.is_held() {
                break;
            }
            let was_final = self.local().is_final();
            match renew(&self.client().store, self.local()).await {
                Ok(RenewOutcome::Held(next)) => {
                    // One that is not renewed is looked at when it ends, which is later now.
                    let is_new = !was_final && !self.local().is_renewed();
                    if let Some(next) = next.filter(|_| is_new) {
                        self.client().keeper.watch(self.local(), next);
                    }
                    break;
                }
                Ok(RenewOutcome::Gone(reason)) => {
                    // Not in here: this may be polled by `run`, which stops that now.
                    self.client().keeper.report_loss_later(self.local(), reason);
                    break;
                }
                Err(error) if error.is_passing && tries_left > 0 => {}
                Err(error) => return Err(LockError::store(Step::Renew, self.key(), error)),
            }
        }
        if self.is_held() { Ok(()) } else { Err(self.lost_by(self.lost().await)) }
    }

    /// Gives the lease away: it stays held, and is renewed no more, until another
    /// process takes it up by [`Locks::adopt`](crate::Locks::adopt), or its TTL ends it.
    ///
    /// This guard and its handles are spent before the ticket exists. The lease lasts
    /// for [`remaining`](Self::remaining): [`renew`](Self::renew) it before if the
    /// ticket has a way to go. What is left of `hold_at_least` and `max_hold` goes with
    /// the ticket, and is counted on from the adoption.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lease had ended before, [`LockError::Unsupported`] on a
    /// quorum: it is released then.
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

    /// Releases the lock and waits for the store's answer. What goes to the next task of
    /// this process has none: then this process's own clock says whether it was held to
    /// the end.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if the lease had ended before: the work was not
    ///   protected to its end.
    /// - [`LockError::Store`] if the store failed. The keeper goes on until the TTL is over.
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped, the lease inside it is dropped too, and
    /// the keeper releases the lock.
    pub async fn release(mut self) -> Result<Released, LockError> {
        self.check(Step::Release)?;
        let was_held = self.stop();
        if !was_held && let Some(reason) = self.local().loss() {
            return Err(self.lost_by(reason));
        }
        if was_held && self.hand_over() {
            // The next may be waiting for this thread.
            tokio::task::yield_now().await;
            return Ok(Released::Free);
        }
        let (mut tries_left, mut is_unconfirmed) = (TRIES, false);
        loop {
            tries_left -= 1;
            let answer = self.client().store.release(&self.local().request, self.local().keep());
            // Who asks next in this process is behind it.
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
                            let request = &self.local().request;
                            let reason = loss_reason(&self.client().store, request, reason).await;
                            Err(self.lost_by(reason))
                        }
                        // Not held after a release that had no answer, and not known
                        // to be lost before: that one did it.
                        Ended::Released | Ended::NotHeld(_) => Ok(Released::Free),
                    };
                }
            }
        }
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

    fn lost_by(&self, reason: LossReason) -> LockError {
        LockError::Lost { key: self.key().clone(), reason }
    }

    /// Gives what has just ended to the next who waits in this process. False if it is to
    /// be released.
    fn hand_over(&mut self) -> bool {
        let local = self.local();
        let next = |turn| self.shared.queues.hand_over(turn, local, local.times_to_hand_over()?);
        let Some(next) = self.turn.and_then(next) else { return false };
        // Before others are woken, whatever that does.
        (self.turn, self.rest) = (None, Rest::Nothing);
        self.local().count_out(true);
        next.wake();
        true
    }

    fn end_turn(&mut self) {
        if let Some(turn) = self.turn.take() {
            self.shared.queues.end_turn(&self.local().request, turn);
        }
    }

    /// Ends the renewals; false if the lease was lost before.
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
            if self.rest == Rest::TakeBack || !was_held || !self.hand_over() {
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
