//! Two permits in one admission, beside one permit, and beside the two one after the other; and one
//! permit under a limit of an operator.

use std::time::{Duration, Instant};

use leasehold::{LockError, Locks};
use tokio::task::JoinSet;

use crate::bench::{Bench, progress};
use crate::failure::Failure;
use crate::server::Watched;
use crate::stats::{Spread, ratios, real};
use crate::table::{Table, Target};

/// How a task gets its permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    One,
    Set,
    OneAfterTheOther,
    UnderALimit,
}

const WAYS: [(Way, &str); 4] = [
    (Way::One, "one permit"),
    (Way::Set, "a set of two"),
    (Way::OneAfterTheOther, "two, one after the other"),
    (Way::UnderALimit, "one, under an operator's limit"),
];

const TASKS: [u32; 3] = [1, 8, 64];

/// No permit is ever waited for.
const LIMIT: u32 = 1_000;

pub(crate) async fn run(bench: &mut Bench, title: String) -> Result<(), Failure> {
    let server = Watched::start().await?;
    let locks = Locks::connect(&server.url()).await?;
    locks.limits().label("limited").set(LIMIT).await?;
    let (rounds, time) = (bench.pick(3, 9), bench.millis(250, 1_000));
    let mut table = Table::new(title, &["tasks", "way", "a second", "of one permit", "target"]);
    for tasks in TASKS {
        let mut rates = vec![Vec::new(); WAYS.len()];
        for round in 0..=rounds {
            progress!("{tasks} tasks, round {round} of {rounds}");
            for turn in 0..WAYS.len() {
                // No way always comes after the same one.
                let at = (turn + round) % WAYS.len();
                let rate = rate(&locks, WAYS[at].0, tasks, time).await?;
                // The first round warms up.
                if round > 0 {
                    rates[at].push(rate);
                }
            }
        }
        for (at, (way, name)) in WAYS.into_iter().enumerate() {
            let ratio = ratios(&rates[at], &rates[0]);
            let target = match way {
                Way::Set | Way::UnderALimit => Target::AtLeast(0.9).judge(ratio.median),
                Way::One | Way::OneAfterTheOther => String::new(),
            };
            let rate = Spread::of(rates[at].iter().copied()).show(0);
            table.row([tasks.to_string(), name.to_owned(), rate, ratio.show(2), target]);
        }
    }
    table.note("Each task takes a permit of its own semaphore and one of a semaphore of all, and releases both.");
    bench.add(table)
}

async fn rate(locks: &Locks, way: Way, tasks: u32, time: Duration) -> Result<f64, Failure> {
    let (mut running, begun) = (JoinSet::new(), Instant::now());
    for task in 0..tasks {
        let locks = locks.clone();
        running.spawn(async move {
            let own = format!("own:{task}");
            let mut count = 0;
            while begun.elapsed() < time {
                once(&locks, way, &own).await?;
                count += 1;
            }
            Ok::<usize, LockError>(count)
        });
    }
    let mut all = 0;
    while let Some(count) = running.join_next().await {
        all += count??;
    }
    Ok(real(all) / begun.elapsed().as_secs_f64())
}

async fn once(locks: &Locks, way: Way, own: &str) -> Result<(), LockError> {
    let one = locks.semaphore(own, LIMIT);
    match way {
        Way::One => drop(one.acquire().await?.release().await?),
        Way::UnderALimit => drop(one.label("limited").acquire().await?.release().await?),
        Way::Set => {
            let set = locks.together().permit(own, LIMIT).permit("total", LIMIT);
            set.lock().await?.release().await?;
        }
        Way::OneAfterTheOther => {
            let first = one.acquire().await?;
            let second = locks.semaphore("total", LIMIT).acquire().await?;
            second.release().await?;
            first.release().await?;
        }
    }
    Ok(())
}
