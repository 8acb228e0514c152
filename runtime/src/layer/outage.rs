//! What a layer that fails open knows of an outage of the lock store: while it lasts, requests
//! pass at once, and one of them at a time has the store looked at in the background.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use crate::core::error::{LockError, Quiet};
use crate::core::key::LockKey;
use crate::core::sync::lock;

/// How long after a failure the store is looked at again: first, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// What nobody has asked about for so long is not known any more.
const FRESH: Duration = Duration::from_secs(10);

/// The outage of a layer and all its clones, if there is one.
#[derive(Clone, Default)]
pub(super) struct Outage(Arc<Mutex<State>>);

/// What is reachable or not together: all locks, or on a cluster one lock.
pub(super) type Part = Option<LockKey>;

#[derive(Default)]
struct State {
    away: HashMap<Part, Away>,
    /// How many requests passed without their lock in this outage.
    passed: u64,
    /// When the last outage ended.
    ended: Option<Instant>,
}

/// A part of the store that can't be reached.
struct Away {
    look: Look,
    pause: Duration,
}

/// When the store is looked at.
enum Look {
    Due(Instant),
    /// Since then. Its runtime may stand still.
    Running(Instant),
}

impl Look {
    /// How long after that time another look begins.
    fn patience(&self) -> Duration {
        match self {
            Self::Due(_) => Duration::ZERO,
            Self::Running(_) => FRESH,
        }
    }
}

/// How a request goes on.
pub(super) enum Way {
    /// It asks for its lock.
    Ask,
    /// It passes without its lock.
    Pass,
    /// It passes, and has the store looked at.
    Look(Looking),
}

/// The one look that runs. If it is dropped, another one is due.
pub(super) struct Looking {
    outage: Outage,
    part: Part,
    lock: &'static str,
}

impl Outage {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Returns true if there is an outage, of whatever part.
    pub(super) fn is_known(&self) -> bool {
        !self.state().away.is_empty()
    }

    /// The way of a request for a lock with this label.
    pub(super) fn way(&self, part: Part, lock: &'static str) -> Way {
        let mut state = self.state();
        let now = Instant::now();
        let Some(away) = state.away.get_mut(&part) else { return Way::Ask };
        let way = match away.look {
            Look::Due(due) if now >= due + FRESH => return Way::Ask,
            Look::Due(due) | Look::Running(due) if now >= due + away.look.patience() => {
                away.look = Look::Running(now);
                Way::Look(Looking { outage: self.clone(), part, lock })
            }
            Look::Due(_) | Look::Running(_) => Way::Pass,
        };
        state.passed += 1;
        way
    }

    /// Notes that a request that began to ask then passes, because the store can't be reached.
    pub(super) fn failed(
        &self,
        parts: impl Iterator<Item = Part>,
        begun: Instant,
        lock: &'static str,
        error: &LockError,
    ) {
        let mut state = self.state();
        // It has asked in an outage that is over.
        if state.ended.is_some_and(|ended| begun < ended) {
            return;
        }
        let now = Instant::now();
        // An outage that nobody asked about for a while may be another one.
        state.away.retain(|_, away| match away.look {
            Look::Due(due) => now < due + FRESH,
            Look::Running(_) => true,
        });
        if state.away.is_empty() {
            state.passed = 0;
            let error = Quiet(error);
            tracing::warn!(
                lock,
                %error,
                "requests pass without their lock until the lock store answers again"
            );
        }
        state.passed += 1;
        let first = || Away { look: Look::Due(now + FIRST_PAUSE), pause: FIRST_PAUSE };
        for part in parts {
            let away = state.away.entry(part).or_insert_with(first);
            if let Look::Due(due) = &mut away.look {
                *due = (*due).max(now + FIRST_PAUSE);
            }
        }
    }

    /// Notes that a request that began to ask then has its answer. That counts if nobody knew
    /// any more whether the store is away; otherwise it may come from this process.
    pub(super) fn settled(&self, part: &Part, begun: Instant, lock: &'static str) {
        let is_stale = match self.state().away.get(part) {
            Some(Away { look: Look::Due(due), .. }) => begun >= *due + FRESH,
            _ => false,
        };
        if is_stale {
            self.answered(part, lock);
        }
    }

    /// Notes that the store has answered.
    fn answered(&self, part: &Part, lock: &'static str) {
        let mut state = self.state();
        if state.away.remove(part).is_some() && state.away.is_empty() {
            state.ended = Some(Instant::now());
            let passed = state.passed;
            tracing::info!(
                lock,
                passed,
                "the lock store answers again; requests wait for their lock as before"
            );
        }
    }
}

impl Looking {
    /// Notes what the look has found.
    pub(super) fn found(self, answers: bool) {
        if answers {
            self.outage.answered(&self.part, self.lock);
        }
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        if let Some(away) = self.outage.state().away.get_mut(&self.part) {
            away.pause = (away.pause * 2).min(LONGEST_PAUSE);
            away.look = Look::Due(Instant::now() + away.pause);
        }
    }
}
