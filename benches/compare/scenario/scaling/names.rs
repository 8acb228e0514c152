//! A pair of one task, by the number of locks that there are or were.

use std::time::Duration;

use leasehold::Locks;

use super::figures::{CONTENDERS, add, median};
use crate::bench::{Bench, progress};
use crate::clock::micros;
use crate::contender::{Client, TTL};
use crate::failure::Failure;
use crate::held::hold_many;
use crate::load::{one_by_one, pings};
use crate::names::{lock_each, name};
use crate::plot::{self, Axes, Line};
use crate::server::Watched;
use crate::stats::{Spread, Times, ratios, real};
use crate::table::Table;

const SIZES: [usize; 4] = [1, 1_000, 100_000, 1_000_000];

/// The time in which the server is watched without any pair.
const IDLE: Duration = Duration::from_millis(500);

/// What the other locks are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    /// Each was acquired and released once, by our client. Pairs are of these, at random.
    Known,
    /// Each is held by somebody else. Pairs are of one other.
    Held,
}

impl Others {
    fn name(self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::Held => "held",
        }
    }
}

struct Round {
    p50: f64,
    p99: f64,
    /// The median of PINGs in the same round.
    ping: f64,
    server: f64,
}

impl Round {
    /// The median in PINGs: the machine's moods are in both.
    fn in_pings(&self) -> f64 {
        self.p50 / self.ping
    }
}

/// What is measured with one number of locks.
struct Point {
    /// The keys on the server before the first pair.
    keys: usize,
    /// The microseconds that the server works in a second without any pair.
    idle: f64,
    /// The rounds of each contender.
    rounds: [Vec<Round>; 2],
}

pub(super) async fn run(bench: &mut Bench) -> Result<(), Failure> {
    let head = [
        "names",
        "which are",
        "keys on the server",
        "contender",
        "p50 us",
        "p99 us",
        "p50 / PING",
        "server us",
        "idle server, us/s",
        "p50 / PING, to that of 1 name",
        "server us, to that of 1 name",
        "ours / raw, p50",
    ];
    let mut table = Table::new("scaling: locks", &head);
    let (mut latency, mut server) = (Vec::new(), Vec::new());
    for others in [Others::Known, Others::Held] {
        // To lock a million takes half a minute.
        let few = bench.is_quick && others == Others::Known;
        let sizes = &SIZES[..SIZES.len() - usize::from(few)];
        let mut first = None;
        for &size in sizes {
            progress!("{size} names that are {}", others.name());
            let point = measure(bench, others, size).await?;
            let medians = [0, 1].map(|who| {
                let rounds = &point.rounds[who];
                [median(rounds, Round::in_pings), median(rounds, |it| it.server)]
            });
            let least = *first.get_or_insert(medians);
            let [ours, raw] =
                [0, 1].map(|who| point.rounds[who].iter().map(|it| it.p50).collect::<Vec<_>>());
            for (who, contender) in CONTENDERS.into_iter().enumerate() {
                let spread = |of: fn(&Round) -> f64| Spread::of(point.rounds[who].iter().map(of));
                let ratio = |at: usize| format!("{:.2}", medians[who][at] / least[who][at]);
                table.row([
                    size.to_string(),
                    others.name().to_owned(),
                    point.keys.to_string(),
                    contender.name(),
                    spread(|it| it.p50).show(0),
                    spread(|it| it.p99).show(0),
                    spread(Round::in_pings).show(2),
                    spread(|it| it.server).show(1),
                    format!("{:.0}", point.idle),
                    ratio(0),
                    ratio(1),
                    if who == 0 { ratios(&ours, &raw).show(2) } else { String::new() },
                ]);
                let line = |what: &str| format!("{}, {}{what}", contender.name(), others.name());
                add(&mut latency, line(", p50"), (real(size), spread(|it| it.p50).median));
                add(&mut latency, line(", p99"), (real(size), spread(|it| it.p99).median));
                add(&mut server, line(""), (real(size), spread(|it| it.server).median));
            }
        }
    }
    table.note(
        "One task acquires and releases, one pair after another; PINGs take turns with the \
         contenders, in short rounds. Known: each name was acquired and \
         released once, through the same client as ours has here; each pair is of one of them, at \
         random. Held: somebody else holds these, and each pair is of one name more. server us: \
         the server's processor time a pair, with what it does besides; idle server: what it does \
         besides, before the first pair.",
    );
    table.note(
        "Why it bends: a script asks for a fixed number of keys, and the server finds a key in the \
         same number of steps however many there are. What can grow is (1) the misses of the \
         processor's caches, once the table of keys and the records do not fit into them: in \
         the rows of the known, whose names are taken at random; (2) the search for keys that \
         have expired, ten times a second: it is in the idle column, and delays the few pairs that \
         come meanwhile, so it is seen in p99; (3) the move into a larger or smaller table, a bit \
         with each command, after the number of keys has doubled or fallen. Bends \
         that p50 / PING has not are the machine's: a round trip takes a third of the time while \
         the cores of client and server are awake, and the server's time a pair changes with it. \
         Part of that is left in p50 / PING, since the work of a client takes equally long either \
         way.",
    );
    bench.add(table)?;
    draw(bench, &latency, &server)
}

fn draw(bench: &Bench, latency: &[Line], server: &[Line]) -> Result<(), Failure> {
    let x = "other locks, held or known before";
    let axes = Axes { title: "A pair, by the number of locks", x, y: "us a pair", is_log_y: false };
    plot::draw(&bench.folder.join("scaling-names.svg"), &axes, latency)?;
    let title = "What a pair costs the server, by the number of locks";
    let axes = Axes { title, x, y: "processor time of the server, us a pair", is_log_y: false };
    plot::draw(&bench.folder.join("scaling-names-server.svg"), &axes, server)
}

async fn measure(bench: &Bench, others: Others, size: usize) -> Result<Point, Failure> {
    let server = Watched::start().await?;
    let mut clients = Vec::new();
    for contender in CONTENDERS {
        clients.push(contender.connect(&server.url()).await?);
    }
    match others {
        Others::Known => lock_each(&clients[0], 0..size).await?,
        Others::Held => hold_many(&server, size).await?,
    }
    let (time, keys) = (bench.millis(80, 300), server.keys().await?);
    let before = server.cpu().await?;
    tokio::time::sleep(IDLE).await;
    let idle = server.cpu().await?.saturating_sub(before).div_f64(IDLE.as_secs_f64());
    let (rounds, mut results) = (bench.pick(10, 30), [Vec::new(), Vec::new()]);
    for round in 0..=rounds {
        let ping = micros(pings(server.redis(), time).await?.p50());
        for turn in 0..clients.len() {
            let who = (turn + round) % clients.len();
            let [p50, p99, server_us] =
                measure_pairs(&server, &clients[who], others, size, time).await?;
            let result = Round { p50, p99, ping, server: server_us };
            // The first round warms up.
            if round > 0 {
                results[who].push(result);
            }
        }
    }
    if others == Others::Held {
        check_held(&server, size).await?;
    }
    Ok(Point { keys, idle: micros(idle), rounds: results })
}

/// The median and the 99th percentile of pairs, and the server's time a pair.
async fn measure_pairs(
    server: &Watched,
    client: &Client,
    others: Others,
    size: usize,
    time: Duration,
) -> Result<[f64; 3], Failure> {
    let before = server.cpu().await?;
    let times: Times = match others {
        Others::Known => one_by_one(client, move || name(fastrand::usize(..size)), time).await?,
        Others::Held => one_by_one(client, || "one more".to_owned(), time).await?,
    };
    let used = server.cpu().await?.saturating_sub(before);
    Ok([micros(times.p50()), micros(times.p99()), micros(used) / real(times.len())])
}

/// Checks that the others are held to the last, so that the rows are about what they say.
async fn check_held(server: &Watched, size: usize) -> Result<(), Failure> {
    let locks = Locks::connect(&server.url()).await?;
    for number in [0, size / 2, size - 1] {
        match locks.mutex(name(number)).ttl(TTL).try_lock().await {
            Err(refused) if refused.is_held_by_another() => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(format!("{} is not held", name(number)).into()),
        }
    }
    Ok(())
}
