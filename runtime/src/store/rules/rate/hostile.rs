//! A rate under random calls, and a clock that goes back.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::core::key::LockKey;
use crate::core::rate::Rate;
use crate::store::ClientId;

/// What happens to a rate.
#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    /// A request of this weight, which may wait for so long.
    Take(u32, u64),
    /// A take that was not used, by how many there were since.
    GiveBack(usize),
    /// A command arrives twice.
    Repeat(usize),
    /// A take is used, and the next one says so.
    Settle(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..40_000u64).prop_map(Event::Pass),
        1 => (0..2_000_000u64).prop_map(Event::Pass),
        4 => (1..4u32).prop_map(|weight| Event::Take(weight, 0)),
        4 => ((1..4u32), (0..3_000_000u64)).prop_map(|(weight, wait)| Event::Take(weight, wait)),
        3 => (0..6usize).prop_map(Event::GiveBack),
        1 => (0..6usize).prop_map(Event::Repeat),
        3 => (0..6usize).prop_map(Event::Settle),
    ]
}

fn of(id: RequestId, (rate, weight): (Rate, u32)) -> Take {
    let key = LockKey::new("rate").unwrap();
    Take { key, id, rate, weight, settled: Vec::new(), wait: Duration::ZERO }
}

/// A take: its request, when that begins, and how much it takes; and whether it was given back, or is
/// known to be used.
struct Taken {
    id: RequestId,
    at: u64,
    weight: u32,
    is_given_back: bool,
    is_settled: bool,
}

/// Free spans are in their order, apart, and before the end.
fn check(state: &RateState) {
    for (nth, free) in state.free.iter().enumerate() {
        let next = state.free.get(nth + 1).map_or(state.used_until, |next| next.start);
        assert!(free.start < free.end && free.end < next, "{state:?}");
    }
}

proptest! {
    /// In no window does more begin than the burst and the rate, and after a pause there is a burst.
    #[test]
    fn no_window_has_more_than_the_rate(
        events in vec(event(), 1..120),
        count in 1..200u32,
        burst in 3..20u32,
    ) {
        let (rate, client, ids) = (Rate::per_second(count).burst(burst), ClientId::random(), AtomicU64::new(0));
        let (mut state, mut now, mut taken) = (RateState::default(), 1_000_000_000u64, Vec::<Taken>::new());
        let time = |now| Time::since_beginning(Duration::from_micros(now));
        let nth = |taken: &Vec<Taken>, back| {
            taken.len().checked_sub(back + 1).filter(|at| !taken[*at].is_settled)
        };
        for event in events {
            match event {
                Event::Pass(micros) => now += micros,
                Event::Settle(back) => {
                    if let Some(at) = nth(&taken, back)
                        && !taken[at].is_given_back
                        && taken[at].at <= now
                    {
                        taken[at].is_settled = true;
                        state.forget(&[taken[at].id]);
                    }
                }
                Event::Take(weight, wait) => {
                    let take = of(RequestId::next(client, &ids), (rate, weight));
                    let at = state.begins(&take, now, time(now)).unwrap();
                    prop_assert_eq!(state.begins(&take, at, time(now)), Some(at), "it is the time");
                    if at <= now + wait {
                        state.take(&take, at, time(now));
                        taken.push(Taken { id: take.id, at, weight, is_given_back: false, is_settled: false });
                    } else {
                        prop_assert!(state.begins(&take, at - 1, time(now)) == Some(at), "not sooner");
                    }
                }
                Event::GiveBack(back) => {
                    if let Some(at) = nth(&taken, back) {
                        state.give_back(&of(taken[at].id, (rate, taken[at].weight)), time(now));
                        taken[at].is_given_back = true;
                    }
                }
                Event::Repeat(back) => {
                    if let Some(at) = nth(&taken, back)
                        && now < taken[at].at + micros(RATE_KEPT)
                    {
                        let Taken { id, weight, at, is_given_back, .. } = taken[at];
                        let (copy, before) = (of(id, (rate, weight)), state.used_until);
                        let begins = state.begins(&copy, now, time(now));
                        prop_assert_eq!(begins.is_none(), is_given_back);
                        if begins.is_some() {
                            prop_assert!(begins <= Some(at.max(now)), "it keeps its time");
                            state.take(&copy, now, time(now));
                        }
                        prop_assert_eq!(state.used_until, before);
                    }
                }
            }
            check(&state);
        }
        let mut used: Vec<_> = taken.iter().filter(|it| !it.is_given_back).collect();
        used.sort_by_key(|it| it.at);
        for (first, begin) in used.iter().enumerate() {
            let mut sum = 0u64;
            for end in &used[first..] {
                sum += u64::from(end.weight);
                let window = end.at - begin.at;
                let most = u64::from(burst) * 1_000_000 + u64::from(count) * window;
                prop_assert!(sum * 1_000_000 <= most + 1_000_000 / 10, "{sum} in {window} us");
            }
        }
        now = state.used_until.max(now) + 1_000_000 * 20 * 10 + rate.micros(burst) * 2;
        let take = of(RequestId::next(client, &ids), (rate, burst));
        prop_assert_eq!(state.begins(&take, now, time(now)), Some(now));
        prop_assert!(state.is_blank(time(now)));
    }
}

/// When a request may begin in all of these rates.
fn begin(states: &mut [RateState], takes: &[Take], now: u64) -> u64 {
    let time = Time::since_beginning(Duration::from_micros(now));
    let begins = |nth: usize, at| states[nth].begins(&takes[nth], at, time);
    begins_together(now, takes.len(), begins).unwrap().0
}

proptest! {
    /// A set begins when its slowest rate allows it, and no window of any of them has more.
    #[test]
    fn no_window_of_several_rates_has_more(
        events in vec((0..400_000u64, 0..3usize, (1..4u32), (1..4u32), proptest::option::weighted(0.4, 0..4usize)), 1..80),
    ) {
        let rates = [Rate::per_second(9).burst(9), Rate::per_second(4).burst(5)];
        let (client, ids, mut now) = (ClientId::random(), AtomicU64::new(0), 1_000_000_000u64);
        let mut states = [RateState::default(), RateState::default()];
        let mut begun = [Vec::<(u64, Take)>::new(), vec![]];
        for (pass, which, first, second, given_back) in events {
            now += pass;
            let (chosen, weights) = (if which == 2 { 0..2 } else { which..which + 1 }, [first, second]);
            let takes: Vec<_> = chosen.clone()
                .map(|nth| of(RequestId::next(client, &ids), (rates[nth], weights[nth])))
                .collect();
            let at = begin(&mut states[chosen.clone()], &takes, now);
            let time = Time::since_beginning(Duration::from_micros(now));
            for (nth, take) in chosen.zip(takes) {
                states[nth].take(&take, at, time);
                check(&states[nth]);
                begun[nth].push((at, take));
                if let Some(back) = given_back
                    && let Some(back) = begun[nth].len().checked_sub(back + 1)
                {
                    states[nth].give_back(&begun[nth].remove(back).1, time);
                    check(&states[nth]);
                }
            }
        }
        for (rate, begun) in rates.iter().zip(&mut begun) {
            begun.sort_by_key(|(at, _)| *at);
            for first in 0..begun.len() {
                let mut sum = 0;
                for last in &begun[first..] {
                    sum += last.1.micros();
                    let window = last.0 - begun[first].0;
                    prop_assert!(sum <= rate.micros(rate.most_at_once()) + window, "{sum} us in {window}");
                }
            }
        }
    }
}

/// However far it goes back: what was taken counts as if no time had passed.
#[test]
fn a_clock_that_goes_back_neither_closes_nor_opens_a_rate() {
    let (rate, client, ids) = (Rate::per_second(10), ClientId::random(), AtomicU64::new(0));
    let at = |millis| Time::since_beginning(Duration::from_millis(millis));
    let mut state = RateState::default();
    let next = |weight| of(RequestId::next(client, &ids), (rate, weight));
    let after = |state: &mut RateState, weight, now: Time| {
        state.begins(&next(weight), now.micros(), now).unwrap() - now.micros()
    };
    let first = next(10);
    state.take(&first, at(5_000_000).micros(), at(5_000_000));
    assert_eq!(after(&mut state, 1, at(1_000_000)), 100_000);
    assert_eq!(after(&mut state, 1, at(1_000_100)), 0);
    assert_eq!(after(&mut state, 2, at(1_000_100)), 100_000);
    assert!(!state.give_back(&first, at(1_000_100)), "it is not known any more");
    assert_eq!(after(&mut state, 2, at(1_000_100)), 100_000);
}

/// A request that comes twice, a little before the clock goes back.
#[test]
fn a_look_uses_nothing_up() {
    let (rate, client, ids) = (Rate::per_second(10), ClientId::random(), AtomicU64::new(0));
    let next = || of(RequestId::next(client, &ids), (rate, 1));
    let mut state = RateState::default();
    let mut take = |take: &Take, millis| {
        let now = Time::since_beginning(Duration::from_millis(millis));
        state.take(take, now.micros(), now)
    };
    let first = next();
    take(&first, 10_000);
    assert_eq!(take(&first, 19_000), 0, "time has given it back");
    assert_eq!(take(&next(), 18_900), 100_000);
}
