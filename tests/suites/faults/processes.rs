//! Processes that die, stop, or end.

use std::process::Command;
use std::time::{Duration, Instant};

use leasehold::{LockError, Locks, Wait};
use leasehold_tests::process::Process;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{until_outlived, work_for};
use tokio::time::timeout;

fn worker(server: &Server, arguments: &[&str]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
    Process::start(command.arg(server.url()).args(arguments))
}

/// A worker that has printed that it is ready.
fn ready(server: &Server, arguments: &[&str]) -> Process {
    let mut worker = worker(server, arguments);
    assert_eq!(worker.line().as_deref(), Some("ready"));
    worker
}

#[tokio::test]
async fn a_killed_holders_lock_is_free_after_its_ttl_and_no_sooner() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut holder = ready(&server, &["hold", "a", "1500"]);
    holder.kill();
    let left: u64 = redis::cmd("PTTL")
        .arg("leasehold:lock:{a}")
        .query_async(&mut server.redis().await)
        .await
        .unwrap();
    let killed = Instant::now();
    assert!(matches!(locks.mutex("a").try_lock().await, Err(LockError::Busy { .. })));
    let lease = locks.mutex("a").wait(Wait::Forever).lock().await.unwrap();
    let waited = killed.elapsed();
    assert!(
        waited + Duration::from_millis(5) >= Duration::from_millis(left),
        "{waited:?} of {left} ms"
    );
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_holder_outlives_its_ttl_because_it_is_renewed() {
    let server = Server::start();
    // On a busy machine a try may take long, and a renewal may be late, but not by a second.
    let patient = Locks::builder().command_timeout(Duration::from_secs(10));
    let locks = patient.connect(&server.url()).await.unwrap();
    // The worker blocks the only thread of its runtime meanwhile.
    let mut holder = ready(&server, &["hold", "a", "1500"]);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        assert!(matches!(locks.mutex("a").try_lock().await, Err(LockError::Busy { .. })));
        work_for(Duration::from_millis(20)).await;
    }
    holder.go_on();
    assert_eq!(holder.rest(), ["held", "true"]);
    locks.mutex("a").try_lock().await.unwrap().release().await.unwrap();
}

/// At the end of a thread the client waits for a server that does not answer. The thread-locals,
/// which loggers use, are gone by then.
#[tokio::test]
async fn a_process_ends_in_time_though_the_server_does_not_answer() {
    let server = Server::start();
    let mut worker = ready(&server, &["log"]);
    let frozen = server.freeze().await;
    let ended = tokio::task::spawn_blocking(move || worker.is_success());
    let is_success = timeout(Duration::from_secs(60), ended).await.expect("it ends").unwrap();
    assert!(is_success, "it does not abort");
    drop(frozen);
}

#[tokio::test]
async fn counting_under_a_lock_loses_nothing() {
    let server = Server::start();
    let counters: Vec<_> = (0..4).map(|_| worker(&server, &["count", "counter", "100"])).collect();
    for mut counter in counters {
        assert_eq!(counter.line().as_deref(), Some("ready"));
        assert!(counter.is_success());
    }
    let number: u64 =
        redis::cmd("GET").arg("number").query_async(&mut server.redis().await).await.unwrap();
    assert_eq!(number, 400);
}

/// Each `#[tokio::test]` has its own runtime, and a static client outlives them all.
#[test]
fn a_client_in_a_static_serves_one_runtime_after_another() {
    const TTL: Duration = Duration::from_millis(1500);
    static LOCKS: std::sync::OnceLock<Locks> = std::sync::OnceLock::new();
    let server = Server::start();
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let held_on = runtime();
    let lease = held_on.block_on(async {
        let locks = Locks::connect(&server.url()).await.unwrap();
        let locks = LOCKS.get_or_init(|| locks);
        locks.mutex("a").ttl(TTL).lock().await.unwrap()
    });
    drop(held_on);
    runtime().block_on(async {
        let locks = LOCKS.get().unwrap();
        // It is renewed though its runtime is gone.
        until_outlived(&lease, TTL).await;
        assert!(locks.mutex("a").try_lock().await.is_err());
        locks.semaphore("b", 1).acquire().await.unwrap().release().await.unwrap();
    });
    drop(lease); // outside of every runtime
    runtime().block_on(async {
        LOCKS.get().unwrap().mutex("a").lock().await.unwrap().release().await.unwrap();
    });
}
