//! For how long a lease runs, by its holder's own clock, and whether it was
//! lost. Shared by the guard, its handles and the keeper.

mod deadlines;
mod loss;
mod phase;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use self::deadlines::Deadlines;
pub(crate) use self::deadlines::Grant;
#[cfg(feature = "redis")]
pub(crate) use self::deadlines::LOOK;
use self::phase::Phase;
use super::shutdown::Shutdown;
use super::telemetry;
use crate::core::error::LossReason;
use crate::core::fence::Fence;
use crate::core::options::Options;
use crate::store::{Request, Store};

/// What the store has granted, until it is a lease. Whoever has it makes one of it, or takes
/// it back.
#[must_use = "it is held until it is taken back, or its TTL is over"]
pub(crate) struct Granted {
    pub(crate) request: Request,
    pub(crate) fence: Option<Fence>,
    pub(crate) grant: Grant,
}

/// The place of a lease in the keeper's timetable: when, and a number that makes it
/// unique.
pub(crate) type Slot = (Instant, u64);

/// One lease, as its holder knows it.
#[derive(Debug)]
pub(crate) struct LocalLease {
    pub(crate) request: Request,
    pub(crate) fence: Option<Fence>,
    store: Arc<dyn Store>,
    shutdown: Arc<Shutdown>,
    deadlines: Deadlines,
    /// The last renewal had no answer, or a refusal for now.
    is_suspect: AtomicBool,
    /// The store knows of it no more, as far as the client's end is concerned.
    is_settled: AtomicBool,
    phase: Phase,
    changed: Notify,
    /// When the keeper looks after it next.
    pub(crate) slot: std::sync::Mutex<Option<Slot>>,
}

impl LocalLease {
    /// Granted, and received only now.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        shutdown: Arc<Shutdown>,
        request: Request,
        fence: Option<Fence>,
        grant: Grant,
        options: &Options,
    ) -> Self {
        shutdown.lease_begins();
        let deadlines = Deadlines::new(grant, request.ttl, options, || store.now());
        Self {
            request,
            fence,
            store,
            shutdown,
            deadlines,
            is_suspect: AtomicBool::new(false),
            is_settled: AtomicBool::new(false),
            phase: Phase::default(),
            changed: Notify::new(),
            slot: std::sync::Mutex::default(),
        }
    }

    /// When the keeper has to look after it for the first time.
    pub(crate) fn first(&self, grant: Grant) -> Instant {
        self.deadlines.first(grant)
    }

    /// When the keeper has to look after it next, after a command that was sent
    /// then: to renew it, or to end it.
    pub(crate) fn next(&self, sent: Instant) -> Instant {
        self.deadlines.next(sent)
    }

    /// Whether it was offered, and no renewal has confirmed it yet.
    pub(crate) fn is_offer(&self) -> bool {
        self.deadlines.is_offer()
    }

    pub(crate) fn is_renewed(&self) -> bool {
        self.deadlines.is_renewed
    }

    /// Whether the keeper renews it when it looks: an offer to confirm it, whether it is
    /// renewed after that or not.
    pub(crate) fn is_to_be_renewed(&self) -> bool {
        (self.is_renewed() || self.is_offer()) && !self.is_final()
    }

    /// Whether it lasts as long as it ever will.
    pub(crate) fn is_final(&self) -> bool {
        self.deadlines.is_final()
    }

    /// A renewal to be sent now: for the TTL, or for what is left of `max_hold`. Nothing
    /// if that is too little for a command.
    pub(crate) fn renewal(&self) -> Option<(Instant, Request)> {
        let now = self.store.now();
        let ttl = self.deadlines.next_ttl(now)?;
        Some((now, Request { ttl, ..self.request.clone() }))
    }

    /// When the store may be told that it was held for as long as it may be: as it ends
    /// there anyway, so that work has the same time to stop as after any loss. What is to be
    /// kept goes to nobody, and has to be told before that.
    pub(crate) fn end(&self) -> Option<Instant> {
        let end = if self.keep().is_zero() { self.deadlines.end()? } else { self.deadline() };
        (self.loss() == Some(LossReason::MaxHold)).then_some(end)
    }

    /// For how long the lock is to stay held after it was released.
    pub(crate) fn keep(&self) -> Duration {
        // Most are not to be kept, and need no look at the clock.
        if self.deadlines.is_kept() {
            self.deadlines.keep(self.store.now())
        } else {
            Duration::ZERO
        }
    }

    /// The options of who takes it up elsewhere.
    pub(crate) fn rest(&self) -> Options {
        self.deadlines.rest(self.store.now())
    }

    /// When the first ask for it was sent that had no answer, if there was one.
    pub(crate) fn in_doubt(&self) -> Option<Instant> {
        self.deadlines.in_doubt
    }

    /// What the next in this process may have of it, once its holder has ended it.
    pub(crate) fn rest_of_grant(&self) -> Option<Grant> {
        let is_sure = !self.is_suspect() && !self.shutdown.has_begun();
        self.deadlines.rest_of_grant(self.store.now()).filter(|_| is_sure)
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadlines.deadline()
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
        if !self.phase.is_held() {
            return false;
        }
        if self.store.now() >= self.deadline() {
            let reason = if self.is_final() { LossReason::MaxHold } else { LossReason::Expired };
            self.lose(reason);
        } else if self.shutdown.is_over() {
            self.lose(LossReason::ShutDown);
        }
        self.phase.is_held()
    }

    /// Whether it is held, and the store could not be told so the last time.
    pub(crate) fn is_suspect(&self) -> bool {
        self.is_suspect.load(Ordering::Acquire)
    }

    /// Whether its release has begun.
    pub(crate) fn has_ended(&self) -> bool {
        self.phase.has_ended()
    }

    /// How it was lost, if it was.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        self.is_held();
        if let Some(reason) = self.phase.gone()
            && (self.store.now() >= self.deadline() || self.shutdown.is_over())
        {
            self.lose(reason);
        }
        self.phase.lost()
    }

    /// How it was lost, as far as is known by now.
    pub(crate) fn loss_so_far(&self) -> Option<LossReason> {
        self.is_held();
        self.phase.loss_so_far()
    }

    /// A renewal that was sent then has set this TTL.
    pub(crate) fn prolong(&self, sent: Instant, ttl: Duration) {
        self.is_suspect.store(false, Ordering::Release);
        if self.is_held() {
            self.deadlines.prolong(sent, ttl);
        }
    }

    /// A renewal had no answer, or was refused for now.
    pub(crate) fn suspect(&self) {
        self.is_suspect.store(true, Ordering::Release);
    }

    /// The store knows of it no more, be it since it was released.
    pub(crate) fn settle(&self, is_released: bool) {
        if !self.is_settled.swap(true, Ordering::AcqRel) {
            self.shutdown.lease_ends(is_released);
        }
    }

    /// The store has said that it is not held, and why as far as is known. From now on
    /// it is not; that it was lost, and how, is told later, or at the deadline.
    /// False if it was not held before.
    pub(crate) fn vanish(&self, reason: LossReason) -> bool {
        let was_held = self.phase.vanish(reason);
        if was_held {
            self.changed.notify_waiters();
            self.settle(false);
        }
        was_held
    }

    pub(crate) fn lose(&self, reason: LossReason) {
        if self.phase.lose(reason) {
            self.changed.notify_waiters();
            // What is lost with its client is still waited for, to be released.
            if reason != LossReason::ShutDown {
                self.settle(false);
            }
            telemetry::ended(self.request.kind, || self.age(), Some(reason));
            tracing::warn!(%reason, "a lease was lost");
            tracing::debug!(key = %self.request.key, "the lease that was lost");
        }
    }

    /// Its release has begun: it is not held, and not lost either. False if it
    /// was lost before.
    pub(crate) fn finish(&self) -> bool {
        let is_ended = self.is_held() && self.phase.finish();
        if is_ended {
            self.changed.notify_waiters();
            telemetry::ended(self.request.kind, || self.age(), None);
        }
        is_ended
    }

    fn age(&self) -> Duration {
        self.store.now().saturating_duration_since(self.deadlines.start)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::core::key::LockKey;
    use crate::store::memory::MemoryStore;
    use crate::store::{ClientId, Kind, RequestId};

    fn local() -> LocalLease {
        term_with(Options::default())
    }

    fn term_with(options: Options) -> LocalLease {
        let store = Arc::new(MemoryStore::default());
        let request = Request {
            key: LockKey::new("a").unwrap(),
            id: RequestId::next(ClientId::random(), &AtomicU64::new(0)),
            kind: Kind::Mutex,
            owner: None,
            ttl: Duration::from_secs(10),
        };
        let (sent, ttl) = (store.now(), request.ttl);
        let grant = Grant::by_command(sent, ttl);
        LocalLease::new(store, Arc::default(), request, None, grant, &Options { ttl, ..options })
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_is_before_the_servers() {
        let local = local();
        assert_eq!(local.remaining(), Duration::from_millis(9_898));
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_renewal_does_not_bring_it_back() {
        let local = local();
        let sent = local.store.now();
        tokio::time::advance(Duration::from_secs(10)).await;
        local.prolong(sent + Duration::from_secs(5), Duration::from_secs(10));
        assert!(!local.is_held());
        assert_eq!(local.lost().await, LossReason::Expired);
    }

    #[tokio::test(start_paused = true)]
    async fn loss_resolves_at_the_deadline_without_the_store() {
        let local = local();
        let before = tokio::time::Instant::now();
        assert_eq!(local.lost().await, LossReason::Expired);
        let waited = before.elapsed();
        assert!((9_898..=9_900).contains(&waited.as_millis()), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_gone_is_not_held_and_lost_at_the_deadline_at_the_latest() {
        let (local, gone) = (local(), local());
        assert!(local.vanish(LossReason::Taken) && !local.vanish(LossReason::Taken));
        assert!(!local.is_held() && local.loss().is_none());
        local.lose(LossReason::Forced);
        assert_eq!(local.lost().await, LossReason::Forced);
        assert!(gone.vanish(LossReason::Taken));
        let before = tokio::time::Instant::now();
        assert_eq!(gone.lost().await, LossReason::Taken);
        assert!(before.elapsed().as_millis() >= 9_898);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_released_is_never_lost() {
        let local = local();
        assert!(local.finish());
        let lost = tokio::time::timeout(Duration::from_secs(60), local.lost()).await;
        assert!(lost.is_err());
        assert!(!local.is_held());
    }
}
