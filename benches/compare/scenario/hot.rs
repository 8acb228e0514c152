//! One lock that all tasks of a process want. They do nothing under it.

use crate::bench::Bench;
use crate::contest::{Contest, best_of_others, rates};
use crate::failure::Failure;
use crate::stats::{Spread, ratios};
use crate::table::{Table, Target};
use crate::worker::Sections;

const TASKS: usize = 64;

pub(crate) async fn run(bench: &mut Bench, title: String) -> Result<(), Failure> {
    let contest = Contest {
        processes: 1,
        work: Sections { run_ms: bench.pick(600, 2000), ..Sections::new(TASKS) },
        warm_up: bench.millis(100, 500),
        rounds: bench.pick(1, 5),
    };
    let entries = contest.run(bench, &bench.mutex_contenders()).await?;
    let head =
        ["contender", "grants/s", "most / least a task", "ours / theirs", "target", "remark"];
    let mut table = Table::new(format!("{title} ({TASKS} tasks)"), &head);
    let best = best_of_others(&entries).map(|entry| entry.who.name());
    for entry in &entries {
        if entry.rounds.is_empty() {
            table.row([
                entry.who.name(),
                "-".to_owned(),
                String::new(),
                String::new(),
                String::new(),
                entry.remark.clone(),
            ]);
            continue;
        }
        let unfairness =
            entry.rounds.iter().map(|round| round.records.within(&round.window).unfairness(TASKS));
        let ratio = ratios(&rates(&entries[0]), &rates(entry));
        let is_best = best == Some(entry.who.name());
        table.row([
            entry.who.name(),
            Spread::of(rates(entry)).show(0),
            Spread::of(unfairness).show(1),
            if entry.who.is_ours() { String::new() } else { ratio.show(1) },
            if is_best { Target::AtLeast(20.0).judge(ratio.median) } else { String::new() },
            entry.remark.clone(),
        ]);
    }
    bench.add(table)
}
