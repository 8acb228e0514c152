//! Acquiring and releasing leaks nothing.

use std::time::Duration;

use leasehold_tests::server::Server;
use leasehold_tests::waiting::until;

use super::cost::said;
use super::{is_long, worker};

/// The allowed growth of memory after the first tenth, in bytes. A hundred bytes for each cycle
/// would be seen. The memory that an allocator keeps or gives back is less.
fn growth() -> u64 {
    if is_long() { 5_000_000 } else { 1_000_000 }
}

/// Lets a worker run its cycles on a server, and checks both while the worker's clients exist. Then
/// waits until the server has removed the free locks.
async fn nothing_adds_up(what: &str, count: u64, clients: usize) {
    let server = Server::start_skewed();
    let mut process = worker(&server, &[what, &count.to_string()]);
    let lines: Vec<_> = std::iter::from_fn(|| process.line().filter(|it| it != "ready")).collect();
    let said = said(&lines);
    println!("{count} {what}: memory grew by {} bytes after the first tenth", said["grown"]);
    assert!(said["grown"] < growth(), "{} bytes", said["grown"]);
    assert_eq!(said["tasks"], 0);

    let mut redis = server.redis().await;
    let channels: Vec<String> =
        redis::cmd("PUBSUB").arg("CHANNELS").query_async(&mut redis).await.unwrap();
    // And all clients listen to one for changed limits.
    assert_eq!(channels.len(), clients + 1, "one subscription a client: {channels:?}");
    server.until_all_is_free().await;
    let mut unlink = redis::cmd("UNLINK");
    let is_unlinked: bool = unlink.arg("leasehold:tokens").query_async(&mut redis).await.unwrap();
    assert!(is_unlinked || server.known().await > 0, "there were locks");
    server.jump(Duration::from_secs(61));
    // Only the clients' records stay. The server removes expired keys bit by bit.
    let size = redis::cmd("DBSIZE");
    until("all locks are gone", async || size.query_async(&mut redis).await == Ok(clients)).await;
    assert!(process.is_success());
}

#[tokio::test]
async fn acquiring_and_releasing_leaks_nothing() {
    nothing_adds_up("cycles", if is_long() { 1_000_000 } else { 30_000 }, 1).await;
}

/// Also of locks that lingered once.
#[tokio::test]
async fn names_that_lingered_once_leak_nothing() {
    nothing_adds_up("lingered", if is_long() { 1_000_000 } else { 20_000 }, 1).await;
}

#[tokio::test]
async fn hand_offs_of_one_lock_leak_nothing() {
    nothing_adds_up("contended", if is_long() { 100_000 } else { 5_000 }, 2).await;
}
