//! A semaphore that the tasks of several processes want.

use crate::bench::Bench;
use crate::contender::Contender;
use crate::contest::{Contest, best_of_others, rates};
use crate::failure::Failure;
use crate::participant::Participant;
use crate::stats::{Spread, ratios};
use crate::table::{Table, Target, show_ms};
use crate::worker::Sections;

const LIMIT: u32 = 64;
const PROCESSES: usize = 4;
const TASKS: usize = 128;

pub(crate) async fn run(bench: &mut Bench, title: String) -> Result<(), Failure> {
    let who = [Contender::Ours, Contender::PollingZset, Contender::PollingZsetQuick];
    let who = who.map(Participant::Contender);
    let head = [
        "hold",
        "contender",
        "permits/s",
        "most at once",
        "most / least a task",
        "wait p99 ms",
        "ours / theirs",
        "target",
        "remark",
    ];
    let mut table = Table::new(title, &head);
    for (hold, hold_us) in [("1 ms", 1000), ("none", 0)] {
        let contest = Contest {
            processes: PROCESSES,
            work: Sections {
                run_ms: bench.pick(1000, 4000),
                hold_us,
                limit: Some(LIMIT),
                ..Sections::new(TASKS)
            },
            warm_up: bench.millis(300, 1000),
            rounds: bench.pick(1, 5),
        };
        let entries = contest.run(bench, &who).await?;
        let best = best_of_others(&entries).map(|entry| entry.who.name());
        for entry in entries.iter().filter(|entry| !entry.rounds.is_empty()) {
            let counted = || entry.rounds.iter().map(|round| round.records.within(&round.window));
            let waits = counted().map(|records| records.waits().p99().as_secs_f64());
            let waits = std::time::Duration::from_secs_f64(Spread::of(waits).median);
            let unfairness = counted().map(|records| records.unfairness(PROCESSES * TASKS));
            let most = entry.rounds.iter().map(|round| round.records.most_at_once()).max();
            let ratio = ratios(&rates(&entries[0]), &rates(entry));
            let is_best = best == Some(entry.who.name());
            table.row([
                hold.to_owned(),
                entry.who.name(),
                Spread::of(rates(entry)).show(0),
                most.unwrap_or_default().to_string(),
                Spread::of(unfairness).show(1),
                show_ms(waits),
                if entry.who.is_ours() { String::new() } else { ratio.show(1) },
                if is_best { Target::AtLeast(5.0).judge(ratio.median) } else { String::new() },
                entry.remark.clone(),
            ]);
        }
    }
    bench.add(table)
}
