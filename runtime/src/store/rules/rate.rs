//! Rates, by GCRA, the generic cell rate algorithm: with the scripts `rate/*` and
//! `include/take_rate`.
//!
//! What a request takes uses the rate up for a time. A rate that is used up until a time later
//! than now by its burst has nothing left. So in no window does more get in than the burst and the rate.

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
    /// How much was given back lately: of what was taken before then, so much less counts.
    back: u64,
    /// Until when something counts that was taken before the last time that something was given back.
    back_until: u64,
    /// Until when what a request took counts.
    takes: HashMap<RequestId, u64>,
    /// How many there may be before those that nobody asks about any more are removed.
    sweep_above: usize,
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
        if self.back_until <= now.micros() {
            (self.back, self.back_until) = (0, 0);
        }
        let spent = now.micros() + self.back;
        let left = self.until(id, now).map_or(0, |until| until.saturating_sub(spent));
        let back = left.min(rate.micros(weight));
        if back > 0 {
            self.back += back;
            self.back_until = self.back_until.max(self.used_until);
            self.used_until -= back;
        }
        self.note(id, now.micros(), now);
        back > 0
    }

    /// Returns true if nothing is left to remember.
    pub(in crate::store) fn is_blank(&self, now: Time) -> bool {
        let kept = micros(RATE_KEPT);
        self.used_until <= now.micros()
            && self.takes.values().all(|until| until + kept <= now.micros())
    }

    /// Until when what a request took counts, if it is known.
    fn until(&self, id: RequestId, now: Time) -> Option<u64> {
        let is_known = |until: &u64| until + micros(RATE_KEPT) > now.micros();
        self.takes.get(&id).copied().filter(is_known)
    }

    /// If the clock went back, no time has passed meanwhile, and earlier requests are forgotten.
    fn look(&mut self, now: Time) {
        let now = now.micros();
        if now < self.seen {
            self.used_until = self.used_until.saturating_sub(self.seen - now);
            self.takes.clear();
            (self.seen, self.back, self.back_until) = (now, 0, 0);
        }
        self.used_until = self.used_until.max(now);
    }

    fn note(&mut self, id: RequestId, until: u64, now: Time) {
        let (now, kept) = (now.micros(), micros(RATE_KEPT));
        self.seen = now;
        if self.takes.len() > self.sweep_above {
            self.takes.retain(|_, until| *until + kept > now);
            self.sweep_above = (self.takes.len() * 2).max(64);
        }
        self.takes.insert(id, until);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::store::ClientId;

    /// What happens to a rate.
    #[derive(Clone, Debug)]
    enum Event {
        Pass(u64),
        Take(u32),
        /// A take that was not used, by how many there were since.
        GiveBack(usize),
        /// A command arrives twice.
        Repeat(usize),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            3 => (0..40_000u64).prop_map(Event::Pass),
            1 => (0..2_000_000u64).prop_map(Event::Pass),
            6 => (1..4u32).prop_map(Event::Take),
            3 => (0..6usize).prop_map(Event::GiveBack),
            1 => (0..6usize).prop_map(Event::Repeat),
        ]
    }

    /// A take: its request, when and how much; and whether it was given back, or was used.
    struct Taken {
        id: RequestId,
        at: u64,
        weight: u32,
        is_given_back: bool,
    }

    proptest! {
        /// In no window does more get in than the burst and the rate, and after a pause there is a burst.
        #[test]
        fn no_window_has_more_than_the_rate(
            events in vec(event(), 1..120),
            count in 1..200u32,
            burst in 3..20u32,
        ) {
            let (rate, client, ids) = (Rate::per_second(count).burst(burst), ClientId::random(), AtomicU64::new(0));
            let (mut state, mut now, mut taken) = (RateState::default(), 1_000_000_000u64, Vec::<Taken>::new());
            let time = |now| Time::since_beginning(Duration::from_micros(now));
            for event in events {
                match event {
                    Event::Pass(micros) => now += micros,
                    Event::Take(weight) => {
                        let (id, part) = (RequestId::next(client, &ids), (rate, weight));
                        match state.is_available(id, part, time(now)) {
                            Ok(()) => {
                                state.take(id, part, time(now));
                                taken.push(Taken { id, at: now, weight, is_given_back: false });
                            }
                            Err(short) => {
                                let then = time(now) + short;
                                prop_assert!(state.is_available(id, part, then).is_ok());
                                let sooner = time(now) + (short - Duration::from_micros(1));
                                // The time of a rate does not go back: only a copy is asked earlier.
                                let mut copy = RateState { used_until: state.used_until, ..RateState::default() };
                                prop_assert!(copy.is_available(id, part, sooner).is_err() || short.as_micros() == 1);
                            }
                        }
                    }
                    Event::GiveBack(back) => {
                        if let Some(at) = taken.len().checked_sub(back + 1) {
                            state.give_back(taken[at].id, (rate, taken[at].weight), time(now));
                            taken[at].is_given_back = true;
                        }
                    }
                    Event::Repeat(back) => {
                        if let Some(at) = taken.len().checked_sub(back + 1) {
                            let Taken { id, weight, at, .. } = taken[at];
                            let before = state.used_until;
                            if now < at + micros(RATE_KEPT) {
                                prop_assert!(state.is_available(id, (rate, weight), time(now)).is_ok());
                                state.take(id, (rate, weight), time(now));
                                prop_assert_eq!(state.used_until, before.max(now));
                            }
                        }
                    }
                }
                prop_assert!(state.used_until <= now.max(state.seen) + rate.micros(burst));
            }
            let used: Vec<_> = taken.iter().filter(|it| !it.is_given_back).collect();
            for (first, begin) in used.iter().enumerate() {
                let mut sum = 0u64;
                for end in &used[first..] {
                    sum += u64::from(end.weight);
                    let window = end.at - begin.at;
                    let most = u64::from(burst) * 1_000_000 + u64::from(count) * window;
                    prop_assert!(sum * 1_000_000 <= most + 1_000_000 / 10, "{sum} in {window} us");
                }
            }
            now += 1_000_000 * 20 * 10 + rate.micros(burst) * 2;
            let id = RequestId::next(client, &ids);
            prop_assert!(state.is_available(id, (rate, burst), time(now)).is_ok());
            prop_assert!(state.is_blank(time(now)));
        }
    }

    /// However far it goes back: what was taken counts as if no time had passed.
    #[test]
    fn a_clock_that_goes_back_neither_closes_nor_opens_a_rate() {
        let (rate, client, ids) = (Rate::per_second(10), ClientId::random(), AtomicU64::new(0));
        let at = |millis| Time::since_beginning(Duration::from_millis(millis));
        let mut state = RateState::default();
        let next = || RequestId::next(client, &ids);
        let first = next();
        state.take(first, (rate, 10), at(5_000_000));
        let short = state.is_available(next(), (rate, 1), at(1_000_000)).unwrap_err();
        assert_eq!(short, Duration::from_millis(100));
        assert!(state.is_available(next(), (rate, 1), at(1_000_100)).is_ok());
        assert!(state.is_available(next(), (rate, 2), at(1_000_100)).is_err());
        assert!(!state.give_back(first, (rate, 10), at(1_000_100)), "it is not known any more");
        assert!(state.is_available(next(), (rate, 2), at(1_000_100)).is_err());
    }
}
