//! The layer beside tower's own limit, around the same app: in memory, and lingering on a server.
//! It is never full.

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::routing::get;
use http::Request;
use leasehold::{LockLayer, Locks};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tower::ServiceExt;
use tower::limit::GlobalConcurrencyLimitLayer;

use crate::bench::{Bench, progress};
use crate::failure::Failure;
use crate::server::Watched;
use crate::stats::{Spread, ratios, real};
use crate::table::{Table, Target};

const CONNECTIONS: usize = 64;
/// More than there are connections, so no request waits.
const LIMIT: u32 = 10_000;
pub(super) const NAMES: [&str; 4] = [OURS, LINGERING, TOWER, NO_LAYER];
pub(super) const OURS: &str = "ours";
pub(super) const LINGERING: &str = "ours, lingering";
pub(super) const TOWER: &str = "tower";
const NO_LAYER: &str = "no layer";
/// How long a lock lingers.
const LINGER: Duration = Duration::from_secs(2);

pub(crate) async fn run(bench: &mut Bench, title: String) -> Result<(), Failure> {
    let server = Watched::start().await?;
    let (memory, lingering) = (Locks::in_memory(), Locks::connect(&server.url()).await?);
    let apps = NAMES.map(|name| app(name, if name == LINGERING { &lingering } else { &memory }));
    let mut addresses = Vec::new();
    for app in apps.clone() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        addresses.push(listener.local_addr()?);
        tokio::spawn(axum::serve(listener, app).into_future());
    }
    let (rounds, time) = (bench.pick(4, 9), bench.millis(400, 1500));
    let (mut requests, mut calls) = (NAMES.map(|_| Vec::new()), NAMES.map(|_| Vec::new()));
    let mut commands = Vec::new();
    for round in 0..=rounds {
        progress!("round {round} of {rounds}");
        for turn in 0..NAMES.len() {
            let who = (turn + round) % NAMES.len();
            server.forget_calls().await?;
            let request_rate = request_rate(addresses[who], time).await?;
            let call_rate = tokio::spawn(call_rate(apps[who].clone(), time / 2)).await??;
            // The first round warms up.
            if round > 0 {
                requests[who].push(request_rate);
                calls[who].push(call_rate);
                if NAMES[who] == LINGERING {
                    let count = server.calls(|command| command.starts_with("eval")).await?;
                    let answered = request_rate * time.as_secs_f64();
                    commands.push(real(count) / answered);
                }
            }
        }
    }
    let head =
        ["how", "contender", "a second", "ours / theirs", "target", "lingering / theirs", "target"];
    let mut table = Table::new(title, &head);
    for (how, rates) in [("HTTP/1.1", &requests), ("call", &calls)] {
        let [of_ours, of_lingering, ..] = rates;
        for (name, of) in NAMES.into_iter().zip(rates) {
            let (ratio, lingering) = (ratios(of_ours, of), ratios(of_lingering, of));
            let is_http = how == "HTTP/1.1";
            let aim = (is_http && name == TOWER).then_some(0.85);
            let aims = match name {
                TOWER if is_http => Some(0.9),
                OURS if !is_http => Some(0.8),
                _ => None,
            };
            table.row([
                how.to_owned(),
                name.to_owned(),
                Spread::of(of.iter().copied()).show(0),
                if name == OURS { String::new() } else { ratio.show(2) },
                aim.map(|aim| Target::AtLeast(aim).judge(ratio.median)).unwrap_or_default(),
                if name == LINGERING { String::new() } else { lingering.show(2) },
                aims.map(|aim| Target::AtLeast(aim).judge(lingering.median)).unwrap_or_default(),
            ]);
        }
    }
    table.note(format!(
        "HTTP/1.1: {CONNECTIONS} connections that are kept, client and server in one process. \
         call: one after another, without a network. Lingering: {:.4} commands a request, \
         counted by the server.",
        Spread::of(commands).median
    ));
    bench.add(table)
}

/// An app under one of the layers.
pub(crate) fn app(name: &str, locks: &Locks) -> Router {
    let app = Router::new().route("/", get(|| async { "ok" }));
    let ours = || LockLayer::semaphore(locks, "bench", LIMIT);
    match name {
        OURS => app.layer(ours()),
        LINGERING => app.layer(ours().linger(LINGER)),
        TOWER => app.layer(GlobalConcurrencyLimitLayer::new(LIMIT as usize)),
        _ => app,
    }
}

/// Requests a second over connections that are kept.
pub(super) async fn request_rate(
    address: std::net::SocketAddr,
    time: Duration,
) -> Result<f64, Failure> {
    let begun = Instant::now();
    let mut running = JoinSet::new();
    for _ in 0..CONNECTIONS {
        running.spawn(requests(address, begun + time));
    }
    let mut count = 0;
    while let Some(done) = running.join_next().await {
        count += done??;
    }
    Ok(real(count) / begun.elapsed().as_secs_f64())
}

/// A client that does almost nothing, so that the server's time is measured.
async fn requests(address: std::net::SocketAddr, until: Instant) -> Result<usize, Failure> {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: bench\r\n\r\n";
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut response, mut count) = (vec![0; 1024], 0);
    while Instant::now() < until {
        stream.write_all(REQUEST).await?;
        let mut length = 0;
        while !response[..length].ends_with(b"\r\n\r\nok") {
            match stream.read(&mut response[length..]).await? {
                0 => return Err("not the answer that was expected".into()),
                more => length += more,
            }
        }
        if !response.starts_with(b"HTTP/1.1 200 ") {
            return Err("a request was refused".into());
        }
        count += 1;
    }
    Ok(count)
}

/// Calls a second of the service itself.
async fn call_rate(app: Router, time: Duration) -> Result<f64, Failure> {
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < time {
        // Reading the clock must not take a part of the measured time.
        calls(&app, 10).await?;
        count += 10;
    }
    Ok(real(count) / begun.elapsed().as_secs_f64())
}

/// Calls the service itself, one call after another.
pub(crate) async fn calls(app: &Router, count: usize) -> Result<(), Failure> {
    for _ in 0..count {
        let response = app.clone().oneshot(Request::new(Body::empty())).await?;
        if !response.status().is_success() {
            return Err("a call was refused".into());
        }
        to_bytes(response.into_body(), 100).await?;
    }
    // Lets background tasks run.
    tokio::task::yield_now().await;
    Ok(())
}
