//! The order of those that wait for a rate in one process: one of them at a time asks the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::core::key::LockKey;
use crate::core::sync::lock;

/// The turns of all rates that are waited for.
#[derive(Debug, Default)]
pub(crate) struct RateTurns(Mutex<Turns>);

#[derive(Debug, Default)]
struct Turns {
    of: HashMap<LockKey, Weak<AsyncMutex<()>>>,
    /// How many there may be before those that nobody waits for are removed.
    sweep_above: usize,
}

/// The turn to ask for one rate. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct RateTurn {
    pub(crate) key: LockKey,
    _guard: OwnedMutexGuard<()>,
}

impl RateTurns {
    /// Returns true if somebody has the turn of this rate.
    pub(crate) fn are_taken(&self, key: &LockKey) -> bool {
        let turn = lock(&self.0).of.get(key).and_then(Weak::upgrade);
        turn.is_some_and(|turn| turn.try_lock().is_err())
    }

    /// The turn, if nobody has it.
    pub(crate) fn take_free(&self, key: &LockKey) -> Option<RateTurn> {
        let guard = self.of(key).try_lock_owned().ok()?;
        Some(RateTurn { key: key.clone(), _guard: guard })
    }

    /// Waits for the turn, behind those that came before. Cancel safe.
    pub(crate) async fn take(&self, key: &LockKey) -> RateTurn {
        let turn = self.of(key);
        RateTurn { key: key.clone(), _guard: turn.lock_owned().await }
    }

    fn of(&self, key: &LockKey) -> Arc<AsyncMutex<()>> {
        let mut turns = lock(&self.0);
        if turns.of.len() > turns.sweep_above {
            turns.of.retain(|_, turn| turn.strong_count() > 0);
            turns.sweep_above = (turns.of.len() * 2).max(64);
        }
        let known = turns.of.get(key).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let turn = Arc::default();
            turns.of.insert(key.clone(), Arc::downgrade(&turn));
            turn
        })
    }
}
