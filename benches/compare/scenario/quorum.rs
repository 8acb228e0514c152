//! Five masters that know nothing of each other, some of which are dead or frozen.

use std::time::{Duration, Instant};

use leasehold::{Locks, QuorumLocks};
use leasehold_tests::masters::Masters;

use crate::bench::{Bench, progress};
use crate::failure::Failure;
use crate::stats::Times;
use crate::table::{Table, Target, show_ms};

/// The time that each server has to answer: our default.
const TIME_OUT: Duration = Duration::from_millis(50);

const TTL: Duration = Duration::from_secs(10);

#[derive(Clone, Copy)]
enum State {
    AllUp,
    Frozen(usize),
    Dead(usize),
}

impl State {
    const ALL: [Self; 6] = [
        Self::AllUp,
        Self::Frozen(1),
        Self::Frozen(2),
        Self::Frozen(3),
        Self::Dead(2),
        Self::Dead(3),
    ];

    fn title(self) -> String {
        match self {
            Self::AllUp => "all are up".to_owned(),
            Self::Frozen(count) => format!("{count} frozen"),
            Self::Dead(count) => format!("{count} dead"),
        }
    }

    /// The longest acquire allowed for ours, in milliseconds.
    fn target(self) -> Option<f64> {
        match self {
            Self::AllUp => None,
            Self::Frozen(3) | Self::Dead(3) => Some(2.0 * TIME_OUT.as_secs_f64() * 1e3),
            Self::Frozen(_) => Some(TIME_OUT.as_secs_f64() * 1e3),
            Self::Dead(_) => Some(5.0),
        }
    }
}

pub(crate) async fn run(bench: &mut Bench, title: String) -> Result<(), Failure> {
    let head = ["servers", "contender", "acquire, median ms", "p99", "granted", "target"];
    let mut table = Table::new(title, &head);
    for state in State::ALL {
        progress!("{}", state.title());
        let masters = Masters::start(5);
        let ours = Locks::builder().assume_durable(true).connect_quorum(masters.urls()).await?;
        let mut rslock = rslock::LockManager::new(masters.urls());
        // It tries once, as ours does.
        rslock.set_retry(1, Duration::ZERO);
        // Opens the connections of both.
        measure_ours(&ours, 10).await;
        measure_rslock(&rslock, 10).await;
        let mut frozen = Vec::new();
        match state {
            State::AllUp => {}
            State::Frozen(count) => {
                for place in 0..count {
                    frozen.push(masters.freeze(place).await);
                }
            }
            State::Dead(count) => {
                for place in 0..count {
                    masters.kill(place).await;
                }
            }
        }
        let tries = bench.pick(10, 40);
        let of_ours = measure_ours(&ours, tries).await;
        let of_rslock = measure_rslock(&rslock, tries).await;
        drop(frozen);
        for (who, (times, granted)) in [("ours", of_ours), ("rslock", of_rslock)] {
            let aim = state.target().filter(|_| who == "ours");
            let p99 = times.p99().as_secs_f64() * 1e3;
            table.row([
                state.title(),
                who.to_owned(),
                show_ms(times.p50()),
                show_ms(times.p99()),
                format!("{granted} of {tries}"),
                aim.map(|aim| Target::AtMost(aim).judge(p99)).unwrap_or_default(),
            ]);
        }
    }
    table.note(format!(
        "One task, one try each time, and what is granted is released. Ours gives each server {} \
         ms, rslock the driver's 500 ms. Ours pays two rounds for a token that grows over all \
         majorities; rslock has none.",
        TIME_OUT.as_millis()
    ));
    bench.add(table)
}

async fn measure_ours(locks: &QuorumLocks, tries: usize) -> (Times, usize) {
    let (mut times, mut granted) = (Vec::new(), 0);
    let mutex = locks.mutex("bench").ttl(TTL);
    for _ in 0..tries {
        let begun = Instant::now();
        let lease = mutex.try_lock().await;
        times.push(begun.elapsed());
        if let Ok(lease) = lease {
            granted += 1;
            let _ = lease.release().await;
        }
    }
    (times.into_iter().collect(), granted)
}

async fn measure_rslock(manager: &rslock::LockManager, tries: usize) -> (Times, usize) {
    let (mut times, mut granted) = (Vec::new(), 0);
    for _ in 0..tries {
        let begun = Instant::now();
        let lock = manager.lock("bench-rslock", TTL).await;
        times.push(begun.elapsed());
        if let Ok(lock) = lock {
            granted += 1;
            manager.unlock(&lock).await;
        }
    }
    (times.into_iter().collect(), granted)
}
