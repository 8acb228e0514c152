//! Rates, by GCRA, the generic cell rate algorithm: with the scripts `rate/*`, `include/rate` and
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

use super::limits::{BATCH, RATE_KEPT};
use super::time::{Time, micros};
use crate::store::{RequestId, Take};

/// What a request took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Until when it counts.
    pub until: u64,
    /// It was given back itself: a late copy of the take is refused.
    pub was_given_back: bool,
}

/// A rate, and who took from it lately.
#[derive(Debug, Default)]
pub(in crate::store) struct RateState {
    /// The theoretical arrival time of GCRA, in microseconds.
    used_until: u64,
    /// The time of the last take.
    seen: u64,
    /// What each request took, as long as it is remembered.
    takes: HashMap<RequestId, Part>,
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
    /// What each request took.
    pub takes: BTreeMap<RequestId, Part>,
}

/// Why a rate does not allow a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// There is enough after this time.
    For(Duration),
    /// It was given back.
    ForEver,
}

impl Part {
    /// Returns true if it is remembered no longer.
    fn is_over(&self, now: Time) -> bool {
        // The script adds half a microsecond.
        let last = self.until + u64::from(self.was_given_back);
        last + micros(RATE_KEPT) <= now.micros()
    }
}

impl RateState {
    /// Returns true if [`take`](Self::take) would find enough; otherwise after how long it would.
    pub(in crate::store) fn is_available(&mut self, take: &Take, now: Time) -> Result<(), Short> {
        let (used, rate) = (self.look(now) + take.micros(), take.rate);
        for settled in &take.settled {
            self.takes.remove(settled);
        }
        let short = used.saturating_sub(rate.micros(rate.most_at_once()) + now.micros());
        match self.part(take.id, now) {
            Some(Part { was_given_back: true, .. }) => Err(Short::ForEver),
            None if short > 0 => Err(Short::For(Duration::from_micros(short))),
            _ => Ok(()),
        }
    }

    /// Takes it once for each request, and returns for how many microseconds the rate is used up.
    pub(in crate::store) fn take(&mut self, take: &Take, now: Time) -> u64 {
        let mut used = self.look(now);
        if self.part(take.id, now).is_none() {
            used += take.micros();
            self.used_until = used;
            self.note(take.id, (used, false), now);
        }
        used - now.micros()
    }

    /// Gives back what a request took, and returns true if it was something. What time has given back
    /// already is not given back once more. What others took after it counts so much sooner, as if the
    /// request had never come. A late copy of the take is refused.
    pub(in crate::store) fn give_back(&mut self, take: &Take, now: Time) -> bool {
        let used = self.look(now);
        let mut back = 0;
        if let Some(Part { until, was_given_back: false }) = self.part(take.id, now) {
            let is_later = |(_, part): &(&RequestId, &Part)| part.until > until;
            let later: Vec<_> = self.takes.iter().filter(is_later).map(|(id, _)| *id).collect();
            // Otherwise it is left to time.
            if later.len() <= BATCH {
                back = until.saturating_sub(now.micros()).min(take.micros());
                for id in later {
                    self.takes.entry(id).and_modify(|part| part.until -= back);
                }
            }
        }
        self.used_until = used - back;
        self.note(take.id, (now.micros(), true), now);
        back > 0
    }

    /// Returns true if nothing is left to remember.
    pub(in crate::store) fn is_blank(&self, now: Time) -> bool {
        self.used_until <= now.micros() && self.takes.values().all(|part| part.is_over(now))
    }

    /// What a request took, if it is known.
    fn part(&self, id: RequestId, now: Time) -> Option<Part> {
        self.takes.get(&id).copied().filter(|part| !part.is_over(now))
    }

    #[cfg(feature = "internals")]
    pub(super) fn of(RatePicture { used_until, seen, takes }: RatePicture) -> Self {
        let takes = takes.into_iter().collect();
        Self { used_until, seen, takes, sweep_above: 0 }
    }

    #[cfg(feature = "internals")]
    pub(super) fn picture(&self, now: Time) -> RatePicture {
        let used_until = self.used_until.max(now.micros());
        let known = self.takes.iter().filter(|(_, part)| !part.is_over(now));
        let takes = known.map(|(id, part)| (*id, *part)).collect();
        RatePicture { used_until, seen: self.seen, takes }
    }

    /// Until when the rate is used up, now or later. If the clock went back, no time has passed meanwhile,
    /// and earlier requests are forgotten. Nothing else changes: the clock may go back after this look.
    fn look(&mut self, now: Time) -> u64 {
        let now = now.micros();
        if now < self.seen {
            self.used_until = self.used_until.saturating_sub(self.seen - now);
            self.takes.clear();
            self.seen = now;
        }
        self.used_until.max(now)
    }

    fn note(&mut self, id: RequestId, (until, was_given_back): (u64, bool), now: Time) {
        self.seen = now.micros();
        if self.takes.len() > self.sweep_above {
            let takes = std::mem::take(&mut self.takes);
            self.takes = takes.into_iter().filter(|(_, part)| !part.is_over(now)).collect();
            self.sweep_above = (self.takes.len() * 2).max(64);
        }
        self.takes.insert(id, Part { until, was_given_back });
    }
}
