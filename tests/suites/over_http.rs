//! The layer under load: two apps on one server, over real connections.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leasehold_tests::process::{Process, example};
use leasehold_tests::server::Server;
use tokio::task::JoinSet;

/// Whether a request was for a report, and the status of its response.
type Answer = (bool, u16);

/// How long the apps are under load; `LOAD_SECONDS` makes it longer.
fn seconds() -> Duration {
    let seconds = std::env::var("LOAD_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(3))
}

/// No more than four are ever inside the route that is limited to four, and
/// whoever is refused is told when to come back.
#[tokio::test]
async fn two_apps_keep_to_one_limit() {
    let server = Server::start();
    let mut apps = [(); 2].map(|()| {
        let mut app = example("axum_app");
        Process::start(app.env("REDIS_URL", server.url()).env("ADDR", "127.0.0.1:0"))
    });
    let addresses = apps.each_mut().map(|app| {
        let line = app.line().expect("it says where it listens");
        line.strip_prefix("listening on ").expect("an address").to_owned()
    });

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
        assert!(answers.get(&answer) > Some(&50), "{answer:?} of {answers:?}");
    }
    assert_eq!(answers.len(), 4, "{answers:?}");

    let stats = reqwest::get(format!("{}/stats", addresses[0])).await.expect("the app answers");
    let stats = stats.bytes().await.expect("a body");
    let stats: serde_json::Value = serde_json::from_slice(&stats).expect("JSON");
    assert_eq!(stats["most"], 4, "{stats}");
    assert_eq!(stats["inside"], 0, "{stats}");
    assert_eq!(stats["built"], answers[&(true, 200)], "{stats}");
}

/// One connection: most ask for reports, the others change four orders.
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
            assert!((1..=30).contains(&seconds), "{seconds}");
        }
        response.bytes().await.expect("a body");
        *answers.entry((is_report, status)).or_default() += 1;
    }
    answers
}
