//! The layer in an app of its own, over real connections: two apps under load on one server, and an
//! app that gets SIGTERM.

mod time_outs;
mod uploads;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leasehold::Locks;
use leasehold_tests::process::{Process, example};
use leasehold_tests::server::{Server, signal};
use leasehold_tests::waiting::until;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// True for a request for a report, and the status of its response.
type Answer = (bool, u16);

/// The time that the apps are under load. `LOAD_SECONDS` makes it longer.
fn seconds() -> Duration {
    let seconds = std::env::var("LOAD_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(3))
}

/// Starts the app. Returns the host and port that it listens on.
fn start_app(server: &Server) -> (Process, String) {
    let mut app = example("axum_app");
    let mut app = Process::start(app.env("REDIS_URL", server.url()).env("ADDR", "127.0.0.1:0"));
    let line = app.line().expect("it says where it listens");
    let address = line.strip_prefix("listening on http://").expect("an address").to_owned();
    (app, address)
}

/// Never more than four requests are inside the route that is limited to four. A refused client is
/// told when to come back.
#[tokio::test]
async fn two_apps_keep_to_one_limit() {
    let server = Server::start();
    let apps = [start_app(&server), start_app(&server)];
    let addresses = apps.each_ref().map(|(_, address)| format!("http://{address}"));

    let until = Instant::now() + seconds();
    let mut connections = JoinSet::new();
    for n in 0..64 {
        connections.spawn(load(addresses[n % 2].clone(), n, until));
    }
    let mut answers = BTreeMap::<Answer, u64>::new();
    while let Some(counted) = connections.join_next().await {
        for (answer, count) in counted.expect("no connection panics") {
            *answers.entry(answer).or_default() += count;
        }
    }
    println!("responses by (is a report, status): {answers:?}");
    for answer in [(true, 200), (true, 429), (false, 200), (false, 409)] {
        assert!(answers.contains_key(&answer), "{answer:?} of {answers:?}");
    }
    assert_eq!(answers.len(), 4, "{answers:?}");

    let stats = reqwest::get(format!("{}/stats", addresses[0])).await.expect("the app answers");
    let stats = stats.bytes().await.expect("a body");
    let stats: serde_json::Value = serde_json::from_slice(&stats).expect("JSON");
    assert_eq!(stats["most"], 4, "{stats}");
    assert_eq!(stats["inside"], 0, "{stats}");
    assert_eq!(stats["built"], answers[&(true, 200)], "{stats}");
}

/// The requests of one connection: most ask for reports, the others change four orders.
async fn load(address: String, n: usize, until: Instant) -> BTreeMap<Answer, u64> {
    let client = reqwest::Client::builder().pool_max_idle_per_host(1).build().expect("a client");
    let is_report = n < 48;
    let mut answers = BTreeMap::new();
    while Instant::now() < until {
        let request = if is_report {
            client.post(format!("{address}/reports"))
        } else {
            client.put(format!("{address}/orders/{}", n % 4))
        };
        let response = request.send().await.expect("the app answers");
        let status = response.status().as_u16();
        if status != 200 {
            let retry_after = response.headers().get("retry-after").expect("a Retry-After");
            let seconds: u64 = retry_after.to_str().expect("ASCII").parse().expect("seconds");
            assert_eq!(seconds, 1, "the request before it is soon done");
        }
        response.bytes().await.expect("a body");
        *answers.entry((is_report, status)).or_default() += 1;
    }
    answers
}

/// An outage of the lock store must not take the app out of service, and people see it.
#[tokio::test]
async fn an_app_lives_on_without_its_store() {
    let server = Server::start();
    let (_app, address) = start_app(&server);
    let get = async |path: &str| {
        let response = reqwest::get(format!("http://{address}{path}")).await.expect("it answers");
        (response.status().as_u16(), response.text().await.expect("a text"))
    };
    assert_eq!(get("/live").await, (200, "alive\n".to_owned()));
    let (status, text) = get("/health").await;
    assert!(status == 200 && text.starts_with("the lock store answers in "), "{status}: {text}");

    drop(server);
    until("people see it", async || get("/health").await.0 == 503).await;
    assert_eq!(get("/live").await, (200, "alive\n".to_owned()));
}

/// A deploy must not cut off a request in the middle, nor leave its lock to its TTL.
#[tokio::test]
async fn an_app_that_shuts_down_ends_its_requests_and_leaves_no_lock() {
    for name in ["-TERM", "-INT"] {
        let server = Server::start();
        let locks = Locks::connect(&server.url()).await.unwrap();
        let (mut app, address) = start_app(&server);
        let holders = async || locks.inspect("order:42").await.unwrap().holders.len();

        // The handler has the lock, and waits for the rest of the order.
        let mut client = TcpStream::connect(&address).await.unwrap();
        let head = format!(
            "PUT /orders/42 HTTP/1.1\r\nhost: {address}\r\ncontent-length: 10\r\n\
             connection: close\r\n\r\ntwo "
        );
        client.write_all(head.as_bytes()).await.unwrap();
        until("one holds it", async || holders().await == 1).await;

        signal(name, &app.pid());
        until("it takes no more", async || TcpStream::connect(&address).await.is_err()).await;
        assert_eq!(holders().await, 1, "it is not cut off");

        client.write_all(b"chairs").await.unwrap();
        let mut response = String::new();
        client.read_to_string(&mut response).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        assert!(response.ends_with(": two chairs\n"), "{response}");

        let lines = app.rest();
        let [report] = lines.as_slice() else { panic!("{lines:?}") };
        assert!(report.starts_with("ended: ") && report.contains("left: 0"), "{report}");
        assert!(app.is_success(), "{name}");
        assert_eq!(holders().await, 0, "it did not wait for the TTL");
    }
}
