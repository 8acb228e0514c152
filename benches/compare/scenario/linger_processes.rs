//! Locks that several processes want, with `linger` and without it: permits that suffice for all,
//! and a mutex that does not.

use crate::bench::Bench;
use crate::contender::Contender;
use crate::contest::{Contest, Entry, rates};
use crate::failure::Failure;
use crate::participant::Participant;
use crate::stats::{Spread, ratios};
use crate::table::{Table, Target};
use crate::worker::Sections;

const PROCESSES: usize = 4;
const LIMIT: u32 = 64;
/// All tasks together take half the permits.
const TASKS: usize = 8;

pub(crate) async fn run(bench: &mut Bench) -> Result<(), Failure> {
    let who = [Contender::OursLingering, Contender::Ours].map(Participant::Contender);
    let head = [
        "lock",
        "contender",
        "grants/s",
        "commands a grant",
        "most / least a task",
        "with / without",
        "target",
    ];
    let mut table = Table::new("linger: four processes", &head);
    let semaphore = Sections { limit: Some(LIMIT), ..Sections::new(TASKS) };
    let mutex = Sections { hold_us: 1000, ..Sections::new(TASKS) };
    for (lock, work) in [("semaphore, half its limit", semaphore), ("one mutex, 1 ms", mutex)] {
        let is_mutex = work.limit.is_none();
        // Each grant of the semaphore is a line that is read: there are very many.
        let run_ms = if is_mutex { bench.pick(2500, 5000) } else { bench.pick(800, 1500) };
        let contest = Contest {
            processes: PROCESSES,
            work: Sections { run_ms, ..work },
            warm_up: bench.millis(300, 500),
            rounds: bench.pick(2, 5),
        };
        let entries = contest.run(bench, &who).await?;
        let unfairness = |entry: &Entry| -> Vec<f64> {
            let records = entry.rounds.iter().map(|round| round.records.within(&round.window));
            records.map(|records| records.unfairness(PROCESSES * TASKS)).collect()
        };
        for entry in &entries {
            let commands = entry.rounds.iter().map(|round| round.commands_a_grant);
            let is_lingering = entry.who.name() == Contender::OursLingering.name();
            let (ratio, target) = if is_mutex {
                let ratio = ratios(&unfairness(&entries[0]), &unfairness(&entries[1]));
                let target = Target::AtMost(1.1).judge(ratio.median);
                (format!("fairness {}", ratio.show(2)), target)
            } else {
                let ratio = ratios(&rates(&entries[0]), &rates(&entries[1]));
                (ratio.show(1), Target::AtLeast(10.0).judge(ratio.median))
            };
            table.row([
                lock.to_owned(),
                entry.who.name(),
                Spread::of(rates(entry)).show(0),
                format!("{:.4}", Spread::of(commands).median),
                Spread::of(unfairness(entry)).show(2),
                if is_lingering { ratio } else { String::new() },
                if is_lingering { target } else { String::new() },
            ]);
        }
    }
    table.note(format!("semaphore: {} of {LIMIT} permits are in use at most.", PROCESSES * TASKS));
    bench.add(table)
}
