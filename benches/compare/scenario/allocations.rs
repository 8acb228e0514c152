//! What a process allocates for an acquire and a release.

use leasehold_tests::shim::let_count_allocations;

use crate::bench::{Bench, progress};
use crate::contender::Contender;
use crate::crew::{Crew, ourselves};
use crate::failure::Failure;
use crate::server::Watched;
use crate::stats::{Spread, ratios, real};
use crate::table::Table;
use crate::worker::Allocations;

/// Ours is the first: all ratios are to it.
const CONTENDERS: [Contender; 3] = [Contender::Ours, Contender::Raw, Contender::Rslock];

/// Allocations and bytes, a pair.
type Round = [f64; 2];

pub(crate) async fn run(bench: &mut Bench, title: String) -> Result<(), Failure> {
    let head = ["tasks", "contender", "allocations a pair", "bytes a pair", "ours / theirs"];
    let mut table = Table::new(title, &head);
    if !cfg!(all(target_os = "linux", target_env = "gnu")) {
        table.note("not run: allocations are counted with glibc alone");
        return bench.add(table);
    }
    let pairs = bench.pick(5_000, 50_000);
    for tasks in [1, 64] {
        let mut results = CONTENDERS.map(|_| Vec::new());
        for round in 1..=bench.pick(1, 3) {
            for (results, contender) in results.iter_mut().zip(CONTENDERS) {
                progress!("{tasks} tasks, {}, round {round}", contender.name());
                results.push(measure(contender, tasks, pairs).await?);
            }
        }
        for (who, contender) in CONTENDERS.into_iter().enumerate() {
            let of = |who: usize, what: usize| {
                results[who].iter().map(|round: &Round| round[what]).collect::<Vec<_>>()
            };
            let ratio = ratios(&of(0, 0), &of(who, 0));
            table.row([
                tasks.to_string(),
                contender.name(),
                Spread::of(of(who, 0)).show(1),
                Spread::of(of(who, 1)).show(0),
                if who == 0 { String::new() } else { ratio.show(2) },
            ]);
        }
    }
    table.note(format!(
        "{pairs} pairs in a process of their own, after some that are not counted. Counted in all \
         threads, by a library in front of the C library's `malloc`; no other scenario has it. A \
         block that changes its size counts as one more, of its new size."
    ));
    bench.add(table)
}

async fn measure(contender: Contender, tasks: usize, pairs: usize) -> Result<Round, Failure> {
    let server = Watched::start().await?;
    let work = Allocations { url: server.url(), contender, tasks, pairs };
    let mut crew = Crew::start(1, || {
        let mut command = ourselves("allocations")?;
        command.args(work.arguments());
        let_count_allocations(&mut command);
        Ok(command)
    })?;
    crew.go()?;
    let answer = tokio::task::spawn_blocking(|| crew.answer()).await??;
    let &[calls, bytes] = &answer[..] else { return Err("it said something else".into()) };
    let each = |sum: u64| usize::try_from(sum).map(|sum| real(sum) / real(pairs));
    Ok([each(calls)?, each(bytes)?])
}
