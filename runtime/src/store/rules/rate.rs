//! Rates, by GCRA, the generic cell rate algorithm: with the scripts `rate/*`, `include/rate` and
//! `include/*_rate`.
//!
//! Each request uses a span of time, as long as its weight. Spans do not overlap, and a request may
//! begin when its span ends within the burst. So in no window more begins than the burst and the rate.

#[cfg(test)]
mod hostile;

#[cfg(feature = "internals")]
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::ops::Range;

use super::limits::{BATCH, MOST_FREE, RATE_KEPT};
use super::time::{Time, micros};
use crate::store::{RequestId, Take};

/// What a request took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// When its span ends.
    pub until: u64,
    /// It was given back itself: a late copy of the take is refused.
    pub was_given_back: bool,
}

/// A span of time, in microseconds.
type Span = Range<u64>;

/// A rate, and who took from it lately.
#[derive(Debug, Default)]
pub(in crate::store) struct RateState {
    /// When the last span ends: the theoretical arrival time of GCRA, in microseconds.
    used_until: u64,
    /// The spans before that which were given back, in their order.
    free: Vec<Span>,
    /// The time of the last take.
    seen: u64,
    /// When the last request may begin.
    begins: u64,
    /// What each request took, as long as it is remembered.
    takes: HashMap<RequestId, Part>,
    /// How many there may be before those that nobody asks about any more are removed.
    sweep_above: usize,
}

/// The state of one rate, in plain values. Times are microseconds since the Unix epoch.
#[cfg(feature = "internals")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RatePicture {
    /// When the last span ends.
    pub used_until: u64,
    /// The free spans before that.
    pub free: Vec<Range<u64>>,
    /// The time of the last take.
    pub seen: u64,
    /// When the last request may begin.
    pub begins: u64,
    /// What each request took.
    pub takes: BTreeMap<RequestId, Part>,
}

impl Part {
    /// Returns true if it is remembered no longer.
    fn is_over(&self, now: Time) -> bool {
        // The script adds half a microsecond.
        let last = self.until + u64::from(self.was_given_back);
        last + micros(RATE_KEPT) <= now.micros()
    }
}

/// When a request may begin in several rates together, and which of them is the last to allow it. `begins`
/// says when one of them does, at a time or later. Fails with the first in which the request was given
/// back.
pub fn begins_together(
    now: u64,
    rates: usize,
    mut begins: impl FnMut(usize, u64) -> Option<u64>,
) -> Result<(u64, usize), usize> {
    let (mut at, mut last) = (now, 0);
    loop {
        let before = at;
        for nth in 0..rates {
            let begins = begins(nth, before).ok_or(nth)?;
            if begins > at {
                (at, last) = (begins, nth);
            }
        }
        if at == before {
            return Ok((at, last));
        }
    }
}

impl RateState {
    /// When a request may begin that begins at a time or later; `None` if it was given back.
    pub(in crate::store) fn begins(&mut self, take: &Take, at: u64, now: Time) -> Option<u64> {
        self.look(now);
        let until = match self.part(take.id, now) {
            Some(Part { was_given_back: true, .. }) => return None,
            Some(Part { until, .. }) => until,
            None => self.place(take, at).end,
        };
        let burst = take.rate.micros(take.rate.most_at_once());
        Some(at.max(until.saturating_sub(burst)))
    }

    /// Returns true if a request has taken.
    pub(in crate::store) fn is_known(&self, id: RequestId, now: Time) -> bool {
        self.part(id, now).is_some()
    }

    /// Forgets requests of which no copy can arrive any more.
    pub(in crate::store) fn forget(&mut self, settled: &[RequestId]) {
        for id in settled {
            self.takes.remove(id);
        }
    }

    /// Takes once for each request, the first span that begins at a time or later. Returns for how many
    /// microseconds the rate is used up.
    pub(in crate::store) fn take(&mut self, take: &Take, at: u64, now: Time) -> u64 {
        self.look(now);
        if self.part(take.id, now).is_none() {
            let span = self.place(take, at);
            self.begins = self.begins.max(at);
            let cut = |free: &Span| {
                let is_apart = span.end <= free.start || free.end <= span.start;
                let rest =
                    [free.start..span.start.min(free.end), free.start.max(span.end)..free.end];
                if is_apart { [free.clone(), 0..0] } else { rest }
            };
            self.free = self.free.iter().flat_map(cut).collect();
            self.free.push(self.used_until.max(now.micros())..span.start);
            self.used_until = self.used_until.max(span.end);
            self.note(take.id, (span.end, false), now);
        }
        self.used_until.saturating_sub(now.micros())
    }

    /// Gives back what a request took, and returns true if it was something. What time has given back
    /// already is not given back once more. If all others have begun, those behind it move forward, as if
    /// the request had never come. If one waits, or too many are behind it, its span is free. A late copy
    /// of the take is refused.
    pub(in crate::store) fn give_back(&mut self, take: &Take, now: Time) -> bool {
        self.look(now);
        let mut back = 0..0;
        if let Some(Part { until, was_given_back: false }) = self.part(take.id, now) {
            back = until.saturating_sub(take.micros()).max(now.micros())..until;
        }
        let is_some = !back.is_empty();
        if is_some {
            let is_behind = |part: &&mut Part| part.until > back.end;
            let behind = self.takes.values_mut().filter(is_behind);
            let behind: Vec<_> = behind.take(BATCH + 1).collect();
            let mut move_by = 0;
            if self.begins <= now.micros() && behind.len() <= BATCH {
                move_by = back.end - back.start;
                for part in behind {
                    part.until -= move_by;
                }
            }
            let at = self.free.partition_point(|free| free.end <= back.start);
            let mut all = std::mem::take(&mut self.free);
            for free in &mut all[at..] {
                *free = free.start - move_by..free.end - move_by;
            }
            if move_by == 0 {
                all.insert(at, back);
            }
            for free in all.into_iter().filter(|free| free.end > now.micros()) {
                match self.free.last_mut() {
                    Some(last) if last.end == free.start => last.end = free.end,
                    _ => self.free.push(free),
                }
            }
            self.used_until -= move_by;
            if let Some(last) = self.free.pop_if(|last| last.end == self.used_until) {
                self.used_until = last.start;
            }
        }
        self.note(take.id, (now.micros(), true), now);
        is_some
    }

    /// Returns true if nothing is left to remember.
    pub(in crate::store) fn is_blank(&self, now: Time) -> bool {
        self.used_until <= now.micros() && self.takes.values().all(|part| part.is_over(now))
    }

    /// The first span for a request that begins at a time or later.
    fn place(&self, take: &Take, at: u64) -> Span {
        let span = |from: u64| from..from + take.micros();
        let fits = |free: &Span| {
            let span = span(free.start.max(at));
            (span.end <= free.end).then_some(span)
        };
        self.free.iter().find_map(fits).unwrap_or_else(|| span(self.used_until.max(at)))
    }

    /// What a request took, if it is known.
    fn part(&self, id: RequestId, now: Time) -> Option<Part> {
        self.takes.get(&id).copied().filter(|part| !part.is_over(now))
    }

    #[cfg(feature = "internals")]
    pub(super) fn of(picture: RatePicture) -> Self {
        let RatePicture { used_until, free, seen, begins, takes } = picture;
        let takes = takes.into_iter().collect();
        Self { used_until, free, seen, begins, takes, sweep_above: 0 }
    }

    #[cfg(feature = "internals")]
    pub(super) fn picture(&self, now: Time) -> RatePicture {
        let used_until = self.used_until.max(now.micros());
        let free = self.free.iter().filter(|free| free.end > now.micros()).cloned().collect();
        let known = self.takes.iter().filter(|(_, part)| !part.is_over(now));
        let takes = known.map(|(id, part)| (*id, *part)).collect();
        // The script writes it only while somebody waits.
        let begins = if self.begins > now.micros() { self.begins } else { 0 };
        RatePicture { used_until, free, seen: self.seen, begins, takes }
    }

    /// If the clock went back, no time has passed meanwhile, and earlier requests and free spans are
    /// forgotten. Nothing else changes: the clock may go back after this look.
    fn look(&mut self, now: Time) {
        let now = now.micros();
        if now < self.seen {
            self.used_until = self.used_until.saturating_sub(self.seen - now);
            self.begins = self.begins.saturating_sub(self.seen - now);
            self.takes.clear();
            self.free.clear();
            self.seen = now;
        }
    }

    /// Notes a request, and keeps what is free.
    fn note(&mut self, id: RequestId, (until, was_given_back): (u64, bool), now: Time) {
        self.seen = now.micros();
        self.free.retain(|free| free.start.max(now.micros()) < free.end);
        let too_many = self.free.len().saturating_sub(MOST_FREE);
        self.free.drain(..too_many);
        if self.takes.len() > self.sweep_above {
            let takes = std::mem::take(&mut self.takes);
            self.takes = takes.into_iter().filter(|(_, part)| !part.is_over(now)).collect();
            self.sweep_above = (self.takes.len() * 2).max(64);
        }
        self.takes.insert(id, Part { until, was_given_back });
    }
}
