//! Clients of one store and their tasks act at random, and the store fails.
//!
//! The clock moves only when a step moves it. After each step only compatible holders hold the
//! lock, and the store agrees. In the end everybody that waited for long enough was served, and
//! nothing is left.

mod run;

use std::time::Duration;

use leasehold::{Fault, Step as Command};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestError, TestRunner};

use self::run::Run;

const CASES: u32 = 100;

/// The limit of the semaphore.
const LIMIT: u32 = 4;

/// The index of one of several.
type Which = Index;

/// The request of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Mutex(&'static str),
    Permits(u32),
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Mutex(name) => name,
            Self::Permits(_) => "permits",
        }
    }
}

const NAMES: [&str; 3] = ["first", "second", "permits"];

/// A request and its options.
#[derive(Clone, Debug)]
struct Ask {
    what: What,
    ttl: Duration,
    wait: Duration,
    renew: bool,
    hold_at_least: Duration,
    max_hold: Option<Duration>,
    /// Not with `hold_at_least`.
    linger: Duration,
    /// Its future has no task, and goes on only when a step polls it.
    is_kept: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Ask(Which, Ask),
    /// Many ask for the same. If futures are kept, every third is one.
    Crowd(Which, Ask, usize),
    Poll(Which),
    /// A waiting task is aborted.
    Abort(Which),
    Release(Which),
    Drop(Which),
    /// Each holder releases the lock after a while, this many times.
    Churn(&'static str, usize, Duration),
    /// Time goes by.
    Sleep(Duration),
    /// Time goes by while no task runs.
    Stall(Duration),
    Force(&'static str),
    Expire(&'static str),
    Fail(Command, Fault),
    /// Hints are held back, or those that were held back arrive.
    HoldHints,
    DeliverHints,
}

fn millis(of: &'static [u64]) -> impl Strategy<Value = Duration> {
    select(of).prop_map(Duration::from_millis)
}

fn ask() -> impl Strategy<Value = Ask> {
    let what = prop_oneof![
        4 => Just(What::Mutex(NAMES[0])),
        1 => Just(What::Mutex(NAMES[1])),
        2 => Just(What::Permits(1)),
        2 => (1..=LIMIT).prop_map(What::Permits),
    ];
    let ttl = prop_oneof![3 => Just(9_000), 1 => Just(1_000), 1 => Just(100)];
    let wait = prop_oneof![5 => Just(LONG), 1 => millis(&[0, 10, 30, 1_500])];
    let keep = prop_oneof![9 => Just(Duration::ZERO), 1 => millis(&[5, 500])];
    let most = prop_oneof![5 => Just(None), 1 => millis(&[100, 9_000, 12_000]).prop_map(Some)];
    let linger = prop_oneof![3 => Just(Duration::ZERO), 2 => millis(&[5, 300, 1_500])];
    let (renew, is_kept) = (prop::bool::weighted(0.9), prop::bool::weighted(0.15));
    (what, ttl, wait, keep, most, linger, renew, is_kept).prop_map(
        |(what, ttl, wait, hold_at_least, max_hold, linger, renew, is_kept)| Ask {
            what,
            ttl: Duration::from_millis(ttl),
            wait,
            renew,
            hold_at_least,
            max_hold,
            linger: if hold_at_least.is_zero() { linger } else { Duration::ZERO },
            is_kept,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let (which, name) = (any::<Index>, select(&NAMES[..]));
    let command = select(&[Command::Acquire, Command::Renew, Command::Release][..]);
    let fault = prop_oneof![
        Just(Fault::Unreachable),
        Just(Fault::LoseCommand),
        Just(Fault::LoseReply),
        millis(&[5, 40, 400]).prop_map(Fault::Delay),
        millis(&[5, 40, 400]).prop_map(Fault::LoseReplyAfter),
    ];
    let while_ = || millis(&[0, 1, 3, 7]);
    let some = millis(&[1, 6, 19, 20, 21, 40, 300, 3_000]);
    let any_time = millis(&[1, 6, 20, 60, 400, 3_000, 7_000, 12_000]);
    prop_oneof![
        6 => (which(), ask()).prop_map(|(client, ask)| Step::Ask(client, ask)),
        6 => (which(), ask(), 2..10_usize).prop_map(|(client, ask, n)| Step::Crowd(client, ask, n)),
        3 => which().prop_map(Step::Poll),
        2 => which().prop_map(Step::Abort),
        4 => which().prop_map(Step::Release),
        3 => which().prop_map(Step::Drop),
        8 => (name.clone(), 1..20_usize, while_()).prop_map(|(name, n, each)| {
            Step::Churn(name, n, each)
        }),
        3 => some.prop_map(Step::Sleep),
        1 => any_time.prop_map(Step::Stall),
        1 => name.clone().prop_map(Step::Force),
        1 => name.prop_map(Step::Expire),
        2 => (command, fault).prop_map(|(command, fault)| Step::Fail(command, fault)),
        1 => Just(Step::HoldHints),
        2 => Just(Step::DeliverHints),
    ]
}

/// So long that every waiter is served.
const LONG: Duration = Duration::from_secs(3_600);

#[derive(Clone, Debug)]
struct Case {
    clients: usize,
    /// Randomises the waiters' pauses.
    seed: u64,
    steps: Vec<Step>,
}

fn case() -> impl Strategy<Value = Case> {
    let parts = (1..=3_usize, any::<u64>(), vec(step(), 1..60));
    parts.prop_map(|(clients, seed, steps)| Case { clients, seed, steps })
}

#[test]
fn random_tasks_never_break_the_invariants() {
    let config = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => Config::default(),
        None => Config::with_cases(CASES),
    };
    // The cases are random each time. A bug that they find gets a test of its own.
    let config = Config { failure_persistence: None, max_shrink_time: 60_000, ..config };
    let handed_over = std::cell::Cell::new(0);
    let result = TestRunner::new(config).run(&case(), |case| {
        handed_over.set(handed_over.get() + Run::of(case)?);
        Ok(())
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, case)) => panic!("{reason}\n{case:#?}"),
        Err(failure) => panic!("{failure}"),
    }
    println!("{} leases went on without the store", handed_over.get());
    assert!(handed_over.get() > 0);
}
