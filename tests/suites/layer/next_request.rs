//! A client that has read its whole answer, and is alone on its lock, is not refused: whichever of
//! the servers gets its next request, and however far away Redis is.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use http::Method;
use leasehold_tests::process::Process;
use leasehold_tests::routes::{BODIES, KINDS};
use leasehold_tests::server::Server;
use redis_server_wrapper::{Delay, Direction, FaultProxy};

/// A process of its own that serves the routes, and its address.
fn serve(redis: &str) -> (Process, String) {
    let mut worker = Command::new(env!("CARGO_BIN_EXE_worker"));
    let mut process = Process::start(worker.args([redis, "routes"]));
    let address = process.line().expect("it says where it listens");
    (process, address)
}

/// How many requests go to each route. `NEXT_REQUESTS` makes it more.
fn requests() -> u32 {
    std::env::var("NEXT_REQUESTS").ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

/// Sends requests one after another, each to the next server. Returns the refused ones, and the
/// time of all.
async fn ask(servers: &[(Process, String)], kind: &str, body: &str) -> (u32, Duration) {
    let client = reqwest::Client::new();
    let method = if body == "head" { Method::HEAD } else { Method::POST };
    let (mut refused, begun) = (0, Instant::now());
    for (_, server) in servers.iter().cycle().take(requests() as usize) {
        let request = client.request(method.clone(), format!("http://{server}/{kind}/{body}"));
        let response = request.header("accept-encoding", "gzip").send().await.unwrap();
        let status = response.status();
        refused += u32::from(status.is_client_error());
        let is_compressed = response.headers().contains_key("content-encoding");
        assert_eq!(is_compressed && !status.is_client_error(), body.starts_with("compressed"));
        response.bytes().await.unwrap();
    }
    (refused, begun.elapsed())
}

async fn refusals(redis: &Server, server_count: usize, round_trip: Duration) {
    let proxy = FaultProxy::spawn(("127.0.0.1", redis.port())).await.unwrap();
    if !round_trip.is_zero() {
        proxy.set_delay(Direction::UpstreamToClient, Delay::Fixed(round_trip));
    }
    let url = format!("redis://{}/", proxy.addr());
    let servers: Vec<_> = (0..server_count).map(|_| serve(&url)).collect();
    let mut refused = BTreeMap::new();
    for body in BODIES {
        let mut took = Duration::ZERO;
        for kind in KINDS {
            let (count, time) = ask(&servers, kind, body).await;
            took += time;
            if count > 0 {
                refused.insert((body, kind), count);
            }
        }
        let each = took / (requests() * 3);
        println!("{server_count} servers, Redis {round_trip:?} farther: {body} takes {each:?}");
    }
    assert!(refused.is_empty(), "{server_count} servers, {round_trip:?}: {refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_does_not_refuse_its_only_client() {
    let redis = Server::start();
    for micros in [0, 500, 2000] {
        refusals(&redis, 1, Duration::from_micros(micros)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_do_not_refuse_their_only_client() {
    let redis = Server::start();
    for micros in [0, 500, 2000] {
        refusals(&redis, 2, Duration::from_micros(micros)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_servers_do_not_refuse_their_only_client() {
    let redis = Server::start();
    for micros in [0, 500, 2000] {
        refusals(&redis, 4, Duration::from_micros(micros)).await;
    }
}
