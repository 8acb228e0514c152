//! Holds and waits that last, which gauges show while they go on.
//!
//! Most end soon, and cost nothing here. A hold is entered when the keeper handles its lease for the
//! first time, or with its grant if that is late. A wait is entered when the store has said that
//! others hold the lock, or behind other tasks of this process after a second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::label::{Subject, kind_name, of_lock};
use super::since::Since;
use crate::core::lock_key::NO_LABEL;
use crate::store::Request;

static HOLDS: Since = Since::new();
static WAITS: Since = Since::new();

/// A hold that has not been shown.
const NEW: u64 = 0;
/// A hold that has ended.
const ENDED: u64 = u64::MAX;

/// A hold: new, then perhaps shown, then ended.
#[derive(Debug, Default)]
pub(crate) struct LastingHold {
    /// While it is shown, its beginning in `HOLDS`.
    state: AtomicU64,
}

impl LastingHold {
    pub(crate) fn is_new(&self) -> bool {
        self.state.load(Ordering::Relaxed) == NEW
    }

    /// Shows it, unless it is shown already or has ended.
    pub(crate) fn show(&self, request: &Request, lasted: Duration) {
        if !self.is_new() {
            return;
        }
        let began = HOLDS.add(series(request), lasted, |seconds| show_hold(request, seconds));
        // It may end at this moment, on another thread. One of the two removes it.
        if self.state.compare_exchange(NEW, began, Ordering::AcqRel, Ordering::Acquire).is_err() {
            Self::hide(request, began);
        }
    }

    /// Ends it, once.
    pub(crate) fn end(&self, request: &Request) {
        let before = self.state.swap(ENDED, Ordering::AcqRel);
        debug_assert!(before != ENDED, "a hold ends twice");
        if before != NEW {
            Self::hide(request, before);
        }
    }

    fn hide(request: &Request, began: u64) {
        HOLDS.remove(series(request), began, |seconds| show_hold(request, seconds));
    }
}

fn series(request: &Request) -> (&'static str, &'static str) {
    (kind_name(request.kind), request.key.log_label())
}

fn show_hold(request: &Request, seconds: f64) {
    of_lock!(gauge, "leasehold_oldest_hold_since_seconds", request.kind, request.key.label())
        .set(seconds);
}

/// The wait of an acquisition.
#[derive(Default)]
pub(super) struct LastingWait {
    /// When the acquisition began; `None` if its wait is never shown.
    pub(super) begun: Option<Instant>,
    /// While it is shown, its beginning in `WAITS`.
    shown: Option<u64>,
}

impl LastingWait {
    /// Shows it, unless it is shown already.
    pub(super) fn show(
        &mut self,
        of: (Subject, Option<&'static str>),
        now: impl FnOnce() -> Instant,
    ) {
        if let (Some(begun), None) = (self.begun, self.shown) {
            let (lasted, show) = (now().saturating_duration_since(begun), |it| show_wait(of, it));
            self.shown = Some(WAITS.add(series_of_wait(of), lasted, show));
        }
    }

    /// Hides it, if it is shown.
    pub(super) fn hide(&mut self, of: (Subject, Option<&'static str>)) {
        if let Some(began) = self.shown.take() {
            WAITS.remove(series_of_wait(of), began, |seconds| show_wait(of, seconds));
        }
    }
}

fn series_of_wait((kind, label): (Subject, Option<&'static str>)) -> (&'static str, &'static str) {
    (kind_name(kind), label.unwrap_or(NO_LABEL))
}

fn show_wait((kind, label): (Subject, Option<&'static str>), seconds: f64) {
    of_lock!(gauge, "leasehold_longest_wait_since_seconds", kind, label).set(seconds);
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;
    use crate::core::key::LockKey;
    use crate::store::{ClientId, Kind, RequestId};

    /// The keeper shows a hold while its holder ends it. Whoever is first, nothing of it stays.
    #[test]
    fn a_hold_that_ends_while_it_is_shown_does_not_stay() {
        let id = RequestId::next(ClientId::random(), &AtomicU64::new(0));
        let key = LockKey::new("a").unwrap().with_label("ends while it is shown");
        let ttl = Duration::from_secs(30);
        let request = Request { key, id, kind: Kind::Mutex, owner: None, note: None, ttl };
        let (mut hold, barrier) = (LastingHold::default(), Barrier::new(2));
        for _ in 0..2_000 {
            thread::scope(|scope| {
                scope.spawn(|| {
                    barrier.wait();
                    hold.show(&request, Duration::ZERO);
                });
                barrier.wait();
                hold.end(&request);
            });
            HOLDS.assert_empty(series(&request));
            hold = LastingHold::default();
        }
    }
}
