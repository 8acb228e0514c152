//! A pair, by the rate of the link to the server.

use super::figures::{CONTENDERS, add, median};
use crate::bench::{Bench, progress};
use crate::contender::Client;
use crate::failure::Failure;
use crate::link::Link;
use crate::load::{by_tasks, one_by_one};
use crate::plot::{self, Axes};
use crate::server::Watched;
use crate::stats::{Spread, ratios, real};
use crate::table::Table;

/// Bytes a second of each link, its name, and its place in the plots. The last two have no limit,
/// and the last is no link at all.
const LINKS: [(Option<f64>, &str, f64); 6] = [
    (Some(64e3), "64 kB/s", 64.0),
    (Some(256e3), "256 kB/s", 256.0),
    (Some(1e6), "1 MB/s", 1e3),
    (Some(10e6), "10 MB/s", 1e4),
    (None, "no limit", 1e5),
    (None, "loopback", 3e5),
];

/// The tasks that want pairs at the same time.
const TASKS: usize = 64;

#[derive(Clone, Copy)]
struct Round {
    /// The time of a pair of one task, in milliseconds.
    p50: f64,
    p99: f64,
    /// Bytes a pair, to the server and from it, of one task.
    one: [f64; 2],
    /// Pairs a second of many tasks.
    rate: f64,
    /// Bytes a pair of many tasks.
    many: [f64; 2],
}

/// The way to a server, and its bytes.
struct Way<'a> {
    server: &'a Watched,
    link: Option<Link>,
}

pub(super) async fn run(bench: &mut Bench) -> Result<(), Failure> {
    let mut points = Vec::new();
    for (rate, name, _) in LINKS {
        let server = Watched::start().await?;
        let is_direct = name == "loopback";
        let link = if is_direct { None } else { Some(Link::open(server.port(), rate)?) };
        let way = Way { server: &server, link };
        let mut clients = Vec::new();
        for contender in CONTENDERS {
            clients.push(contender.connect(&way.url()).await?);
        }
        let (rounds, mut results) = (bench.pick(1, 3), [Vec::new(), Vec::new()]);
        for round in 0..=rounds {
            progress!("{name}, round {round} of {rounds}");
            for turn in 0..clients.len() {
                let who = (turn + round) % clients.len();
                if round == 0 {
                    one_by_one(&clients[who], || "warm".to_owned(), bench.millis(100, 500)).await?;
                } else {
                    results[who].push(measure(bench, &way, &clients[who]).await?);
                }
            }
        }
        points.push(results);
    }
    show(bench, &points)
}

impl Way<'_> {
    fn url(&self) -> String {
        self.link.as_ref().map_or_else(|| self.server.url(), Link::url)
    }

    /// The bytes so far. Without a link they are the server's count, which includes the asking.
    async fn bytes(&self) -> Result<[usize; 2], Failure> {
        match &self.link {
            Some(link) => Ok(link.bytes()),
            None => Ok([self.server.input().await?, self.server.output().await?]),
        }
    }
}

async fn measure(bench: &Bench, way: &Way<'_>, client: &Client) -> Result<Round, Failure> {
    let time = bench.millis(1000, 4000);
    let each = |before: [usize; 2], after: [usize; 2], pairs: f64| {
        [0, 1].map(|lane| real(after[lane] - before[lane]) / pairs)
    };
    let begin = way.bytes().await?;
    let times = one_by_one(client, || "one".to_owned(), time).await?;
    let middle = way.bytes().await?;
    let load = by_tasks(client, TASKS, time).await?;
    let end = way.bytes().await?;
    Ok(Round {
        p50: times.p50().as_secs_f64() * 1e3,
        p99: times.p99().as_secs_f64() * 1e3,
        one: each(begin, middle, real(times.len())),
        rate: load.rate,
        many: each(middle, end, load.pairs),
    })
}

fn show(bench: &mut Bench, points: &[[Vec<Round>; 2]]) -> Result<(), Failure> {
    let head = [
        "link",
        "contender",
        "1 task: p50 ms",
        "p99 ms",
        "bytes a pair out",
        "and in",
        "p50 / loopback",
        "ours / raw",
        "64 tasks: pairs/s",
        "bytes a pair out",
        "and in",
        "pairs/s / loopback",
        "ours / raw",
    ];
    let mut table = Table::new("scaling: links", &head);
    let (mut latency, mut rate) = (Vec::new(), Vec::new());
    let last = points.last().ok_or("there are links")?;
    for (point, (_, link, place)) in points.iter().zip(LINKS) {
        for (who, contender) in CONTENDERS.into_iter().enumerate() {
            let spread = |of: fn(&Round) -> f64| Spread::of(point[who].iter().map(of));
            let beside = |of: fn(&Round) -> f64| median(&point[who], of) / median(&last[who], of);
            let against = |of: fn(&Round) -> f64| {
                let [ours, raw] = [0, 1].map(|who| point[who].iter().map(of).collect::<Vec<_>>());
                if who == 0 { ratios(&ours, &raw).show(2) } else { String::new() }
            };
            table.row([
                link.to_owned(),
                contender.name(),
                spread(|it| it.p50).show(2),
                spread(|it| it.p99).show(2),
                spread(|it| it.one[0]).show(0),
                spread(|it| it.one[1]).show(0),
                format!("{:.2}", beside(|it| it.p50)),
                against(|it| it.p50),
                spread(|it| it.rate).show(0),
                spread(|it| it.many[0]).show(0),
                spread(|it| it.many[1]).show(0),
                format!("{:.3}", beside(|it| it.rate)),
                against(|it| it.rate),
            ]);
            let line = |what: &str| format!("{}{what}", contender.name());
            add(&mut latency, line(", p50"), (place, spread(|it| it.p50).median));
            add(&mut latency, line(", p99"), (place, spread(|it| it.p99).median));
            add(&mut rate, line(""), (place, spread(|it| it.rate).median));
        }
    }
    table.note(
        "A link is a proxy that lets through so many bytes a second each way, packet by packet, for \
         all connections together. Out is to the server. `no limit` is the proxy alone, so \
         its difference to `loopback` is what the proxy costs in all rows.",
    );
    let unlimited = points.iter().rev().nth(1).ok_or("there are links")?;
    table.note(why(unlimited));
    bench.add(table)?;
    let x = "kB/s each way; 100,000: a proxy without a limit; 300,000: loopback";
    let axes = Axes { title: "A pair, by the rate of the link", x, y: "ms a pair", is_log_y: true };
    plot::draw(&bench.folder.join("scaling-links.svg"), &axes, &latency)?;
    let title = "Pairs of 64 tasks, by the rate of the link";
    let axes = Axes { title, x, y: "pairs/s", is_log_y: true };
    plot::draw(&bench.folder.join("scaling-links-rate.svg"), &axes, &rate)
}

/// Says where the curves bend, computed from the figures of a link without a limit.
fn why(unlimited: &[Vec<Round>; 2]) -> String {
    let knees = CONTENDERS.into_iter().zip(unlimited).map(|(contender, rounds)| {
        let one = median(rounds, |it| it.one[0] + it.one[1]);
        let seconds = median(rounds, |it| it.p50) / 1e3;
        let many = median(rounds, |it| it.many[0].max(it.many[1]) * it.rate);
        format!(
            "{}: {:.1} MB/s for one task, {:.1} for {TASKS}",
            contender.name(),
            one / seconds / 1e6,
            many / 1e6
        )
    });
    format!(
        "Why it bends: a pair of one task takes its time without a limit, and the bytes of both \
         ways over the rate, since nothing else is on the way meanwhile. With {TASKS} tasks a slow \
         link is always full, and the rate is its bytes a second over the larger of the two ways' bytes a \
         pair. So the bend is where the link's rate is what the pairs' bytes need without a limit: {}. \
         Below it only bytes count; above it only round trips and processor time.",
        knees.collect::<Vec<_>>().join("; "),
    )
}
