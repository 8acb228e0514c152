//! Many clients lose their connections at once, and come back.

use std::time::Duration;

use crate::bench::{Bench, progress};
use crate::clock::now;
use crate::crew::{Crew, ourselves};
use crate::failure::Failure;
use crate::server::Watched;
use crate::stats::{Spread, real};
use crate::table::{Table, Target};
use crate::worker::Herd;

const SIZES: [usize; 4] = [100, 400, 800, 1500];

/// More threads than this are too many for one process.
const PROCESSES: usize = 5;

const TTL: Duration = Duration::from_secs(3);

/// The longest wait for clients. A client that lost its lease does not come back.
const LONGEST: Duration = Duration::from_secs(15);

/// The ways to come back: the cause, whether each client asks for a lock, and whether the server
/// has forgotten the scripts.
const WAYS: [(&str, bool, bool); 3] = [
    ("its next renewal", false, false),
    ("a lock that each wants at once", true, false),
    ("the same, and no script is left", true, true),
];

struct Round {
    /// From the end of the connections to when the last client is back, in seconds.
    last: f64,
    lost: usize,
    /// The bytes that the server read meanwhile, and its processor time, per client.
    kilobytes: f64,
    millis: f64,
}

pub(crate) async fn run(bench: &mut Bench, title: String) -> Result<(), Failure> {
    let head =
        ["clients", "brought back by", "last back, s", "lost", "kB in", "server, ms", "target"];
    let mut table = Table::new(title, &head);
    for clients in SIZES {
        for (name, asks, forgets) in WAYS {
            let mut rounds = Vec::new();
            for round in 1..=bench.pick(1, 3) {
                progress!("{clients} clients, {name}, round {round}");
                rounds.push(measure(clients, asks, forgets).await?);
            }
            let spread = |of: fn(&Round) -> f64| Spread::of(rounds.iter().map(of));
            let last = spread(|round| round.last);
            table.row([
                clients.to_string(),
                name.to_owned(),
                last.show(2),
                spread(|round| real(round.lost)).show(0),
                spread(|round| round.kilobytes).show(1),
                spread(|round| round.millis).show(2),
                Target::AtMost(1.5).judge(last.most),
            ]);
        }
    }
    table.note(format!(
        "Each client holds a lease of {} s; all connections end at once. Lost: leases that are not \
         held two TTLs after the last client is back. kB in and server, ms: what the server reads \
         and how long it works until then, over clients, with the renewals of {PROCESSES} \
         processes on the same machine.",
        TTL.as_secs(),
    ));
    bench.add(table)
}

async fn measure(clients: usize, asks: bool, forgets: bool) -> Result<Round, Failure> {
    let server = Watched::start().await?;
    let ttl_ms = u64::try_from(TTL.as_millis())?;
    let work = Herd { url: server.url(), clients: clients / PROCESSES, ttl_ms, asks };
    let mut crew = Crew::start(PROCESSES, || {
        let mut command = ourselves("herd")?;
        command.args(work.arguments());
        Ok(command)
    })?;
    let (cpu, input) = (server.cpu().await?, server.input().await?);
    let ended = server.end_connections(forgets).await?;
    crew.go()?;
    let mut back = Duration::ZERO;
    while !asks && back < ended + LONGEST && server.clients().await? < clients {
        tokio::time::sleep(Duration::from_millis(5)).await;
        back = now();
    }
    let rows = tokio::task::spawn_blocking(|| crew.answers()).await??;
    let mut held = 0;
    for row in rows {
        let &[last, leases] = &row[..] else { return Err("it said something else".into()) };
        back = back.max(Duration::from_nanos(last));
        held += usize::try_from(leases)?;
    }
    let each = |sum: f64| sum / real(clients);
    Ok(Round {
        last: back.saturating_sub(ended).as_secs_f64(),
        lost: clients - held,
        kilobytes: each(real(server.input().await? - input) / 1e3),
        millis: each(server.cpu().await?.saturating_sub(cpu).as_secs_f64() * 1e3),
    })
}
