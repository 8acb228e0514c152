//! The cost of renewing many leases.

use std::time::Duration;

use crate::bench::{Bench, progress};
use crate::clock::micros;
use crate::crew::{Crew, ourselves};
use crate::failure::Failure;
use crate::server::Watched;
use crate::stats::{Spread, ratios, real};
use crate::table::{Table, Target};
use crate::worker::Renewals;

const LEASES: usize = 50_000;
const TTL: Duration = Duration::from_secs(15);

/// Processor time over one window.
struct Round {
    client: f64,
    server: f64,
    /// The number of expiries that the server renewed.
    expiries: f64,
}

pub(crate) async fn run(bench: &mut Bench, title: String) -> Result<(), Failure> {
    // Each lease is renewed this many times in a window, wherever the window begins.
    let times = bench.pick(1, 3);
    let window = TTL / 3 * times;
    let mut rounds = [Vec::new(), Vec::new()];
    for round in 1..=bench.pick(1, 3) {
        for (who, raw) in [false, true].into_iter().enumerate() {
            progress!("{}, round {round}", if raw { "raw" } else { "ours" });
            rounds[who].push(measure(raw, window).await?);
        }
    }
    let renewals = real(LEASES) * f64::from(times);
    let head = ["where", "ours, us a renewal", "raw, us a renewal", "ours / raw", "target"];
    let mut table = Table::new(title, &head);
    for (name, of) in
        [("client", (|round| round.client) as fn(&Round) -> f64), ("server", |round| round.server)]
    {
        let [ours, raw] = [0, 1].map(|who| rounds[who].iter().map(of).collect::<Vec<_>>());
        let ratio = ratios(&ours, &raw);
        let each = |window: &[f64]| Spread::of(window.iter().map(|us| us / renewals)).show(2);
        table.row([
            name.to_owned(),
            each(&ours),
            each(&raw),
            ratio.show(2),
            Target::AtMost(1.3).judge(ratio.median),
        ]);
    }
    let expiries = [0, 1]
        .map(|who| Spread::of(rounds[who].iter().map(|round| round.expiries / renewals)).show(2));
    table.note(format!(
        "{LEASES} leases of {} s, so {renewals} renewals in each window of {} s. Expiries that \
         were set over renewals: ours {}, raw {}.",
        TTL.as_secs(),
        window.as_secs(),
        expiries[0],
        expiries[1],
    ));
    bench.add(table)
}

async fn measure(raw: bool, window: Duration) -> Result<Round, Failure> {
    let server = Watched::start().await?;
    let millis = |time: Duration| u64::try_from(time.as_millis());
    let (ttl_ms, window_ms) = (millis(TTL)?, millis(window)?);
    let work = Renewals { url: server.url(), leases: LEASES, ttl_ms, window_ms, raw };
    let mut crew = Crew::start(1, || {
        let mut command = ourselves("renewals")?;
        command.args(work.arguments());
        Ok(command)
    })?;
    server.forget_calls().await?;
    let before = server.cpu().await?;
    crew.go()?;
    let answer = tokio::task::spawn_blocking(|| crew.answer()).await??;
    let used = server.cpu().await?.saturating_sub(before);
    let is_expiry = |name: &str| name == "pexpire";
    let expiries = server.calls(is_expiry).await?;
    let &[client, held] = &answer[..] else { return Err("it said something else".into()) };
    if held != LEASES as u64 {
        return Err(format!("{held} of {LEASES} leases are held at the end").into());
    }
    let client = micros(Duration::from_nanos(client));
    Ok(Round { client, server: micros(used), expiries: real(expiries) })
}
