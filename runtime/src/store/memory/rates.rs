//! All rates of a store.

use std::collections::HashMap;
use std::time::Duration;

use crate::core::key::LockKey;
use crate::store::rules::{RateState, Time, begins_together};
use crate::store::{NotAll, Take};

#[derive(Debug, Default)]
pub(super) struct Rates {
    all: HashMap<LockKey, RateState>,
    /// How many there may be before those are removed that nothing is remembered of.
    sweep_above: usize,
}

impl Rates {
    /// Finds out whether a request may begin in all of these rates now. If it has to wait, takes for the
    /// time at which it may begin.
    pub(super) fn place(&mut self, takes: &[Take], now: Time) -> Result<(), NotAll> {
        self.sweep(now);
        let begins = |nth: usize, at| {
            let rate = self.rate(&takes[nth].key);
            rate.forget(&takes[nth].settled);
            rate.begins(&takes[nth], at, now)
        };
        let together = begins_together(now.micros(), takes.len(), begins);
        let (at, last) = together.map_err(|_| NotAll::GivenBack)?;
        let after = Duration::from_micros(at - now.micros());
        let is_long =
            |take: &Take| after > take.wait && !self.all[&take.key].is_known(take.id, now);
        if after.is_zero() {
            return Ok(());
        }
        if takes.iter().any(is_long) {
            return Err(NotAll::UsedUp(last, after));
        }
        self.take(takes, at, now);
        Err(NotAll::Reserved(last, after))
    }

    /// Takes of all of them for this time. Returns for how many microseconds each is used up.
    pub(super) fn take(&mut self, takes: &[Take], at: u64, now: Time) -> Vec<u64> {
        takes.iter().map(|take| self.rate(&take.key).take(take, at, now)).collect()
    }

    pub(super) fn give_back(&mut self, take: &Take, now: Time) -> bool {
        self.rate(&take.key).give_back(take, now)
    }

    fn rate(&mut self, key: &LockKey) -> &mut RateState {
        self.all.entry(key.clone()).or_default()
    }

    fn sweep(&mut self, now: Time) {
        if self.all.len() > self.sweep_above {
            self.all.retain(|_, rate| !rate.is_blank(now));
            self.sweep_above = (self.all.len() * 2).max(64);
        }
    }
}
