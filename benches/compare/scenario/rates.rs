//! A rate on a route, beside tower's own limits, `tower_governor`, and another limiter on Redis. It is
//! never used up.

use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use leasehold::layer::LayerLock;
use leasehold::{LockLayer, Locks, Rate};
use tokio::net::TcpListener;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::GlobalKeyExtractor;
use trypema::redis::{RedisKey, RedisRateLimiterProvider};
use trypema::{RateLimit, RateLimitDecision, RateLimiterBuilder, WindowSize};

use super::layer::request_rate;
use crate::bench::{Bench, progress};
use crate::failure::Failure;
use crate::server::Watched;
use crate::stats::{Spread, ratios, real};
use crate::table::{Table, Target};

const NAMES: [&str; 8] = [
    "ours, in memory",
    "ours, on a server",
    "ours, a rate beside a permit, on a server",
    "ours, a permit alone, on a server",
    "tower's concurrency limit, local",
    "tower_governor, local",
    "trypema, on a server",
    "no layer",
];

/// Those that ask a server.
const ON_A_SERVER: [usize; 4] = [1, 2, 3, 6];

/// A rate that 64 connections do not use up.
const RATE: Rate = Rate::per_second(10_000).burst(10_000_000);

const LIMIT: u32 = 10_000;

pub(crate) async fn run(bench: &mut Bench, title: String) -> Result<(), Failure> {
    let server = Watched::start().await?;
    let (locks, memory) = (Locks::connect(&server.url()).await?, Locks::in_memory());
    let app = || Router::new().route("/", get(|| async { "ok" }));
    let mut governor = GovernorConfigBuilder::default().key_extractor(GlobalKeyExtractor);
    let governor = governor.per_nanosecond(100).burst_size(LIMIT).finish();
    let governor = Arc::new(governor.ok_or("no configuration of tower_governor")?);
    let both =
        LockLayer::all(&locks, [LayerLock::permit("both", LIMIT), LayerLock::rate("both", RATE)]);
    let apps = [
        app().layer(LockLayer::rate(&memory, "rate", RATE)),
        app().layer(LockLayer::rate(&locks, "rate", RATE)),
        app().layer(both),
        app().layer(LockLayer::semaphore(&locks, "permit", LIMIT)),
        app().layer(GlobalConcurrencyLimitLayer::new(LIMIT as usize)),
        app().layer(GovernorLayer::new(governor)),
        with_trypema(app(), &server.url()).await?,
        app(),
    ];
    let mut addresses = Vec::new();
    for app in apps {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        addresses.push(listener.local_addr()?);
        tokio::spawn(axum::serve(listener, app).into_future());
    }
    let (rounds, time) = (bench.pick(3, 9), bench.millis(400, 1500));
    let (mut rates, mut commands) = (NAMES.map(|_| Vec::new()), NAMES.map(|_| Vec::new()));
    for round in 0..=rounds {
        progress!("round {round} of {rounds}");
        for turn in 0..NAMES.len() {
            let who = (turn + round) % NAMES.len();
            server.forget_calls().await?;
            let rate = request_rate(addresses[who], time).await?;
            // The first round warms up.
            if round > 0 {
                rates[who].push(rate);
                let scripts = server.calls(|command| command.starts_with("eval")).await?;
                commands[who].push(real(scripts) / (rate * time.as_secs_f64()));
            }
        }
    }
    let head = [
        "contender",
        "requests a second",
        "of no layer",
        "ours / theirs",
        "target",
        "scripts a request",
    ];
    let mut table = Table::new(title, &head);
    for (who, name) in NAMES.into_iter().enumerate() {
        // Each beside what does the same work: a server is asked, or not.
        let ours = usize::from(ON_A_SERVER.contains(&who));
        let ratio = ratios(&rates[ours], &rates[who]);
        let target = match who {
            4 | 5 => Target::AtLeast(0.9).judge(ratio.median),
            6 => Target::AtLeast(1.0).judge(ratio.median),
            _ => String::new(),
        };
        let commands = if ON_A_SERVER.contains(&who) {
            format!("{:.3}", Spread::of(commands[who].iter().copied()).median)
        } else {
            String::new()
        };
        table.row([
            name.to_owned(),
            Spread::of(rates[who].iter().copied()).show(0),
            ratios(&rates[who], &rates[7]).show(2),
            if who == ours { String::new() } else { ratio.show(2) },
            target,
            commands,
        ]);
    }
    table.note("64 connections that are kept, client and server in one process. Several takes may share a call of a script.");
    bench.add(table)
}

/// The app behind a middleware that asks trypema, as its documentation shows it.
async fn with_trypema(app: Router, url: &str) -> Result<Router, Failure> {
    let connection = redis::Client::open(url)?.get_connection_manager().await?;
    let window = WindowSize::seconds(1)?;
    let limiter = RedisRateLimiterProvider::builder(connection).window_size(window).build()?;
    let (key, rate) = (RedisKey::try_from("rate")?, RateLimit::per_second(1e7)?);
    let ask =
        move |request: Request, next: Next| -> Pin<Box<dyn Future<Output = Response> + Send>> {
            let (limiter, key, rate) = (limiter.clone(), key.clone(), rate);
            Box::pin(async move {
                match limiter.absolute().inc(&key, &rate, 1).await {
                    Ok(RateLimitDecision::Allowed) => next.run(request).await,
                    _ => StatusCode::TOO_MANY_REQUESTS.into_response(),
                }
            })
        };
    Ok(app.layer(from_fn(ask)))
}
