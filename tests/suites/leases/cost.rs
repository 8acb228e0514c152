//! The cost of many leases in commands, threads, tasks and memory; and none is lost.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use leasehold_tests::server::Server;
use leasehold_tests::waiting::until;

use super::{is_long, ready};

/// The number of leases, their TTL, and how often each is renewed while they are watched. `./tests/run
/// long` uses the load of a service: 50,000 leases of the default TTL, for two minutes. Otherwise there are so few
/// that a busy machine renews them in time.
fn load() -> (u64, Duration, u64) {
    let (many, ttl, rounds) = if is_long() { (50_000, 30, 12) } else { (5_000, 6, 5) };
    (many, Duration::from_secs(ttl), rounds)
}

/// A worker's measurements, one `name number` a line.
pub(super) fn said(lines: &[String]) -> HashMap<&str, u64> {
    lines
        .iter()
        .filter_map(|line| {
            let (name, number) = line.split_once(' ')?;
            Some((name, number.parse().ok()?))
        })
        .collect()
}

/// A process has many leases. Each is renewed once in a third of its TTL and not more often, by one
/// thread, without a task for each lease, and in about a kibibyte.
#[tokio::test]
async fn many_leases_of_a_process_are_not_lost() {
    let (many, ttl, rounds) = load();
    let server = Server::start();
    let arguments = ["many", &many.to_string(), &ttl.as_millis().to_string()];
    let mut process = ready(&server, &arguments);
    let begun = Instant::now();
    server.forget_stats().await;
    // Several go in one call, and each reads its record once.
    let renewals = async || server.stats("get").await.0;
    for round in 1..=rounds {
        until("all are renewed once more", async || renewals().await >= many * round).await;
    }
    let renewals = renewals().await;
    let held = begun.elapsed();
    process.go_on();
    let lines = process.rest();
    let said = said(&lines);
    let (calls, micros) = (server.stats("get").await.0, server.stats("evalsha").await.1);
    println!(
        "{many} leases, TTL {ttl:?}, {held:?}: {renewals} renewals, {}% of a core, {} bytes a lease; \
         the server: {} µs a renewal",
        u128::from(said["ticks"]) * 1_000 / held.as_millis(),
        said["bytes"],
        micros / calls.max(1),
    );
    assert_eq!(said["lost"], 0);
    // One may be a third older than another, so there is one more renewal than the time has thirds.
    let thirds = u64::try_from(held.as_millis() / (ttl / 3).as_millis()).unwrap();
    assert!(renewals <= many * (thirds + 1), "{renewals} in {thirds} thirds of the TTL");
    assert_eq!((said["keepers"], said["threads"], said["tasks"]), (1, 0, 0));
    // The resident memory of the process before and after. The allocator keeps half of it, which
    // differs from run to run by hundreds of bytes a lease. Another kibibyte a lease, such as a
    // task with its timer, would be seen.
    assert!(said["bytes"] < 2_048, "{} bytes a lease", said["bytes"]);
}
