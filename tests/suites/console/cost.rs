//! What the console costs with many locks.

use std::time::{Duration, Instant};

use super::on_servers::serve;
use super::{app, get};
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use leasehold::{Lease, Locks};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{pass, work_for};

const LONG: Duration = Duration::from_secs(300);

async fn hold(locks: &Locks, names: impl Iterator<Item = String>) -> Vec<Lease> {
    let acquire = async |name: String| locks.mutex(name).ttl(LONG).lock().await.unwrap();
    stream::iter(names).map(acquire).buffer_unordered(64).collect().await
}

/// A page looks at each lock once, and at the client that holds it.
#[tokio::test]
async fn a_page_looks_at_each_lock_once() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let leases = hold(&locks, (0..600).map(|n| format!("n:{n}"))).await;
    let app = app(&locks);
    for (page, rows) in [("/locks", 200), ("/locks?q=n:7", 11), ("/locks?q=nobody", 0)] {
        server.forget_stats().await;
        let text = get(&app, page).await.text;
        assert_eq!(text.matches("<tr data-key").count(), rows, "{page}");
        let (calls, (scans, _)) = (server.script_calls().await, server.stats("scan").await);
        assert!((1_200..1_400).contains(&calls), "{page}: {calls} calls of scripts");
        assert!((1..40).contains(&scans), "{page}: {scans} scans");
    }
    drop(leases);
}

fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures; run it with `--ignored --nocapture`, best with `--release`"]
async fn a_hundred_thousand_locks() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let _held = hold(&locks, (0..100_000).map(|n| format!("held:{n}"))).await;
    let mut redis = server.redis().await;
    let keys: u64 = redis::cmd("DBSIZE").query_async(&mut redis).await.unwrap();
    println!("{keys} keys");
    let (address, _stop, _task) = serve(app(&locks)).await;
    let before = memory();
    for page in ["", "?q=held", "?q=held:99999", "?q=none", "?q=*99999", "?page=25", "?page=50"] {
        let mut times = Vec::new();
        for _ in 0..5 {
            let begun = Instant::now();
            let url = format!("http://{address}/locks{page}");
            let mut response = reqwest::get(url).await.unwrap();
            let (mut text, mut first) = (String::new(), None);
            while let Some(chunk) = response.chunk().await.unwrap() {
                text.push_str(&String::from_utf8_lossy(&chunk));
                if first.is_none() && text.contains("<tr data-key") {
                    first = Some(begun.elapsed());
                }
            }
            times.push((first, begun.elapsed(), text.matches("<tr data-key").count()));
        }
        times.sort_unstable();
        let (first, all, rows) = times[2];
        println!("{page:?}: first row {first:?}, all {all:?}, {rows} rows");
    }
    println!("memory: {before} kB, then {} kB", memory());
    for viewers in [0, 1, 50] {
        let look = async |_| {
            let paths = ["list-events", "list-events?q=held:9999", "lock-events?name=held:1"];
            let streams = paths.map(async |path| {
                let url = format!("http://{address}/locks/{path}");
                reqwest::get(url).await.unwrap()
            });
            join_all(streams).await
        };
        let streams = join_all((0..viewers).map(look)).await;
        let reading = streams.into_iter().flatten().map(|mut response| {
            tokio::spawn(async move { while let Ok(Some(_)) = response.chunk().await {} })
        });
        let reading: Vec<_> = reading.collect();
        server.forget_stats().await;
        let mut pings = Vec::new();
        for _ in 0..800 {
            let begun = Instant::now();
            redis::cmd("PING").exec_async(&mut redis).await.unwrap();
            pings.push(begun.elapsed());
            work_for(Duration::from_millis(10)).await;
        }
        pings.sort_unstable();
        let (calls, scans) = (server.script_calls().await, server.stats("scan").await.0);
        let (half, most) = (pings[400], pings[792]);
        println!("{viewers} viewers: PING {half:?}, 99 % {most:?}; {calls} calls, {scans} scans");
        println!("memory: {} kB", memory());
        reading.iter().for_each(tokio::task::JoinHandle::abort);
        pass(Duration::from_secs(7), "the looks for these viewers end").await;
    }
}
