//! Rates, by GCRA, the generic cell rate algorithm: with the scripts `rate/*` and
//! `include/take_rate`.
//!
//! What a request takes uses the rate up for a time. A rate that is used up until a time later
//! than now by its burst has nothing left. So in no window does more get in than the burst and the rate.

#[cfg(test)]
mod hostile;

#[cfg(feature = "internals")]
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::time::Duration;

use super::limits::RATE_KEPT;
use super::time::{Time, micros};
use crate::core::rate::Rate;
use crate::store::RequestId;

/// A rate, and who took from it lately.
#[derive(Debug, Default)]
pub(in crate::store) struct RateState {
    /// The theoretical arrival time of GCRA, in microseconds.
    used_until: u64,
    /// The time of the last take.
    seen: u64,
    /// How much was given back in all, of what was taken before the last take.
    back: u64,
    /// Until when what a request took counts, and what was given back until then. What is given back
    /// later, of those before it, counts no more.
    takes: HashMap<RequestId, u64>,
    /// How many there may be before those that nobody asks about any more are removed.
    sweep_above: usize,
}

/// The state of one rate, in plain values. Times are microseconds since the Unix epoch.
#[cfg(feature = "internals")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RatePicture {
    /// Until when it is used up.
    pub used_until: u64,
    /// The time of the last take.
    pub seen: u64,
    /// How much was given back in all, of what was taken before the last take.
    pub back: u64,
    /// Until when what each request took counts, and what was given back until then.
    pub takes: BTreeMap<RequestId, u64>,
}

impl RateState {
    /// Returns true if [`take`](Self::take) would find enough; otherwise after how long it would.
    pub(in crate::store) fn is_available(
        &mut self,
        id: RequestId,
        (rate, weight): (Rate, u32),
        now: Time,
    ) -> Result<(), Duration> {
        self.look(now);
        let used = self.used_until + rate.micros(weight);
        let short = used.saturating_sub(rate.micros(rate.most_at_once()) + now.micros());
        let is_available = short == 0 || self.until(id, now).is_some();
        if is_available { Ok(()) } else { Err(Duration::from_micros(short)) }
    }

    /// Takes it once for each request, and returns for how many microseconds the rate is used up.
    pub(in crate::store) fn take(
        &mut self,
        id: RequestId,
        (rate, weight): (Rate, u32),
        now: Time,
    ) -> u64 {
        self.look(now);
        if self.until(id, now).is_none() {
            self.used_until += rate.micros(weight);
            self.note(id, self.used_until, now);
        }
        self.used_until - now.micros()
    }

    /// Gives back what a request took, and returns true if it was something. What time has given back
    /// already is not given back once more. A late copy of the take takes nothing.
    pub(in crate::store) fn give_back(
        &mut self,
        id: RequestId,
        (rate, weight): (Rate, u32),
        now: Time,
    ) -> bool {
        self.look(now);
        let until = self.until(id, now).unwrap_or_default();
        let back = until.saturating_sub(now.micros()).min(rate.micros(weight));
        if until < self.used_until {
            self.back += back;
        }
        self.used_until -= back;
        self.note(id, now.micros(), now);
        back > 0
    }

    /// Returns true if nothing is left to remember.
    pub(in crate::store) fn is_blank(&self, now: Time) -> bool {
        self.used_until <= now.micros()
            && self.takes.values().all(|until| self.is_over(*until, now))
    }

    /// Returns true if a request is remembered no longer.
    fn is_over(&self, until: u64, now: Time) -> bool {
        until + micros(RATE_KEPT) <= now.micros() + self.back
    }

    /// Until when what a request took counts, if it is known.
    fn until(&self, id: RequestId, now: Time) -> Option<u64> {
        let until = self.takes.get(&id).filter(|until| !self.is_over(**until, now))?;
        Some(until.saturating_sub(self.back))
    }

    #[cfg(feature = "internals")]
    pub(super) fn of(RatePicture { used_until, seen, back, takes }: RatePicture) -> Self {
        let takes = takes.into_iter().collect();
        Self { used_until, seen, back, takes, sweep_above: 0 }
    }

    #[cfg(feature = "internals")]
    pub(super) fn picture(&self, now: Time) -> RatePicture {
        let used_until = self.used_until.max(now.micros());
        let known = self.takes.iter().filter(|(_, until)| !self.is_over(**until, now));
        let takes = known.map(|(id, until)| (*id, *until)).collect();
        RatePicture { used_until, seen: self.seen, back: self.back, takes }
    }

    /// If the clock went back, no time has passed meanwhile, and earlier requests are forgotten.
    fn look(&mut self, now: Time) {
        let now = now.micros();
        if now < self.seen {
            self.used_until = self.used_until.saturating_sub(self.seen - now);
            self.takes.clear();
            self.seen = now;
        }
        self.used_until = self.used_until.max(now);
    }

    fn note(&mut self, id: RequestId, until: u64, now: Time) {
        self.seen = now.micros();
        if self.takes.len() > self.sweep_above {
            let takes = std::mem::take(&mut self.takes);
            self.takes =
                takes.into_iter().filter(|(_, until)| !self.is_over(*until, now)).collect();
            self.sweep_above = (self.takes.len() * 2).max(64);
        }
        self.takes.insert(id, until + self.back);
    }
}
