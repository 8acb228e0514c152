//! The cost of a grant for the server, by the number of waiters.

use crate::bench::Bench;
use crate::contender::Contender;
use crate::contest::{Contest, Round};
use crate::failure::Failure;
use crate::participant::Participant;
use crate::plot::{self, Axes, Line};
use crate::stats::{Spread, real};
use crate::table::{Table, Target};
use crate::worker::Sections;

/// Numbers of processes, and of clients in each.
const SIZES: [(usize, usize); 5] = [(4, 1), (4, 4), (4, 16), (8, 32), (10, 100)];

pub(crate) async fn run(bench: &mut Bench, title: String) -> Result<(), Failure> {
    let peers = [Contender::Rslock, Contender::Distkit, Contender::AsyncRedisLock];
    let peers = &peers[..bench.pick(1, peers.len())];
    let who: Vec<_> =
        [Contender::Ours].iter().chain(peers).copied().map(Participant::Contender).collect();
    let sizes = if bench.is_quick { [0, 2, 4].map(|n| SIZES[n]).to_vec() } else { SIZES.to_vec() };
    let head =
        ["waiters", "contender", "scripts a grant", "commands a grant", "grants/s", "remark"];
    let mut table = Table::new(title, &head);
    let mut lines =
        who.iter().map(|who| Line { name: who.name(), points: Vec::new() }).collect::<Vec<_>>();
    let mut ours = Vec::new();
    for (processes, clients) in sizes {
        let contest = Contest {
            processes,
            work: Sections { run_ms: bench.pick(1000, 2000), clients, ..Sections::new(1) },
            warm_up: bench.millis(200, 500),
            rounds: bench.pick(1, 3),
        };
        let waiters = processes * clients;
        for (who, entry) in contest.run(bench, &who).await?.into_iter().enumerate() {
            let mut row = [
                waiters.to_string(),
                entry.who.name(),
                "-".to_owned(),
                "-".to_owned(),
                "-".to_owned(),
                entry.remark,
            ];
            if !entry.rounds.is_empty() {
                let spread = |of: fn(&Round) -> f64| Spread::of(entry.rounds.iter().map(of));
                let commands = spread(|round| round.commands_a_grant);
                row[2] = spread(|round| round.scripts_a_grant).show(2);
                row[3] = commands.show(1);
                row[4] = spread(Round::rate).show(0);
                lines[who].points.push((real(waiters), commands.median));
                if who == 0 {
                    ours.push(commands.median);
                }
            }
            table.row(row);
        }
    }
    let growth = Spread::of(ours);
    let growth = growth.most / growth.least;
    table.note(format!(
        "ours, most / least of the commands a grant: {growth:.2}, {}. Each waiter has a client of \
         its own. Commands: all that the server runs, inside of scripts too.",
        Target::AtMost(1.1).judge(growth),
    ));
    bench.add(table)?;
    let axes = Axes {
        title: "What a grant costs the server",
        x: "clients that want one lock",
        y: "commands of the server a grant",
        is_log_y: true,
    };
    plot::draw(&bench.folder.join("growth.svg"), &axes, &lines)
}
