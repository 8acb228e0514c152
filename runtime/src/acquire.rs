//! One acquisition: ask, wait, ask again, give up, clean up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::lease::Lease;
use crate::locks::Client;
use crate::options::Options;
use crate::store::{Attempt, Kind, Request, StoreError, StoreFuture};
use crate::{Fence, LockError, LockKey, Outcome, Step, Wait, telemetry};

/// How long a store that fails is asked again, even by a call that does not
/// wait: enough for a connection that broke while it was idle.
const FAULTS: Duration = Duration::from_secs(1);

/// Acquires, within the options' wait.
///
/// # Cancel safety
///
/// Dropping it at any point leaves nothing held: the request is armed before
/// its first command is sent, and the keeper takes it back.
pub(crate) async fn acquire(
    client: &Arc<Client>,
    key: LockKey,
    kind: Kind,
    options: Options,
) -> Result<Lease, LockError> {
    options.check()?;
    let begun = client.store.now();
    let result = ask_until_granted(client, key, kind, options, begun).await;
    telemetry::acquired(kind, client.store.now().saturating_duration_since(begun), &result);
    result
}

async fn ask_until_granted(
    client: &Arc<Client>,
    key: LockKey,
    kind: Kind,
    options: Options,
    begun: Instant,
) -> Result<Lease, LockError> {
    let request = Request { key, id: client.next_request(), kind, ttl: options.ttl };
    let mut asking = Asking { client, request, in_flight: None, is_armed: false };
    let mut pace = Pace::new(begun, options.wait);
    loop {
        let sent = client.store.now();
        let refusal = match asking.ask().await {
            Ok(Attempt::Granted { token }) => match asking.granted(token, sent, options) {
                Some(lease) => return Ok(lease),
                // The answer came when the lease was over: this process, or
                // the network, stood still.
                None => Refusal::Held(Duration::ZERO),
            },
            Ok(Attempt::Busy { retry_after, repaired }) => {
                if repaired {
                    tracing::warn!("a lock was held without expiry, and was given the TTL");
                    tracing::debug!(key = %asking.request.key, "the lock without expiry");
                }
                Refusal::Held(retry_after)
            }
            Ok(Attempt::Queued { .. }) => Refusal::Held(Duration::ZERO),
            Ok(Attempt::WrongKind) => {
                return Err(LockError::WrongKind { key: asking.request.key.clone() });
            }
            // Only what was taken back is ended, and this was not: a new id.
            Ok(Attempt::Ended) => {
                asking.request.id = client.next_request();
                Refusal::Held(Duration::ZERO)
            }
            Err(error) if !error.is_passing => {
                return Err(LockError::store(Step::Acquire, &asking.request.key, error));
            }
            Err(error) => Refusal::Fault(error),
        };
        match pace.next(client.store.now(), &refusal) {
            Some(pause) => sleep(pause).await,
            None => return Err(refusal.into_error(asking.request.key.clone(), &pace)),
        }
    }
}

/// Why the lock was not granted this time.
enum Refusal {
    /// Others hold it, for so much longer.
    Held(Duration),
    /// The store failed, and may not do so the next time.
    Fault(StoreError),
}

impl Refusal {
    fn into_error(self, key: LockKey, pace: &Pace) -> LockError {
        match self {
            Self::Fault(error) => LockError::store(Step::Acquire, &key, error),
            Self::Held(retry_after) if pace.is_try() => LockError::Busy { key, retry_after },
            Self::Held(_) => LockError::TimedOut { key, waited: pace.waited },
        }
    }
}

/// When to ask again: often at first, then less so, in a random rhythm that
/// spreads those who wait; at the holder's deadline at the latest, and once
/// more when the wait is over.
struct Pace {
    begun: Instant,
    wait: Wait,
    waited: Duration,
    pause: Duration,
    /// How often it may still ask again at once, where the store says so.
    at_once: u32,
}

impl Pace {
    const FIRST: Duration = Duration::from_millis(5);
    const LONGEST: Duration = Duration::from_millis(200);

    fn new(begun: Instant, wait: Wait) -> Self {
        Self { begun, wait, waited: Duration::ZERO, pause: Self::FIRST, at_once: 64 }
    }

    fn is_try(&self) -> bool {
        self.wait == Wait::For(Duration::ZERO)
    }

    /// How long to pause; nothing when the wait is over.
    fn next(&mut self, now: Instant, refusal: &Refusal) -> Option<Duration> {
        self.waited = now.saturating_duration_since(self.begun);
        // A semaphore forgets ended permits a few at a time, and what is over
        // when it comes is asked for anew: also by a call that does not wait.
        if matches!(refusal, Refusal::Held(Duration::ZERO)) && self.at_once > 0 {
            self.at_once -= 1;
            return Some(Duration::ZERO);
        }
        let bound = match (self.wait, refusal) {
            (Wait::Forever, _) => Duration::MAX,
            (Wait::For(wait), Refusal::Held(_)) => wait,
            (Wait::For(wait), Refusal::Fault(_)) => wait.max(FAULTS),
        };
        let left = bound.checked_sub(self.waited).filter(|left| !left.is_zero())?;
        let random = self.pause.mul_f64(0.5 + 0.5 * fastrand::f64());
        self.pause = (self.pause * 3 / 2).min(Self::LONGEST);
        let holder = match refusal {
            Refusal::Held(left) => *left + Duration::from_millis(1),
            Refusal::Fault(_) => Duration::MAX,
        };
        Some(random.min(holder).min(left))
    }
}

/// A request under way. Whatever happens to its caller, it leaves no lease
/// that nobody knows of.
struct Asking<'a> {
    client: &'a Arc<Client>,
    request: Request,
    in_flight: Option<StoreFuture<Attempt>>,
    /// A command was sent whose outcome is unknown.
    is_armed: bool,
}

impl Asking<'_> {
    async fn ask(&mut self) -> Result<Attempt, StoreError> {
        let in_flight = self.in_flight.insert(self.client.store.acquire(&self.request, None));
        let answer = in_flight.await;
        self.in_flight = None;
        match &answer {
            Ok(_) => self.is_armed = false,
            Err(error) if error.outcome == Outcome::NotRun => {}
            Err(_) => self.is_armed = true,
        }
        answer
    }

    /// The lease, unless it is over already: then it is taken back, and asked
    /// for again as another request.
    fn granted(&mut self, token: u64, sent: Instant, options: Options) -> Option<Lease> {
        let fence = (self.request.kind == Kind::Mutex).then(|| Fence::new(token));
        let lease = Lease::new(self.client.clone(), self.request.clone(), fence, sent, options);
        if lease.is_held() {
            return Some(lease);
        }
        lease.discard();
        self.request.id = self.client.next_request();
        None
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let in_flight = self.in_flight.take();
        if self.is_armed || in_flight.is_some() {
            self.client.keeper.cancel_later(self.request.clone(), in_flight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_again_at_the_holders_deadline_at_the_latest() {
        let begun = Instant::now();
        let mut pace = Pace::new(begun, Wait::Forever);
        pace.pause = Pace::LONGEST;
        let soon = Refusal::Held(Duration::from_millis(20));
        assert_eq!(pace.next(begun, &soon), Some(Duration::from_millis(21)));
        let late = Refusal::Held(Duration::from_secs(20));
        assert!(pace.next(begun, &late) <= Some(Pace::LONGEST));
    }

    #[test]
    fn the_wait_is_the_bound_and_a_try_does_not_wait() {
        let begun = Instant::now();
        let held = Refusal::Held(Duration::from_secs(20));
        let mut pace = Pace::new(begun, Wait::For(Duration::from_secs(1)));
        pace.pause = Pace::LONGEST;
        let nearly = begun + Duration::from_millis(999);
        assert_eq!(pace.next(nearly, &held), Some(Duration::from_millis(1)));
        assert_eq!(pace.next(begun + Duration::from_secs(1), &held), None);
        assert_eq!(Pace::new(begun, Wait::For(Duration::ZERO)).next(begun, &held), None);
    }
}
