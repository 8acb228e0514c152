//! Locks that stay with the process after their release: what that brings, and what others pay.

use std::time::{Duration, Instant};

use leasehold::{Locks, Wait};
use tokio::task::JoinSet;

use crate::bench::{Bench, progress};
use crate::clock::{micros, own_cpu};
use crate::contender::{Client, Contender, TTL};
use crate::failure::Failure;
use crate::server::Watched;
use crate::stats::{Spread, Times, ratios, real};
use crate::table::{Table, Target, show_ms};

/// Ours that lingers is the first: all ratios are to it.
const CONTENDERS: [Contender; 4] =
    [Contender::OursLingering, Contender::Ours, Contender::OursInMemory, Contender::Rslock];

/// The results of one contender in one round.
#[derive(Clone, Copy)]
struct Round {
    rate: f64,
    client_us: f64,
    calls: f64,
}

pub(crate) async fn run(bench: &mut Bench, title: String) -> Result<(), Failure> {
    let server = Watched::start().await?;
    pairs(bench, &server, title).await?;
    others(bench, &server).await?;
    super::linger_processes::run(bench).await
}

/// Acquire and release by tasks with keys of their own.
async fn pairs(bench: &mut Bench, server: &Watched, title: String) -> Result<(), Failure> {
    let mut clients = Vec::new();
    for contender in CONTENDERS {
        clients.push(contender.connect(&server.url()).await?);
    }
    let (rounds, time) = (bench.pick(2, 7), bench.millis(400, 1000));
    let head =
        ["tasks", "contender", "pairs/s", "client us", "calls a pair", "ours / theirs", "target"];
    let mut table = Table::new(title, &head);
    for tasks in [1, 64] {
        let mut results = CONTENDERS.map(|_| Vec::new());
        for round in 0..=rounds {
            progress!("{tasks} tasks, round {round} of {rounds}");
            for turn in 0..CONTENDERS.len() {
                let who = (turn + round) % CONTENDERS.len();
                let result = measure(server, &clients[who], tasks, round, time).await?;
                // The first round warms up.
                if round > 0 {
                    results[who].push(result);
                }
            }
        }
        let rates = |who: usize| results[who].iter().map(|it| it.rate).collect::<Vec<_>>();
        let median = |who: usize, value: fn(&Round) -> f64| {
            Spread::of(results[who].iter().map(value)).median
        };
        for (who, contender) in CONTENDERS.into_iter().enumerate() {
            let ratio = ratios(&rates(0), &rates(who));
            let target = match (contender, tasks) {
                (Contender::Ours, 1) => Some(Target::AtLeast(100.0)),
                (Contender::Rslock, 1) => Some(Target::AtLeast(60.0)),
                (Contender::Rslock, _) => Some(Target::AtLeast(12.0)),
                _ => None,
            };
            table.row([
                tasks.to_string(),
                contender.name(),
                Spread::of(rates(who)).show(0),
                format!("{:.2}", median(who, |round| round.client_us)),
                format!("{:.4}", median(who, |round| round.calls)),
                if who == 0 { String::new() } else { ratio.show(1) },
                target.map(|target| target.judge(ratio.median)).unwrap_or_default(),
            ]);
        }
    }
    table.note("client us: processor time a pair. calls: of scripts, counted by the server.");
    bench.add(table)
}

async fn measure(
    server: &Watched,
    client: &Client,
    tasks: usize,
    round: usize,
    time: Duration,
) -> Result<Round, Failure> {
    server.forget_calls().await?;
    let client_cpu = own_cpu();
    let begun = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let mut lock = client.mutex(&format!("linger-{round}-{task}"));
        running.spawn(async move {
            let mut pairs = 0;
            while begun.elapsed() < time {
                // Reading the clock must not take a part of the measured time.
                for _ in 0..10 {
                    lock.acquire_free().await?.release().await?;
                }
                pairs += 10;
            }
            Ok::<_, Failure>(pairs)
        });
    }
    let mut pairs = 0;
    while let Some(done) = running.join_next().await {
        pairs += done??;
    }
    let (pairs, took) = (real(pairs), begun.elapsed().as_secs_f64());
    let calls = server.calls(|command| command.starts_with("eval")).await?;
    Ok(Round {
        rate: pairs / took,
        client_us: micros(own_cpu().saturating_sub(client_cpu)) / pairs,
        calls: real(calls) / pairs,
    })
}

/// What another client pays: it meets an idle lease, or takes turns with the one that lingers.
async fn others(bench: &mut Bench, server: &Watched) -> Result<(), Failure> {
    let (here, elsewhere) =
        (Locks::connect(&server.url()).await?, Locks::connect(&server.url()).await?);
    let linger = Duration::from_secs(2);
    let count = bench.pick(100, 1000);
    let (mut pings, mut plain, mut idle, mut tries) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for nth in 0..count {
        let begun = Instant::now();
        redis::cmd("PING").exec_async(&mut server.redis()).await?;
        pings.push(begun.elapsed());

        let mutex = elsewhere.mutex(format!("plain-{nth}")).ttl(TTL);
        let begun = Instant::now();
        let lease = mutex.lock().await?;
        plain.push(begun.elapsed());
        lease.release().await?;

        for (name, times, waits) in [("idle", &mut idle, true), ("try", &mut tries, false)] {
            let name = format!("{name}-{nth}");
            here.mutex(&name).ttl(TTL).linger(linger).lock().await?.release().await?;
            let mutex = elsewhere.mutex(&name).ttl(TTL).wait(Wait::Forever);
            let begun = Instant::now();
            let lease = if waits { mutex.lock().await? } else { mutex.try_lock().await? };
            times.push(begun.elapsed());
            lease.release().await?;
        }
    }
    let [pings, plain, idle, tries] = [pings, plain, idle, tries].map(Times::from_iter);
    let mut table = Table::new(
        "linger: what another client pays",
        &["what", "p50 ms", "p99 ms", "p50 / PING", "target"],
    );
    for (what, times) in [
        ("PING", &pings),
        ("acquire a free lock", &plain),
        ("wait for an idle lock", &idle),
        ("try an idle lock", &tries),
    ] {
        let ratio = times.p50().as_secs_f64() / pings.p50().as_secs_f64();
        let target = (what == "wait for an idle lock").then(|| Target::AtMost(5.0).judge(ratio));
        table.row([
            what.to_owned(),
            show_ms(times.p50()),
            show_ms(times.p99()),
            format!("{ratio:.2}"),
            target.unwrap_or_default(),
        ]);
    }
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..bench.pick(3, 9) {
        for (which, linger) in [linger, Duration::ZERO].into_iter().enumerate() {
            let name = format!("alternate-{round}-{which}");
            let begun = Instant::now();
            let mut grants = 0;
            while begun.elapsed() < bench.millis(400, 1500) {
                for locks in [&here, &elsewhere] {
                    let mutex = locks.mutex(&name).ttl(TTL).linger(linger).wait(Wait::Forever);
                    mutex.lock().await?.release().await?;
                    grants += 1;
                }
            }
            rates[which].push(real(grants) / begun.elapsed().as_secs_f64());
        }
    }
    let ratio = ratios(&rates[0], &rates[1]);
    table.row([
        "two that alternate, with / without".to_owned(),
        String::new(),
        String::new(),
        ratio.show(2),
        Target::AtLeast(0.9).judge(ratio.median),
    ]);
    table.note("The target for a wait is 3 PINGs and a hand-over, which takes about 2 PINGs.");
    bench.add(table)
}
