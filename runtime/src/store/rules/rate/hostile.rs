//! A rate under random calls, and a clock that goes back.

use std::sync::atomic::AtomicU64;

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
    Take(u32),
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
        6 => (1..4u32).prop_map(Event::Take),
        3 => (0..6usize).prop_map(Event::GiveBack),
        1 => (0..6usize).prop_map(Event::Repeat),
        3 => (0..6usize).prop_map(Event::Settle),
    ]
}

fn of(id: RequestId, (rate, weight): (Rate, u32)) -> Take {
    Take { key: LockKey::new("rate").unwrap(), id, rate, weight, settled: Vec::new() }
}

/// A take: its request, when and how much; and whether it was given back, or is known to be used.
struct Taken {
    id: RequestId,
    at: u64,
    weight: u32,
    is_given_back: bool,
    is_settled: bool,
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
        let mut settled = Vec::new();
        for event in events {
            match event {
                Event::Pass(micros) => now += micros,
                Event::Settle(back) => {
                    if let Some(at) = taken.len().checked_sub(back + 1)
                        && !taken[at].is_given_back
                    {
                        taken[at].is_settled = true;
                        settled.push(taken[at].id);
                    }
                }
                Event::Take(weight) => {
                    let (id, part) = (RequestId::next(client, &ids), (rate, weight));
                    let first = Take { settled: std::mem::take(&mut settled), ..of(id, part) };
                    match state.is_available(&first, time(now)) {
                        Ok(()) => {
                            state.take(&of(id, part), time(now));
                            taken.push(Taken { id, at: now, weight, is_given_back: false, is_settled: false });
                        }
                        Err(Short::ForEver) => prop_assert!(false, "a new request was not given back"),
                        Err(Short::For(short)) => {
                            let then = time(now) + short;
                            prop_assert!(state.is_available(&of(id, part), then).is_ok());
                            let sooner = time(now) + short.saturating_sub(Duration::from_micros(1));
                            // The time of a rate does not go back: only a copy is asked earlier.
                            let mut copy = RateState { used_until: state.used_until, ..RateState::default() };
                            prop_assert!(copy.is_available(&of(id, part), sooner).is_err() || short.as_micros() == 1);
                        }
                    }
                }
                Event::GiveBack(back) => {
                    if let Some(at) = taken.len().checked_sub(back + 1)
                        && !taken[at].is_settled
                    {
                        state.give_back(&of(taken[at].id, (rate, taken[at].weight)), time(now));
                        taken[at].is_given_back = true;
                    }
                }
                Event::Repeat(back) => {
                    if let Some(at) = taken.len().checked_sub(back + 1)
                        && !taken[at].is_settled
                    {
                        let nth = at;
                        let Taken { id, weight, at, .. } = taken[nth];
                        let before = state.used_until;
                        if now < at + micros(RATE_KEPT) {
                            let asked = state.is_available(&of(id, (rate, weight)), time(now));
                            if taken[nth].is_given_back {
                                prop_assert_eq!(asked, Err(Short::ForEver));
                                continue;
                            }
                            prop_assert!(asked.is_ok());
                            state.take(&of(id, (rate, weight)), time(now));
                            prop_assert_eq!(state.used_until, before);
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
        prop_assert!(state.is_available(&of(id, (rate, burst)), time(now)).is_ok());
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
    state.take(&of(first, (rate, 10)), at(5_000_000));
    let short = state.is_available(&of(next(), (rate, 1)), at(1_000_000)).unwrap_err();
    assert_eq!(short, Short::For(Duration::from_millis(100)));
    assert!(state.is_available(&of(next(), (rate, 1)), at(1_000_100)).is_ok());
    assert!(state.is_available(&of(next(), (rate, 2)), at(1_000_100)).is_err());
    assert!(!state.give_back(&of(first, (rate, 10)), at(1_000_100)), "it is not known any more");
    assert!(state.is_available(&of(next(), (rate, 2)), at(1_000_100)).is_err());
}

/// A request that comes twice, a little before the clock goes back.
#[test]
fn a_look_uses_nothing_up() {
    let (rate, client, ids) = (Rate::per_second(10), ClientId::random(), AtomicU64::new(0));
    let at = |millis| Time::since_beginning(Duration::from_millis(millis));
    let next = || RequestId::next(client, &ids);
    let mut state = RateState::default();
    let first = of(next(), (rate, 1));
    state.take(&first, at(10_000));
    assert_eq!(state.take(&first, at(19_000)), 0, "time has given it back");
    assert_eq!(state.take(&of(next(), (rate, 1)), at(18_900)), 100_000);
}
