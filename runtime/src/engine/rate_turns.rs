//! The order of those that wait for a rate in one process: one of them at a time asks the store.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::time::{Instant, sleep_until};

use crate::core::key::LockKey;
use crate::core::sync::lock;

/// How long a call that is due may keep the others waiting: it may be a future that nobody polls.
const LONGEST_DELAY: Duration = Duration::from_secs(6);

/// The turns of all rates that are waited for.
#[derive(Debug, Default)]
pub(crate) struct RateTurns(Mutex<Turns>);

#[derive(Debug, Default)]
struct Turns {
    of: HashMap<LockKey, Weak<Turn>>,
    /// How many there may be before those that nobody waits for are removed.
    sweep_above: usize,
}

/// The turn of one rate.
#[derive(Debug)]
struct Turn {
    /// Those that wait for it, in their order.
    queue: Arc<AsyncMutex<()>>,
    plan: Mutex<Plan>,
}

/// What whoever has a turn means to do.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// When it asks the store.
    asks_at: Instant,
    /// Until when the rate is used up, as far as is known, for one whose burst is as much as it takes.
    used_until: Option<Instant>,
}

/// The turn to ask for one rate. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct RateTurn {
    pub(crate) key: LockKey,
    turn: Arc<Turn>,
    _guard: OwnedMutexGuard<()>,
}

impl Plan {
    /// Of somebody who has not asked yet.
    fn unknown() -> Self {
        Self { asks_at: Instant::now(), used_until: None }
    }
}

impl RateTurn {
    fn new(key: &LockKey, turn: Arc<Turn>, guard: OwnedMutexGuard<()>) -> Self {
        let new = Self { key: key.clone(), turn, _guard: guard };
        *lock(&new.turn.plan) = Plan::unknown();
        new
    }

    /// Says that it sleeps first, so that nobody takes it for a future that is not polled: until the rate allows
    /// a take that leaves so much of its burst.
    pub(crate) fn asks_after(&self, time: Duration, rest: Duration) {
        let now = Instant::now();
        let asks_at = now.checked_add(time).unwrap_or(now);
        *lock(&self.turn.plan) = Plan { asks_at, used_until: asks_at.checked_add(rest) };
    }
}

impl RateTurns {
    /// If somebody has the turn of this rate: after how long the rate would allow a take that leaves so much of
    /// its burst, if all that wait for it gave up now. Each has a burst of its own.
    pub(crate) fn taken(&self, key: &LockKey, rest: Duration) -> Option<Duration> {
        let turn = lock(&self.0).of.get(key).and_then(Weak::upgrade)?;
        if turn.queue.try_lock().is_ok() {
            return None;
        }
        let used_until = lock(&turn.plan).used_until;
        let at = used_until.and_then(|until| until.checked_sub(rest));
        Some(at.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now())))
    }

    /// The turn, if nobody has it.
    pub(crate) fn take_free(&self, key: &LockKey) -> Option<RateTurn> {
        let turn = self.of(key);
        let guard = turn.queue.clone().try_lock_owned().ok()?;
        Some(RateTurn::new(key, turn, guard))
    }

    /// Waits for the turn, behind those that came before. `None` if whoever has it should have asked
    /// long ago. Cancel safe.
    pub(crate) async fn take(&self, key: &LockKey) -> Option<RateTurn> {
        let turn = self.of(key);
        let mut place = pin!(turn.queue.clone().lock_owned());
        loop {
            let late = lock(&turn.plan).asks_at.max(Instant::now()) + LONGEST_DELAY;
            tokio::select! {
                biased;
                guard = &mut place => return Some(RateTurn::new(key, turn.clone(), guard)),
                () = sleep_until(late) => {}
            }
            if lock(&turn.plan).asks_at + LONGEST_DELAY <= Instant::now() {
                return None;
            }
        }
    }

    fn of(&self, key: &LockKey) -> Arc<Turn> {
        let mut turns = lock(&self.0);
        if turns.of.len() > turns.sweep_above {
            turns.of.retain(|_, turn| turn.strong_count() > 0);
            turns.sweep_above = (turns.of.len() * 2).max(64);
        }
        let known = turns.of.get(key).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let plan = Mutex::new(Plan::unknown());
            let turn = Arc::new(Turn { queue: Arc::default(), plan });
            turns.of.insert(key.clone(), Arc::downgrade(&turn));
            turn
        })
    }
}
