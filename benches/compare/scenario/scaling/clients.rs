//! A pair, by the number of clients.

use std::time::Duration;

use super::figures::{CONTENDERS, add, median};
use crate::bench::{Bench, progress};
use crate::clock::{micros, now};
use crate::contender::Contender;
use crate::crew::{Crew, ourselves};
use crate::failure::Failure;
use crate::plot::{self, Axes};
use crate::server::Watched;
use crate::stats::{Spread, Times, ratios, real};
use crate::table::Table;
use crate::worker::Paced;

/// Numbers of processes, and of clients in each.
const SIZES: [(usize, usize); 4] = [(1, 1), (2, 5), (4, 25), (10, 100)];

/// The time from one pair of a client to its next: 20 a second, so that a hundred clients are far
/// from what a server can do, and a thousand near to it.
const PACE: Duration = Duration::from_millis(50);

/// Between the two parts, so that no pair of the one falls into the other.
const PAUSE: Duration = Duration::from_millis(500);

/// One part of a run: at the pace, or flat out.
#[derive(Clone, Copy)]
struct Part {
    rate: f64,
    /// A pair's time, in microseconds.
    p50: f64,
    p99: f64,
    /// The processor time of a pair: of the clients' processes, and of the server.
    client: f64,
    server: f64,
    /// The server's part of a core.
    share: f64,
}

pub(super) async fn run(bench: &mut Bench) -> Result<(), Failure> {
    let mut points = Vec::new();
    for (processes, clients) in SIZES {
        let (rounds, mut results) = (bench.pick(1, 3), [Vec::new(), Vec::new()]);
        for round in 1..=rounds {
            for (who, contender) in CONTENDERS.into_iter().enumerate() {
                let all = processes * clients;
                progress!("{all} clients, {}, round {round} of {rounds}", contender.name());
                results[who].push(measure(bench, contender, processes, clients).await?);
            }
        }
        points.push(results);
    }
    show(bench, &points)
}

fn show(bench: &mut Bench, points: &[[Vec<[Part; 2]>; 2]]) -> Result<(), Failure> {
    let head = [
        "clients",
        "contender",
        "pairs/s",
        "p50 us",
        "p99 us",
        "client us",
        "server us",
        "server, % of a core",
        "pairs/s / 1 client",
        "p50 / 1 client",
        "server / 1 client",
        "ours / raw, pairs/s",
        "ours / raw, p50",
    ];
    let (mut latency, mut rates) = (Vec::new(), Vec::new());
    let pace = format!("{} a second each", 1000 / PACE.as_millis());
    for (phase, name) in [&*pace, "as fast as it goes"].into_iter().enumerate() {
        let mut table = Table::new(format!("scaling: clients, {name}"), &head);
        for (point, (processes, clients)) in points.iter().zip(SIZES) {
            for (who, contender) in CONTENDERS.into_iter().enumerate() {
                let all = |who: usize, of: fn(&Part) -> f64| {
                    point[who].iter().map(|parts| of(&parts[phase])).collect::<Vec<_>>()
                };
                let spread = |of: fn(&Part) -> f64| Spread::of(all(who, of));
                let growth = |of: fn(&Part) -> f64| {
                    let least = median(&points[0][who], |parts| of(&parts[phase]));
                    format!("{:.2}", spread(of).median / least)
                };
                let against = |of: fn(&Part) -> f64| match who {
                    0 => ratios(&all(0, of), &all(1, of)).show(2),
                    _ => String::new(),
                };
                table.row([
                    (processes * clients).to_string(),
                    contender.name(),
                    spread(|it| it.rate).show(0),
                    spread(|it| it.p50).show(0),
                    spread(|it| it.p99).show(0),
                    spread(|it| it.client).show(1),
                    spread(|it| it.server).show(1),
                    spread(|it| it.share * 100.0).show(0),
                    growth(|it| it.rate),
                    growth(|it| it.p50),
                    growth(|it| it.server),
                    against(|it| it.rate),
                    against(|it| it.p50),
                ]);
                let x = real(processes * clients);
                let line = |what: &str| format!("{}{what}", contender.name());
                if phase == 0 {
                    add(&mut latency, line(", p50"), (x, spread(|it| it.p50).median));
                    add(&mut latency, line(", p99"), (x, spread(|it| it.p99).median));
                } else {
                    add(&mut rates, line(""), (x, spread(|it| it.rate).median));
                }
            }
        }
        table.note(note(phase));
        bench.add(table)?;
    }
    let x = "clients, each with a connection";
    let title = "A pair at 20 a second and client, by the number of clients";
    let axes = Axes { title, x, y: "us a pair", is_log_y: true };
    plot::draw(&bench.folder.join("scaling-clients.svg"), &axes, &latency)?;
    let title = "Pairs a second, by the number of clients";
    let axes = Axes { title, x, y: "pairs/s", is_log_y: false };
    plot::draw(&bench.folder.join("scaling-clients-rate.svg"), &axes, &rates)
}

/// Says what a part is, and why its curve bends.
fn note(phase: usize) -> &'static str {
    if phase == 0 {
        "Each client has a connection and a lock of its own; all together are in 1, 2, 4 and 10 \
         processes. client us, server us: processor time a pair. A pair's time is from when it begins, so a client that falls behind the pace \
         is seen in pairs/s. Why it bends: at few clients everybody sleeps between two pairs, and \
         a pair pays for waking up the server and the client's threads; with more, somebody is \
         awake already, and the server reads several commands a wake-up: its time a pair falls. p50 \
         rises where the server's core, or all cores of this machine with the clients on them, \
         are busy: from there on a pair waits for others' work."
    } else {
        "The same clients without a pace. client us, server us: processor time a pair. Why it bends: one client is held up by its round trips \
         alone; the rate grows with the clients until the server's core or the machine is full, \
         and from there on more clients only wait longer: p50 grows as their number. With a \
         connection each, nothing is sent together, so the server reads and answers each command by \
         itself: compare `pairs`, whose tasks share a connection. Each client of \
         ours has a thread too, so with many clients on few cores the machine is full before the \
         server is."
    }
}

async fn measure(
    bench: &Bench,
    contender: Contender,
    processes: usize,
    clients: usize,
) -> Result<[Part; 2], Failure> {
    let server = Watched::start().await?;
    // A hundred pairs at least, for a p99.
    let enough = PACE * u32::try_from(100 / (processes * clients).min(100))?;
    let paced = bench.millis(2000, 8000).max(enough);
    let flat_out = bench.millis(1000, 4000);
    let millis = |time: Duration| u64::try_from(time.as_millis());
    let work = Paced {
        url: server.url(),
        contender,
        clients,
        pace_ms: millis(PACE)?,
        at_pace_ms: millis(paced)?,
        pause_ms: millis(PAUSE)?,
        flat_out_ms: millis(flat_out)?,
    };
    let mut crew = Crew::start(processes, || {
        let mut command = ourselves("paced")?;
        command.args(work.arguments());
        Ok(command)
    })?;
    let mut used = [Duration::ZERO; 2];
    let mut begin = crew.go()?;
    for (used, time) in used.iter_mut().zip([paced, flat_out]) {
        let before = server.cpu().await?;
        tokio::time::sleep((begin + time).saturating_sub(now())).await;
        *used = server.cpu().await?.saturating_sub(before);
        begin += time + PAUSE;
        tokio::time::sleep(begin.saturating_sub(now())).await;
    }
    let rows = tokio::task::spawn_blocking(|| crew.answers()).await??;
    let part = |phase: u64, time: Duration, used: Duration| {
        let (mut times, mut client) = (Vec::new(), Duration::ZERO);
        for row in &rows {
            if let [of, cpu, latencies @ ..] = &row[..]
                && *of == phase
            {
                client += Duration::from_nanos(*cpu);
                times.extend(latencies.iter().copied().map(Duration::from_nanos));
            }
        }
        let times: Times = times.into_iter().collect();
        let each = |cpu: Duration| micros(cpu) / real(times.len()).max(1.0);
        Part {
            rate: real(times.len()) / time.as_secs_f64(),
            p50: micros(times.p50()),
            p99: micros(times.p99()),
            client: each(client),
            server: each(used),
            share: used.as_secs_f64() / time.as_secs_f64(),
        }
    };
    Ok([part(0, paced, used[0]), part(1, flat_out, used[1])])
}
