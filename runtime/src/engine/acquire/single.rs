//! One acquisition: wait for its turn in this process, ask the store, wait in
//! its queue, be woken, give up, clean up.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::backoff::{Pace, Refusal};
use super::time_limit::{silent, within};
use crate::client::pending::Asking;
use crate::core::error::{LockError, Step};
use crate::core::options::{Options, Wait};
use crate::engine::lease::{Lease, LeaseHandle};
use crate::engine::shared::Shared;
use crate::local_queue::{Admission, Behind, Entry};
use crate::state::lease::Granted;
use crate::state::telemetry;
use crate::store::{Attempt, Wanted};

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
    let check = client.keeper.check();
    check.map_err(|error| LockError::store(Step::Acquire, &wanted.key, error))?;
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
    let mut pace = Pace::of(&*client.store, begun, options.wait);
    let ttl = options.first_ttl();
    let mut acquisition = if pace.is_try() {
        // An owner who has it comes in again, whoever waits: that, the store knows.
        if !wanted.may_be_had_already() && shared.queues.has_waiters(&wanted) {
            // How long they take is not known; a lease of this TTL ends by then.
            return Err(LockError::Busy { key: wanted.key, retry_after: options.ttl, kept: false });
        }
        Acquisition { shared, asking: Some(Asking::new(client, wanted, ttl)), admission: None }
    } else {
        let mut admission = match shared.queues.enter(&wanted, ttl) {
            Entry::Admitted(admission) => admission,
            Entry::Behind(behind) => {
                let shutdown = &client.keeper.shutdown;
                // Boxed, as what follows for who waits: all others carry no room for it.
                let admission = Box::pin(async {
                    tokio::select! {
                        biased;
                        () = shutdown.begun() => Err(LockError::ShutDown),
                        admission = behind_others(behind, options.wait) => Ok(admission),
                    }
                });
                let admission = admission.await?;
                let Some(admission) = admission else {
                    let pace = pace.end(client.store.now());
                    return Err(Refusal::Behind.into_error(wanted.key, pace));
                };
                admission
            }
        };
        if let Some((granted, turn, _stay)) = admission.take_up() {
            if let Some(mut lease) = Lease::unless_over(shared, granted, &options) {
                lease.have_turn(Some(turn));
                return Ok(lease);
            }
            admission.ask_instead();
        }
        let asking = match admission.inherit().filter(|asking| asking.may_last(ttl)) {
            Some(asking) => asking.inherited(ttl),
            None => Asking::waiting(client, wanted, ttl),
        };
        Acquisition { shared, asking: Some(asking), admission: Some(admission) }
    };
    let most = pace.most(&*client.store, ttl);
    let asked = within(most, pin!(acquisition.ask_until_granted(&mut pace, options))).await;
    asked.unwrap_or_else(|| Err(acquisition.had_no_answer()))
}

/// Waits for its turn among those of this process, while there is time.
async fn behind_others(mut behind: Behind, wait: Wait) -> Option<Admission> {
    match wait {
        Wait::Forever => behind.admission().await,
        Wait::For(wait) => timeout(wait, behind.admission()).await.ok().flatten(),
    }
}

/// What an acquisition has in hand, wherever it is dropped.
struct Acquisition<'a> {
    shared: &'a Arc<Shared>,
    /// It is there until the end.
    asking: Option<Asking>,
    /// Nothing for a call that does not wait: it stands in no line.
    admission: Option<Admission>,
}

impl Acquisition<'_> {
    fn had_no_answer(&self) -> LockError {
        let Some(asking) = &self.asking else { return LockError::ShutDown };
        LockError::store(Step::Acquire, asking.key(), silent())
    }

    async fn ask_until_granted(
        &mut self,
        pace: &mut Pace,
        options: Options,
    ) -> Result<Lease, LockError> {
        let Some(asking) = &mut self.asking else { return Err(LockError::ShutDown) };
        let mut is_told = false;
        loop {
            if asking.is_shut_down() {
                return Err(LockError::ShutDown);
            }
            // Who tries need not look at the clock for that.
            let left = if pace.is_try() { Duration::ZERO } else { pace.left(asking.now()) };
            let refusal = match asking.ask(left).await {
                Ok(Attempt::Granted { token }) => {
                    let granted = asking.granted(token);
                    match lease(self.shared, asking, granted, &options) {
                        Some(lease) => return Ok(in_turn(lease, self.admission.take(), &options)),
                        // The answer came when the lease was over: this process, or
                        // the network, stood still.
                        None => Refusal::Over,
                    }
                }
                Ok(Attempt::Queued { ask_again, .. }) => Refusal::Queued(ask_again),
                Ok(Attempt::Busy { retry_after, repaired, kept }) => {
                    if repaired {
                        tracing::warn!("a lock was held without expiry, and was given the TTL");
                        tracing::debug!(key = %asking.key(), "the lock without expiry");
                    }
                    Refusal::Held { left: retry_after, kept }
                }
                Ok(Attempt::WrongKind) => {
                    return Err(LockError::WrongKind { key: asking.key().clone() });
                }
                Ok(Attempt::WouldDeadlock) => Refusal::Own,
                // Only what was taken back is ended, and this was not: a new id.
                Ok(Attempt::Ended) => {
                    asking.start_anew();
                    Refusal::Over
                }
                Err(error) if !error.is_passing => {
                    return Err(LockError::store(Step::Acquire, asking.key(), error));
                }
                Err(error) => Refusal::Fault(error),
            };
            // Who waits for ever has no error to tell.
            if let Refusal::Fault(error) = &refusal
                && options.wait == Wait::Forever
                && !std::mem::replace(&mut is_told, true)
            {
                let error = &error.source;
                tracing::warn!(%error, "the lock store fails; it is asked again until it answers");
            }
            is_told &= matches!(refusal, Refusal::Fault(_));
            let hears = !pace.is_try() && asking.hears();
            let Some(pause) = pace.next(asking.now(), &refusal, hears) else {
                return Err(refusal.into_error(asking.key().clone(), pace));
            };
            // Who was not answered asks again soon, whatever it hears.
            let is_faulty = matches!(refusal, Refusal::Fault(_));
            if let Some(offer) = Box::pin(asking.hear(pause, is_faulty)).await
                && let Some(granted) = asking.offered(offer)
                && let Some(lease) = lease(self.shared, asking, granted, &options)
            {
                return Ok(in_turn(lease, self.admission.take(), &options));
            }
            if let Some(admission) = &self.admission {
                admission.sign();
            }
        }
    }
}

/// The lease of what was granted, unless it is over already: then it is taken back, and
/// asked for again as another request.
fn lease(
    shared: &Arc<Shared>,
    asking: &mut Asking,
    granted: Granted,
    options: &Options,
) -> Option<Lease> {
    let lease = Lease::unless_over(shared, granted, options);
    if lease.is_none() {
        asking.start_anew();
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
            && let Some(asking) = self.asking.take()
            && asking.is_begun()
        {
            admission.leave_behind(asking);
        }
    }
}
