//! One acquisition: wait for its turn in this process, ask the store, wait in
//! its queue, be woken, give up, clean up.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::backoff::{Backoff, NotGranted};
use super::time_limit::within;
use crate::client::pending::PendingRequest;
use crate::core::error::{LockError, Step};
use crate::core::options::{Options, Wait};
use crate::engine::lease::{Lease, LeaseHandle};
use crate::engine::shared::Shared;
use crate::local_queue::{Admission, Entry, Waiter};
use crate::state::lease::Grant;
use crate::state::telemetry;
use crate::store::{Attempt, StoreError, Wanted};

/// Acquires, within the options' wait.
///
/// # Cancel safety
///
/// Dropping it at any point leaves nothing held: the request is armed before
/// its first command is sent, and what it has begun is left to the next in this
/// process, or taken back by the keeper.
pub(crate) async fn acquire(
    shared: &Arc<Shared>,
    wanted: Wanted,
    options: Options,
) -> Result<Lease, LockError> {
    let client = &shared.client;
    client.check_not_forked(Step::Acquire, &wanted.key)?;
    options.check()?;
    options.check_longest(client.store.longest_ttl())?;
    let (begun, kind) = (client.store.now(), wanted.kind);
    let mut result = acquire_since(begun, shared, wanted, options).await;
    if let Err(LockError::TimedOut { key, held_by_caller, .. }) = &mut result {
        *held_by_caller = LeaseHandle::is_around(client.id, key);
    }
    telemetry::acquired(kind, || client.store.now().saturating_duration_since(begun), &result);
    result
}

async fn acquire_since(
    begun: Instant,
    shared: &Arc<Shared>,
    wanted: Wanted,
    options: Options,
) -> Result<Lease, LockError> {
    let client = &shared.client;
    let mut backoff = Backoff::of(&*client.store, begun, options.wait);
    let ttl = options.first_ttl();
    let mut acquisition = if backoff.is_try() {
        // An owner who has it comes in again, whoever waits: that, the store knows.
        if !wanted.may_reenter() && shared.queues.has_waiters(&wanted) {
            // How long they take is not known; a lease of this TTL ends by then.
            return Err(LockError::Busy { key: wanted.key, retry_after: options.ttl, kept: false });
        }
        Acquisition {
            shared,
            pending: Some(PendingRequest::new(client, wanted, ttl)),
            admission: None,
        }
    } else {
        let mut admission = match shared.queues.enter(&wanted, ttl) {
            Entry::Admitted(admission) => admission,
            Entry::Waiter(waiter) => {
                let shutdown = &client.keeper.shutdown;
                // Boxed, as what follows for who waits: all others carry no room for it.
                let admission = Box::pin(async {
                    tokio::select! {
                        biased;
                        () = shutdown.begun() => Err(LockError::ShutDown),
                        admission = wait_for_admission(waiter, options.wait) => Ok(admission),
                    }
                });
                let admission = admission.await?;
                let Some(admission) = admission else {
                    let backoff = backoff.end(client.store.now());
                    return Err(NotGranted::LocalWaiters.into_error(wanted.key, backoff));
                };
                admission
            }
        };
        if let Some((granted, turn, _activity)) = admission.take_up() {
            if let Some(mut lease) = Lease::unless_over(shared, granted, &options) {
                lease.have_turn(Some(turn));
                return Ok(lease);
            }
            admission.ask_instead();
        }
        let pending = match admission.inherit().filter(|pending| pending.can_use_ttl(ttl)) {
            Some(pending) => pending.with_ttl(ttl),
            None => PendingRequest::waiting(client, wanted, ttl),
        };
        Acquisition { shared, pending: Some(pending), admission: Some(admission) }
    };
    let limit = backoff.time_limit(&*client.store, ttl);
    let asked = within(limit, pin!(acquisition.ask_until_granted(&mut backoff, options))).await;
    asked.unwrap_or_else(|no_answer| Err(acquisition.into_error(no_answer)))
}

/// Waits for its turn among those of this process, while there is time.
async fn wait_for_admission(mut waiter: Waiter, wait: Wait) -> Option<Admission> {
    match wait {
        Wait::Forever => waiter.admission().await,
        Wait::For(wait) => timeout(wait, waiter.admission()).await.ok().flatten(),
    }
}

/// What an acquisition has in hand, wherever it is dropped.
struct Acquisition<'a> {
    shared: &'a Arc<Shared>,
    /// It is there until the end.
    pending: Option<PendingRequest>,
    /// Nothing for a call that does not wait: it stands in no line.
    admission: Option<Admission>,
}

impl Acquisition<'_> {
    fn into_error(self, error: StoreError) -> LockError {
        let Some(pending) = &self.pending else { return LockError::ShutDown };
        LockError::store(Step::Acquire, pending.key(), error)
    }

    async fn ask_until_granted(
        &mut self,
        backoff: &mut Backoff,
        options: Options,
    ) -> Result<Lease, LockError> {
        let Some(pending) = &mut self.pending else { return Err(LockError::ShutDown) };
        let mut is_logged = false;
        loop {
            if pending.is_shut_down() {
                return Err(LockError::ShutDown);
            }
            // Who tries need not look at the clock for that.
            let left = if backoff.is_try() { Duration::ZERO } else { backoff.left(pending.now()) };
            let refusal = match pending.ask(left).await {
                Ok(Attempt::Granted { token }) => {
                    let granted = pending.take_grant(token);
                    match lease(self.shared, pending, granted, &options) {
                        Some(lease) => return Ok(in_turn(lease, self.admission.take(), &options)),
                        // The answer came when the lease was over: this process, or
                        // the network, stood still.
                        None => NotGranted::TooLate,
                    }
                }
                Ok(Attempt::Queued { ask_again, .. }) => NotGranted::Queued(ask_again),
                Ok(Attempt::Busy { retry_after, expiry_added, kept }) => {
                    if expiry_added {
                        tracing::warn!("a lock was held without expiry, and was given the TTL");
                        tracing::debug!(key = %pending.key(), "the lock without expiry");
                    }
                    NotGranted::Held { left: retry_after, kept }
                }
                Ok(Attempt::WrongKind) => {
                    return Err(LockError::WrongKind { key: pending.key().clone() });
                }
                Ok(Attempt::WouldDeadlock) => NotGranted::HeldByOwner,
                // Only what was taken back is ended, and this was not: a new id.
                Ok(Attempt::Ended) => {
                    pending.start_anew();
                    NotGranted::TooLate
                }
                Err(error) if !error.is_passing => {
                    return Err(LockError::store(Step::Acquire, pending.key(), error));
                }
                Err(error) => NotGranted::Fault(error),
            };
            // Who waits for ever has no error to tell.
            if let NotGranted::Fault(error) = &refusal
                && options.wait == Wait::Forever
                && !std::mem::replace(&mut is_logged, true)
            {
                let error = &error.source;
                tracing::warn!(%error, "the lock store fails; it is asked again until it answers");
            }
            is_logged &= matches!(refusal, NotGranted::Fault(_));
            let hears = !backoff.is_try() && pending.hears_hints();
            let Some(pause) = backoff.next(pending.now(), &refusal, hears) else {
                return Err(refusal.into_error(pending.key().clone(), backoff));
            };
            // Who was not answered asks again soon, whatever it hears.
            let is_faulty = matches!(refusal, NotGranted::Fault(_));
            if let Some(offer) = Box::pin(pending.wait_for_hint(pause, is_faulty)).await
                && let Some(granted) = pending.take_offer(offer)
                && let Some(lease) = lease(self.shared, pending, granted, &options)
            {
                return Ok(in_turn(lease, self.admission.take(), &options));
            }
            if let Some(admission) = &self.admission {
                admission.note_activity();
            }
        }
    }
}

/// The lease of what was granted, unless it is over already: then it is taken back, and
/// asked for again as another request.
fn lease(
    shared: &Arc<Shared>,
    pending: &mut PendingRequest,
    granted: Grant,
    options: &Options,
) -> Option<Lease> {
    let lease = Lease::unless_over(shared, granted, options);
    if lease.is_none() {
        pending.start_anew();
    }
    lease
}

/// What was granted by the store goes on to those who wait here, for a turn.
fn in_turn(mut lease: Lease, admission: Option<Admission>, options: &Options) -> Lease {
    lease.have_turn(admission.and_then(|admission| admission.granted(options.first_ttl())));
    lease
}

impl Drop for Acquisition<'_> {
    fn drop(&mut self) {
        // In a line, there may be one to go on with it.
        if let Some(admission) = self.admission.take()
            && let Some(pending) = self.pending.take()
            && pending.is_begun()
        {
            admission.leave_behind(pending);
        }
    }
}
