//! One lock that the tasks of several processes want, each for a millisecond.

use std::time::Duration;

use crate::bench::Bench;
use crate::contest::{Contest, Entry, Round};
use crate::failure::Failure;
use crate::plot::{self, Axes, Line};
use crate::stats::{Spread, real};
use crate::table::{Table, Target, show_ms};
use crate::worker::Sections;

const PROCESSES: usize = 4;
const TASKS: usize = 16;
const WAITERS: usize = PROCESSES * TASKS;

pub(crate) async fn run(bench: &mut Bench, title: String) -> Result<(), Failure> {
    let contest = Contest {
        processes: PROCESSES,
        work: Sections {
            run_ms: bench.pick(2500, 5000),
            hold_us: 1000,
            ping: true,
            ..Sections::new(TASKS)
        },
        warm_up: bench.millis(300, 1000),
        rounds: bench.pick(1, 3),
    };
    let entries = contest.run(bench, &bench.mutex_contenders()).await?;
    let head = [
        "contender",
        "grants/s",
        "of the ideal",
        "wait p50 ms",
        "p90",
        "p99",
        "p99 / fair ideal",
        "most / least a task",
        "hold ms",
        "PING ms",
        "target",
        "remark",
    ];
    let mut table = Table::new(title, &head);
    for entry in &entries {
        table.row(row(entry));
    }
    table.note(
        "ideal: one grant in each (hold + PING); fair ideal wait: 64 of them. Targets: of the \
         ideal, p99 / fair ideal, most / least.",
    );
    bench.add(table)?;
    let lines: Vec<_> = entries.iter().filter_map(line).collect();
    let axes = Axes {
        title: "Waits of 64 tasks in 4 processes for one lock, held for 1 ms",
        x: "wait, ms",
        y: "served within, %",
        is_log_y: false,
    };
    plot::draw(&bench.folder.join("waits.svg"), &axes, &lines)
}

/// The least time of a hand-over: the measured stay, and one round trip.
fn ideal(round: &Round, entry_ping: Duration) -> Duration {
    round.records.within(&round.window).mean_hold() + entry_ping
}

fn row(entry: &Entry) -> [String; 12] {
    let empty = String::new;
    if entry.rounds.is_empty() {
        let mut row = [(); 12].map(|()| empty());
        row[0] = entry.who.name();
        row[11].clone_from(&entry.remark);
        return row;
    }
    let spread = |of: &dyn Fn(&Round) -> f64| Spread::of(entry.rounds.iter().map(of));
    let ping = |round: &Round| round.pings[0];
    let waits = |round: &Round| round.records.within(&round.window).waits();
    let median_ms = |of: &dyn Fn(&Round) -> Duration| {
        show_ms(Duration::from_secs_f64(spread(&|round| of(round).as_secs_f64()).median))
    };
    let share = spread(&|round| round.rate() * ideal(round, ping(round)).as_secs_f64());
    let p99 = spread(&|round| {
        let fair = ideal(round, ping(round)).as_secs_f64() * real(WAITERS);
        waits(round).p99().as_secs_f64() / fair
    });
    let unfairness = spread(&|round| round.records.within(&round.window).unfairness(WAITERS));
    let targets = [
        Target::AtLeast(0.9).judge(share.median),
        Target::AtMost(1.2).judge(p99.median),
        Target::AtMost(1.1).judge(unfairness.median),
    ];
    [
        entry.who.name(),
        spread(&Round::rate).show(0),
        share.show(2),
        median_ms(&|round| waits(round).p50()),
        median_ms(&|round| waits(round).per_mille(900)),
        median_ms(&|round| waits(round).p99()),
        p99.show(2),
        unfairness.show(2),
        median_ms(&|round| round.records.within(&round.window).mean_hold()),
        median_ms(&ping),
        if entry.who.is_ours() { targets.join("; ") } else { empty() },
        entry.remark.clone(),
    ]
}

fn line(entry: &Entry) -> Option<Line> {
    let round = entry.rounds.last()?;
    let waits = round.records.within(&round.window).waits();
    Some(Line::distribution(entry.who.name(), &waits))
}
