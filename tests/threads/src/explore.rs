//! Runs a test under many schedules.

use std::any::Any;
use std::cell::Cell;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex};

use shuttle::current::context_switches;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, Runner};
use tokio::runtime::Builder;

use super::mistakes::{MISTAKES, Mistake};
use super::sync::end_tasks;

/// How many schedules of each of two kinds: at random, and with few switches at chosen places.
const SCHEDULES: usize = 4_000;

/// The next run tries the same schedules.
const SEED: u64 = 36;

thread_local! {
    static PLANTED: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Returns true if this test has planted the mistake. The client's copy asks it.
pub(crate) fn is_planted(mistake: &str) -> bool {
    PLANTED.get() == Some(mistake)
}

/// Runs a test under many schedules. `LEASEHOLD_SCHEDULES` may say how many, and where to begin:
/// `1000000` or `1000000@7`.
pub(crate) fn check(test: fn()) {
    check_some(test, 1);
}

/// The same with a quarter of the schedules, for a test that takes longer.
pub(crate) fn check_slow(test: fn()) {
    check_some(test, 4);
}

fn check_some(test: fn(), part: usize) {
    let wanted = std::env::var("LEASEHOLD_SCHEDULES").unwrap_or_default();
    let (count, seed) = wanted.split_once('@').unwrap_or((&wanted, ""));
    run(test, count.parse().unwrap_or(SCHEDULES) / part, seed.parse().unwrap_or(SEED));
}

fn run(test: impl Fn() + Clone + Send + Sync + 'static, count: usize, seed: u64) {
    // For its timers, in which time stands still. Its end would wake the tasks of a schedule that
    // has failed.
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let _entered = Box::leak(Box::new(runtime.unwrap())).enter();
    let test = move || {
        test();
        end_tasks();
    };
    Runner::new(RandomScheduler::new_from_seed(seed, count), config()).run(test.clone());
    Runner::new(PctScheduler::new_from_seed(seed, 3, count), config()).run(test);
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.failure_persistence = FailurePersistence::Print;
    config.silence_warnings = true;
    config
}

/// How often threads were switched in each of the first schedules.
pub(crate) fn switches(test: fn()) -> Vec<usize> {
    const FEW: usize = 200;
    let counts = Arc::new(Mutex::new(Vec::new()));
    let counted = counts.clone();
    run(
        move || {
            test();
            counted.lock().unwrap().push(context_switches());
        },
        FEW,
        SEED,
    );
    let counts = counts.lock().unwrap().clone();
    assert_eq!(counts.len(), 2 * FEW);
    counts
}

/// Plants a mistake, and expects that the test fails with `symptom` in its message.
pub(crate) fn finds(mistake: &str, symptom: &str, test: fn()) {
    let planted = MISTAKES.iter().find(|it| it.name == mistake);
    let Mistake { name, file, code, wrong } = planted.expect("the name of a mistake");
    PLANTED.set(Some(name));
    let found = catch_unwind(|| run(test, SCHEDULES, SEED));
    PLANTED.set(None);
    let Err(panic) = found else {
        panic!("`{mistake}` is not found: {file} says `{wrong}` instead of `{code}`")
    };
    let message = message(&*panic);
    assert!(message.contains(symptom), "`{mistake}` is found by something else: {message}");
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default()
}

/// Every mistake is switched on by a test.
#[test]
fn each_mistake_has_its_test() {
    let tests = [
        include_str!("driver_wakes.rs"),
        include_str!("hand_off.rs"),
        include_str!("keeper_agenda.rs"),
        include_str!("lease_phase.rs"),
        include_str!("queue_drops.rs"),
        include_str!("shutdown_counts.rs"),
    ];
    for mistake in MISTAKES {
        let quoted = format!("\"{}\"", mistake.name);
        assert!(tests.iter().any(|test| test.contains(&quoted)), "nothing looks for {quoted}");
    }
}
