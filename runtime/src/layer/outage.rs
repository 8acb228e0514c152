//! What a layer that fails open knows of an outage of the lock store: while it lasts, requests
//! pass at once, and one of them at a time has the store looked at in the background. Once a look
//! has found an answer, one request asks for its lock: the store may answer and refuse locks.

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

/// When the store is looked at. What nobody has asked about for long is not known any more.
#[derive(Clone, Copy)]
enum Look {
    Due(Instant),
    /// Since then. Its runtime may stand still.
    Running(Instant),
    /// It found an answer then. The next request asks for its lock.
    Found(Instant),
    /// Since the look has found an answer, a request asks for its lock; the last one began then. It may
    /// be dropped, or wait for long.
    Asking {
        found: Instant,
        asked: Instant,
    },
}

impl Look {
    /// Returns true if nobody has asked for so long that it may be another outage.
    fn is_old(&self, now: Instant) -> bool {
        match *self {
            Self::Due(since) | Self::Found(since) | Self::Asking { asked: since, .. } => {
                now >= since + FRESH
            }
            Self::Running(_) => false,
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
}

impl Outage {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Returns true if there is an outage, of whatever part.
    pub(super) fn is_known(&self) -> bool {
        !self.state().away.is_empty()
    }

    /// The way of a request that needs these parts. It passes if one of them is known to be away.
    pub(super) fn way(&self, parts: impl Iterator<Item = Part>) -> Way {
        let mut state = self.state();
        let (now, mut may_answer) = (Instant::now(), Vec::new());
        for part in parts {
            let Some(away) = state.away.get_mut(&part) else { continue };
            let way = match away.look {
                look if look.is_old(now) => continue,
                Look::Due(due) if now < due => Way::Pass,
                Look::Running(since) if now < since + FRESH => Way::Pass,
                Look::Asking { asked, .. } if now < asked + LONGEST_PAUSE => Way::Pass,
                Look::Due(_) | Look::Running(_) => {
                    away.look = Look::Running(now);
                    Way::Look(Looking { outage: self.clone(), part })
                }
                Look::Found(found) | Look::Asking { found, .. } => {
                    may_answer.push((part, found));
                    continue;
                }
            };
            state.passed += 1;
            return way;
        }
        for (part, found) in may_answer {
            if let Some(away) = state.away.get_mut(&part) {
                away.look = Look::Asking { found, asked: now };
            }
        }
        Way::Ask
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
        state.away.retain(|_, away| !away.look.is_old(now));
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
            match &mut away.look {
                Look::Due(due) => *due = (*due).max(now + FIRST_PAUSE),
                Look::Running(_) => {}
                // The store answers, and refuses locks.
                Look::Found(_) | Look::Asking { .. } => away.look_later(now),
            }
        }
    }

    /// Notes that a request that began to ask then has its answer. That counts if it asked after a
    /// look, or nobody knew any more whether the store is away; otherwise it may come from this
    /// process.
    pub(super) fn settled(&self, part: &Part, begun: Instant, lock: &'static str) {
        let counts = match self.state().away.get(part).map(|away| away.look) {
            Some(Look::Due(due)) => begun >= due + FRESH,
            Some(Look::Found(found) | Look::Asking { found, .. }) => begun >= found,
            Some(Look::Running(_)) | None => false,
        };
        if counts {
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

impl Away {
    /// Has the store looked at again, after a longer pause than before.
    fn look_later(&mut self, now: Instant) {
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.look = Look::Due(now + self.pause);
    }
}

impl Looking {
    /// Which part of the store is looked at.
    pub(super) fn part(&self) -> &Part {
        &self.part
    }

    /// Notes what the look has found.
    pub(super) fn found(self, answers: bool) {
        if answers
            && let Some(away) = self.outage.state().away.get_mut(&self.part)
            && matches!(away.look, Look::Running(_))
        {
            away.look = Look::Found(Instant::now());
        }
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        // One that has found an answer, or was late, has nothing to say any more.
        if let Some(away) = self.outage.state().away.get_mut(&self.part)
            && matches!(away.look, Look::Running(_))
        {
            away.look_later(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests;
