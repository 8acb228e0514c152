//! Acquire and release without contention, each task on a key of its own: with the server on this
//! machine, and half a millisecond away.

use std::process::Command;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::bench::{Bench, progress};
use crate::clock::{micros, own_cpu};
use crate::contender::{Client, Contender};
use crate::contest::{Contest, rates};
use crate::failure::Failure;
use crate::far::Far;
use crate::participant::Participant;
use crate::script;
use crate::server::Watched;
use crate::stats::{Spread, ratios, real};
use crate::table::{Table, Target};
use crate::worker::Sections;

/// Ours is the first: all ratios are to it.
const CONTENDERS: [Contender; 7] = [
    Contender::Ours,
    Contender::Raw,
    Contender::RawThread,
    Contender::SetNx,
    Contender::Rslock,
    Contender::Distkit,
    Contender::AsyncRedisLock,
];

/// The same for a server that is away. Whether a driver sends small packets at once matters there.
const FAR_CONTENDERS: [Contender; 6] = [
    Contender::Ours,
    Contender::Raw,
    Contender::SetNx,
    Contender::Rslock,
    Contender::RslockNodelay,
    Contender::AsyncRedisLock,
];

/// How far away it is, each way.
const DELAY: Duration = Duration::from_micros(500);

/// How often a peer may fail in a round, and is tried again.
const TRIES: usize = 2;

/// The results of one contender in one round.
#[derive(Clone, Copy)]
struct Round {
    rate: f64,
    client_us: f64,
    server_us: f64,
}

/// With the server on this machine.
pub(crate) async fn run(bench: &mut Bench, title: String) -> Result<(), Failure> {
    let server = Watched::start().await?;
    let mut table = rounds(bench, title, &server, &server.url(), &CONTENDERS).await?;
    for tasks in TASKS {
        let limit = server_limit(&server, tasks, bench.pick(40_000, 400_000)).await?;
        table.row([
            tasks.to_string(),
            "redis-benchmark".to_owned(),
            limit.map_or("not run".to_owned(), |pairs| format!("{pairs:.0}")),
        ]);
    }
    if !bench.foreign.is_empty() {
        foreign(bench, &mut table).await?;
    }
    table.note("us: processor time a pair. redis-benchmark: half the acquires of our script.");
    bench.add(table)
}

/// With the server half a millisecond away.
pub(crate) async fn run_far(bench: &mut Bench, title: String) -> Result<(), Failure> {
    let server = Watched::start().await?;
    let far = Far::open(server.port(), DELAY)?;
    let (begun, before) = (Instant::now(), far.cpu()?);
    let mut table = rounds(bench, title, &server, &far.url(), &FAR_CONTENDERS).await?;
    let share = far.cpu()?.saturating_sub(before).as_secs_f64() / begun.elapsed().as_secs_f64();
    table.note(format!(
        "us: processor time a pair. The way itself used {:.0} % of a core, which is in none of them.",
        share * 100.0
    ));
    bench.add(table)
}

const TASKS: [usize; 4] = [1, 8, 64, 512];

async fn rounds(
    bench: &Bench,
    title: String,
    server: &Watched,
    url: &str,
    contenders: &[Contender],
) -> Result<Table, Failure> {
    let mut clients = Vec::new();
    for contender in contenders {
        clients.push(contender.connect(url).await?);
    }
    let rounds = bench.pick(2, 7);
    let time = bench.millis(250, 1000);
    let head =
        ["tasks", "contender", "pairs/s", "client us", "server us", "ours / theirs", "target"];
    let mut table = Table::new(title, &head);
    for tasks in TASKS {
        let mut results = vec![Vec::new(); contenders.len()];
        for round in 0..=rounds {
            progress!("{tasks} tasks, round {round} of {rounds}");
            for turn in 0..contenders.len() {
                // No contender always runs after the same one.
                let who = (turn + round) % contenders.len();
                let mut result = measure(server, &clients[who], tasks, time).await;
                for _ in 0..TRIES {
                    match &result {
                        // A peer whose driver gives up early fails while the machine is busy.
                        Err(error) if contenders[who] != Contender::Ours => {
                            progress!("{}, again: {error}", contenders[who].name());
                            result = measure(server, &clients[who], tasks, time).await;
                        }
                        _ => break,
                    }
                }
                let result = result?;
                // The first round warms up.
                if round > 0 {
                    results[who].push(result);
                }
            }
        }
        show(&mut table, tasks, contenders, &results);
    }
    Ok(table)
}

fn show(table: &mut Table, tasks: usize, contenders: &[Contender], results: &[Vec<Round>]) {
    let rates = |who: usize| results[who].iter().map(|round| round.rate).collect::<Vec<_>>();
    let median =
        |who: usize, value: fn(&Round) -> f64| Spread::of(results[who].iter().map(value)).median;
    for (who, &contender) in contenders.iter().enumerate() {
        let ratio = ratios(&rates(0), &rates(who));
        let target = match (contender, tasks) {
            (Contender::Raw, 1) => Some(Target::AtLeast(0.9)),
            (Contender::Raw, _) => Some(Target::AtLeast(1.0)),
            (Contender::RslockNodelay, 1) => Some(Target::AtLeast(0.99)),
            (Contender::Rslock, 512) => Some(Target::AtLeast(1.1)),
            (Contender::Rslock, _) => Some(Target::AtLeast(0.85)),
            _ => None,
        };
        table.row([
            tasks.to_string(),
            contender.name(),
            Spread::of(rates(who)).show(0),
            format!("{:.1}", median(who, |round| round.client_us)),
            format!("{:.1}", median(who, |round| round.server_us)),
            if contender == Contender::Ours { String::new() } else { ratio.show(2) },
            target.map(|target| target.judge(ratio.median)).unwrap_or_default(),
        ]);
    }
}

/// Runs programs in other languages, and ours again, each in a process of its own.
async fn foreign(bench: &mut Bench, table: &mut Table) -> Result<(), Failure> {
    let contest = Contest {
        processes: 1,
        work: Sections { run_ms: bench.pick(600, 3000), own_keys: true, ..Sections::new(64) },
        warm_up: bench.millis(100, 500),
        rounds: bench.pick(1, 5),
    };
    let foreign = bench.foreign.iter().cloned().map(Participant::Foreign);
    let who: Vec<_> =
        [Participant::Contender(Contender::Ours)].into_iter().chain(foreign).collect();
    let entries = contest.run(bench, &who).await?;
    for entry in entries.iter().skip(1).filter(|entry| !entry.rounds.is_empty()) {
        table.row([
            "64".to_owned(),
            entry.who.name(),
            Spread::of(rates(entry)).show(0),
            String::new(),
            String::new(),
            ratios(&rates(&entries[0]), &rates(entry)).show(2),
            entry.remark.clone(),
        ]);
    }
    Ok(())
}

async fn measure(
    server: &Watched,
    client: &Client,
    tasks: usize,
    time: Duration,
) -> Result<Round, Failure> {
    server.clear().await?;
    let (client_cpu, server_cpu) = (own_cpu(), server.cpu().await?);
    let begun = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        running.spawn(pairs(client.clone(), task, begun + time));
    }
    let mut pairs = 0;
    while let Some(done) = running.join_next().await {
        pairs += done??;
    }
    let (pairs, took) = (real(pairs), begun.elapsed().as_secs_f64());
    Ok(Round {
        rate: pairs / took,
        client_us: micros(own_cpu().saturating_sub(client_cpu)) / pairs,
        server_us: micros(server.cpu().await?.saturating_sub(server_cpu)) / pairs,
    })
}

async fn pairs(client: Client, task: usize, until: Instant) -> Result<usize, Failure> {
    let mut lock = client.mutex(&format!("pairs-{task}"));
    let mut pairs = 0;
    while Instant::now() < until {
        lock.acquire_free().await?.release().await?;
        pairs += 1;
    }
    Ok(pairs)
}

/// Half of the acquires a second that the server's own benchmark reaches over one connection, with
/// as many commands in flight. `None` if the benchmark is not installed.
async fn server_limit(
    server: &Watched,
    tasks: usize,
    count: usize,
) -> Result<Option<f64>, Failure> {
    server.clear().await?;
    let hash = script::load(&server.redis(), &script::MUTEX_ACQUIRE.body).await?;
    // The benchmark puts a random number for each of these, so keys and ids are new.
    let any = "__rand_int__";
    let keys = script::MUTEX_ACQUIRE.keys(any);
    let output = Command::new("redis-benchmark")
        .args(["-p", &server.port().to_string(), "-c", "1", "-P", &tasks.to_string()])
        .args(["-n", &count.to_string(), "-r", "1000000000", "--csv"])
        .args(["EVALSHA", &hash, &keys.len().to_string()])
        .args(keys)
        .args([&format!("{:0<22}{any}", "bench"), "30000", ""])
        .output();
    let Ok(output) = output else { return Ok(None) };
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let rate = output.lines().last().and_then(|line| line.split("\",\"").nth(1)?.parse().ok());
    Ok(rate.map(|rate: f64| rate / 2.0))
}
