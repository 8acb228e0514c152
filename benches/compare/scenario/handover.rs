//! The time from a release until the next process has the lock.

use crate::bench::Bench;
use crate::contest::{Contest, Round};
use crate::failure::Failure;
use crate::plot::{self, Axes, Line};
use crate::stats::Spread;
use crate::table::{Table, Target, show_ms};
use crate::worker::Sections;

pub(crate) async fn run(bench: &mut Bench, title: String) -> Result<(), Failure> {
    let contest = Contest {
        processes: 2,
        // Long enough that the other process surely waits at the release.
        work: Sections {
            run_ms: bench.pick(800, 3000),
            hold_us: 2000,
            ping: true,
            ..Sections::new(1)
        },
        warm_up: bench.millis(200, 500),
        rounds: bench.pick(1, 5),
    };
    let entries = contest.run(bench, &bench.mutex_contenders()).await?;
    let head = [
        "contender",
        "to the other",
        "p50 ms",
        "p90",
        "p99",
        "PING p50 ms",
        "busy PING p50 ms",
        "p50 / PING",
        "target",
        "remark",
    ];
    let mut table = Table::new(title, &head);
    let mut lines = Vec::new();
    for entry in &entries {
        let times = |round: &Round| round.records.within(&round.window).hand_overs();
        let of_last = entry.rounds.last().map(times).unwrap_or_default();
        let Some(last) = entry.rounds.last().filter(|_| !of_last.is_empty()) else {
            let mut row = [(); 10].map(|()| "-".to_owned());
            row[0] = entry.who.name();
            row[9].clone_from(&entry.remark);
            table.row(row);
            continue;
        };
        let ratio = Spread::of(
            entry
                .rounds
                .iter()
                .map(|round| times(round).p50().as_secs_f64() / round.pings[0].as_secs_f64()),
        );
        table.row([
            entry.who.name(),
            format!("{} of {}", of_last.len(), last.records.within(&last.window).len()),
            show_ms(of_last.p50()),
            show_ms(of_last.per_mille(900)),
            show_ms(of_last.p99()),
            show_ms(last.pings[0]),
            show_ms(last.pings[1]),
            ratio.show(2),
            if entry.who.is_ours() {
                Target::AtMost(1.6).judge(ratio.median)
            } else {
                String::new()
            },
            entry.remark.clone(),
        ]);
        lines.push(Line::distribution(entry.who.name(), &of_last));
    }
    table.note(
        "PING: over a connection that is quiet for 2 ms before each, as the lock's are; busy: one \
         after another. Times are those of the last round, the ratio is of all. A peer that polls \
         hands over only when the other's try falls between a release and the next ask: seldom, \
         and then soon.",
    );
    bench.add(table)?;
    let axes = Axes {
        title: "From a release to the next process that has the lock",
        x: "ms",
        y: "handed over within, %",
        is_log_y: false,
    };
    plot::draw(&bench.folder.join("handover.svg"), &axes, &lines)
}
