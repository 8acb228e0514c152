//! For how long a lease runs, by its holder's own clock, and whether it was
//! lost. Shared by the guard, its handles and the keeper.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::store::{Request, Store};
use crate::{Fence, LossReason, telemetry};

const HELD: u8 = 0;
const ENDED: u8 = 1;
const EXPIRED: u8 = 2;
const TAKEN: u8 = 3;
const FORCED: u8 = 4;
/// Lost, it seems so, and it is not known yet whether by force.
const GONE_EXPIRED: u8 = 5;
const GONE_TAKEN: u8 = 6;

/// The place of a renewal in the keeper's timetable: when, and a number that
/// makes it unique.
#[cfg(feature = "redis")]
pub(crate) type Slot = (Instant, u64);

/// One lease, as its holder knows it.
#[derive(Debug)]
pub(crate) struct Term {
    pub(crate) request: Request,
    pub(crate) fence: Option<Fence>,
    store: Arc<dyn Store>,
    start: Instant,
    /// When the holder must regard the lease as ended, in nanoseconds from
    /// `start`.
    deadline: AtomicU64,
    /// It leaves HELD once, and never comes back; what is gone is on the way to a loss.
    state: AtomicU8,
    changed: Notify,
    /// Its next renewal; the keeper's.
    #[cfg(feature = "redis")]
    pub(crate) slot: std::sync::Mutex<Option<Slot>>,
}

impl Term {
    /// Granted at `start`, to be regarded as ended at `deadline`.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        request: Request,
        fence: Option<Fence>,
        start: Instant,
        deadline: Instant,
    ) -> Self {
        let deadline = nanos(deadline.saturating_duration_since(start));
        Self {
            request,
            fence,
            store,
            start,
            deadline: AtomicU64::new(deadline),
            state: AtomicU8::new(HELD),
            changed: Notify::new(),
            #[cfg(feature = "redis")]
            slot: std::sync::Mutex::default(),
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.start + Duration::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    pub(crate) fn remaining(&self) -> Duration {
        if self.is_held() {
            self.deadline().saturating_duration_since(self.store.now())
        } else {
            Duration::ZERO
        }
    }

    /// Whether it is held now. The clock decides, without the network; once
    /// the deadline was seen to have passed, no answer brings the lease back.
    pub(crate) fn is_held(&self) -> bool {
        if self.state.load(Ordering::Acquire) == HELD && self.store.now() >= self.deadline() {
            self.lose(LossReason::Expired);
        }
        self.state.load(Ordering::Acquire) == HELD
    }

    /// How it was lost, if it was.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        self.is_held();
        if let Some(reason) = self.gone()
            && self.store.now() >= self.deadline()
        {
            self.lose(reason);
        }
        match self.state.load(Ordering::Acquire) {
            EXPIRED => Some(LossReason::Expired),
            TAKEN => Some(LossReason::Taken),
            FORCED => Some(LossReason::Forced),
            _ => None,
        }
    }

    /// A renewal that was sent then has succeeded.
    pub(crate) fn prolong(&self, sent: Instant) {
        if self.is_held() {
            let deadline = nanos(sent.saturating_duration_since(self.start))
                .saturating_add(nanos(validity(self.request.ttl)));
            self.deadline.fetch_max(deadline, Ordering::AcqRel);
        }
    }

    /// The store has said that it is not held, and why as far as is known. From now on
    /// it is not; that it was lost, and how, is told later, or at the deadline.
    /// False if it was not held before.
    pub(crate) fn vanish(&self, reason: LossReason) -> bool {
        let is_taken = reason == LossReason::Taken;
        self.leave(HELD, if is_taken { GONE_TAKEN } else { GONE_EXPIRED })
    }

    /// How it has vanished, if it is not told lost yet.
    pub(crate) fn gone(&self) -> Option<LossReason> {
        match self.state.load(Ordering::Acquire) {
            GONE_EXPIRED => Some(LossReason::Expired),
            GONE_TAKEN => Some(LossReason::Taken),
            _ => None,
        }
    }

    pub(crate) fn lose(&self, reason: LossReason) {
        let state = match reason {
            LossReason::Expired => EXPIRED,
            LossReason::Taken => TAKEN,
            LossReason::Forced => FORCED,
        };
        if [HELD, GONE_EXPIRED, GONE_TAKEN].into_iter().any(|from| self.leave(from, state)) {
            telemetry::ended(self.request.kind, self.age(), Some(reason));
            tracing::warn!(%reason, "a lease was lost");
            tracing::debug!(key = %self.request.key, "the lease that was lost");
        }
    }

    /// Its release has begun: it is not held, and not lost either. False if it
    /// was lost before.
    pub(crate) fn end(&self) -> bool {
        let is_ended = self.is_held() && self.leave(HELD, ENDED);
        if is_ended {
            telemetry::ended(self.request.kind, self.age(), None);
        }
        is_ended
    }

    fn age(&self) -> Duration {
        self.store.now().saturating_duration_since(self.start)
    }

    fn leave(&self, from: u8, to: u8) -> bool {
        let left = self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        self.changed.notify_waiters();
        left.is_ok()
    }

    /// Resolves when somebody has seen that it is not held any more.
    pub(crate) async fn over(&self) {
        let mut changed = std::pin::pin!(self.changed.notified());
        changed.as_mut().enable();
        if self.is_held() {
            changed.await;
        }
    }

    /// Resolves when it is lost; never, if it is released before.
    ///
    /// Needs no answer of the store: the deadline is enough.
    pub(crate) async fn lost(&self) -> LossReason {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(reason) = self.loss() {
                return reason;
            }
            if self.is_held() || self.gone().is_some() {
                let left = self.deadline().saturating_duration_since(self.store.now());
                tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep(left) => {}
                }
            } else {
                changed.await;
            }
        }
    }
}

/// How long a grant may be relied on: its TTL less the drift between two
/// clocks, after Redlock.
pub(crate) fn validity(ttl: Duration) -> Duration {
    ttl.saturating_sub(ttl / 100 + Duration::from_millis(2))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::LockKey;
    use crate::store::memory::MemoryStore;
    use crate::store::{ClientId, Kind, RequestId};

    fn term() -> Term {
        let store = Arc::new(MemoryStore::default());
        let request = Request {
            key: LockKey::new("a").unwrap(),
            id: RequestId::next(ClientId::random(), &AtomicU64::new(0)),
            kind: Kind::Mutex,
            owner: None,
            ttl: Duration::from_secs(10),
        };
        let sent = store.now();
        Term::new(store, request, None, sent, sent + validity(Duration::from_secs(10)))
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_is_before_the_servers() {
        let term = term();
        assert_eq!(term.remaining(), Duration::from_millis(9_898));
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_renewal_does_not_bring_it_back() {
        let term = term();
        let sent = term.store.now();
        tokio::time::advance(Duration::from_secs(10)).await;
        term.prolong(sent + Duration::from_secs(5));
        assert!(!term.is_held());
        assert_eq!(term.lost().await, LossReason::Expired);
    }

    #[tokio::test(start_paused = true)]
    async fn an_older_renewal_does_not_shorten_it() {
        let term = term();
        let sent = term.store.now();
        term.prolong(sent + Duration::from_secs(5));
        term.prolong(sent + Duration::from_secs(1));
        assert_eq!(term.remaining(), Duration::from_millis(14_898));
    }

    #[tokio::test(start_paused = true)]
    async fn loss_resolves_at_the_deadline_without_the_store() {
        let term = term();
        let before = tokio::time::Instant::now();
        assert_eq!(term.lost().await, LossReason::Expired);
        let waited = before.elapsed();
        assert!((9_898..=9_900).contains(&waited.as_millis()), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_gone_is_not_held_and_lost_at_the_deadline_at_the_latest() {
        let (term, gone) = (term(), term());
        assert!(term.vanish(LossReason::Taken) && !term.vanish(LossReason::Taken));
        assert!(!term.is_held() && term.loss().is_none());
        term.lose(LossReason::Forced);
        assert_eq!(term.lost().await, LossReason::Forced);
        assert!(gone.vanish(LossReason::Taken));
        let before = tokio::time::Instant::now();
        assert_eq!(gone.lost().await, LossReason::Taken);
        assert!(before.elapsed().as_millis() >= 9_898);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_released_is_never_lost() {
        let term = term();
        assert!(term.end());
        let lost = tokio::time::timeout(Duration::from_secs(60), term.lost()).await;
        assert!(lost.is_err());
        assert!(!term.is_held());
    }
}
