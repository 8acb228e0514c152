//! What is left in memory of many locks that were held once.

use std::time::Duration;

use crate::bench::{Bench, progress};
use crate::crew::{Crew, ourselves};
use crate::failure::Failure;
use crate::server::Watched;
use crate::stats::{Spread, real};
use crate::table::{Table, Target};
use crate::worker::Memory;

/// The time from the last release to the second look.
const LATER: Duration = Duration::from_secs(10);

/// The most that a million names may cost the server by then, in MB.
const TARGET: f64 = 40.0;

/// What a look finds. Numbers of bytes, and of keys beyond those at the start.
#[derive(Clone, Copy)]
struct Look {
    server: f64,
    keys: f64,
}

/// One run.
struct Round {
    /// After the last release, and later.
    looks: [Look; 2],
    /// The client's memory: at the start, after a tenth of the names, after all of them, and later.
    client: [f64; 4],
    seconds: f64,
}

pub(crate) async fn run(bench: &mut Bench, title: String) -> Result<(), Failure> {
    let names = bench.pick(100_000, 1_000_000);
    let mut rounds = Vec::new();
    for round in 1..=bench.pick(1, 3) {
        progress!("{names} names, round {round}");
        rounds.push(measure(names).await?);
    }
    let spread = |of: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(of));
    let client = |at: usize| spread(&|round| round.client[at] / 1e6).show(1);
    let head =
        ["when", "server MB, above the start", "bytes a name", "keys left", "client MB", "target"];
    let mut table = Table::new(title, &head);
    let none = String::new;
    table.row(["at the start".to_owned(), none(), none(), none(), client(0)]);
    table.row(["after a tenth of the names".to_owned(), none(), none(), none(), client(1)]);
    for (at, when) in ["after the last release", "10 s later"].into_iter().enumerate() {
        let server = spread(&|round| round.looks[at].server / 1e6);
        let target = Target::AtMost(TARGET * real(names) / 1e6);
        table.row([
            when.to_owned(),
            server.show(1),
            spread(&|round| round.looks[at].server / real(names)).show(0),
            spread(&|round| round.looks[at].keys).show(0),
            client(at + 2),
            if at == 1 { target.judge(server.median) } else { none() },
        ]);
    }
    let grown = spread(&|round| (round.client[2] - round.client[1]) / (0.9 * real(names)));
    table.note(format!(
        "{names} mutexes on as many names, each acquired and released once, by 512 tasks, in \
         {} s. The server frees what it keeps of a name when a time has passed since the release, \
         so the first look sees less if the run took longer than that. The server's MB: its \
         used_memory, with the tables of keys and of expiries, which have 8 bytes or more for each \
         place of the largest number of keys, and shrink in the background. The client's MB: \
         VmRSS. Its bytes a name, over the last nine tenths: {}.",
        spread(&|round| round.seconds).show(1),
        grown.show(1),
    ));
    bench.add(table)
}

async fn measure(names: usize) -> Result<Round, Failure> {
    let server = Watched::start().await?;
    let work = Memory { url: server.url(), names };
    let mut crew = Crew::start(1, || {
        let mut command = ourselves("memory")?;
        command.args(work.arguments());
        Ok(command)
    })?;
    let (memory, keys) = (real(server.used_memory().await?), real(server.keys().await?));
    let look = async || -> Result<Look, Failure> {
        let server_memory = real(server.used_memory().await?) - memory;
        Ok(Look { server: server_memory, keys: real(server.keys().await?) - keys })
    };
    crew.go()?;
    let row = crew.row()?;
    let (ended, first) = (server.time().await?, look().await?);
    let &[start, tenth, end, took] = &row[..] else { return Err("it said something else".into()) };
    // The client stays until then: what it clears up late counts.
    server.wait_until(ended + LATER).await?;
    let second = look().await?;
    crew.go()?;
    let later = crew.answer()?;
    let &[later] = &later[..] else { return Err("it said something else".into()) };
    let bytes = |number: u64| usize::try_from(number).map(real);
    Ok(Round {
        looks: [first, second],
        client: [bytes(start)?, bytes(tenth)?, bytes(end)?, bytes(later)?],
        seconds: Duration::from_nanos(took).as_secs_f64(),
    })
}
