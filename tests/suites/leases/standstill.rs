//! A runtime that is blocked, and a process that stands still.

use std::pin::pin;
use std::process::Command;
use std::sync::{Arc, Barrier, Once};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use leasehold::{Lease, Locks, Wait};
use leasehold_tests::kinds::{EVERY_KIND, Guard};
use leasehold_tests::polls::is_pending;
use leasehold_tests::process::Process;
use leasehold_tests::server::{Server, signal};
use leasehold_tests::waiting::block_for;
use redis::AsyncCommands;
use tokio::runtime::Builder;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::worker;

/// The first renewal comes after a second. A busy machine may be late by another.
const TTL: Duration = Duration::from_secs(3);

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

/// Every worker of the user's runtime sleeps for three TTLs. The leases are renewed all the same,
/// and a process that waits for one keeps waiting.
#[test]
fn a_runtime_that_is_blocked_loses_nothing() {
    const WORKERS: usize = 2;
    let server = Server::start();
    let users = Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build().unwrap();
    let held: Vec<_> = users.block_on(async {
        let locks = Locks::connect(&server.url()).await.unwrap();
        let mut held = Vec::new();
        for kind in EVERY_KIND {
            held.push(kind.lock(&locks, &format!("m:{kind:?}"), TTL).await.unwrap());
        }
        held
    });
    let mut waits = worker(&server, &["wait", "m:Mutex"]);
    let blocked = Arc::new(Barrier::new(WORKERS));
    let sleeping: Vec<_> = (0..WORKERS)
        .map(|_| {
            let blocked = blocked.clone();
            users.spawn(async move {
                blocked.wait();
                block_for(TTL * 3);
            })
        })
        .collect();
    // This runtime is not the blocked one.
    let looking = Builder::new_current_thread().enable_all().build().unwrap();
    looking.block_on(async {
        for sleeping in sleeping {
            sleeping.await.unwrap();
        }
        for guard in &held {
            assert!(guard.is_held(), "{guard:?}");
        }
        let other = Locks::connect(&server.url()).await.unwrap();
        for kind in EVERY_KIND {
            let refused = kind.rival().try_lock(&other, &format!("m:{kind:?}"), TTL).await;
            assert!(refused.is_err_and(|error| error.is_held_by_another()), "{kind:?}");
        }
        // The holder had them to the end, and nobody in between: an ended lease does not come back.
        let fences: Vec<_> = held.iter().flat_map(Guard::leases).map(Lease::fence).collect();
        for guard in held {
            guard.release().await.unwrap();
        }
        assert_eq!(waits.line().as_deref(), Some("ready"), "it has it now");
        let next = other.inspect("m:Mutex").await.unwrap().holders[0].fence;
        assert!(next > fences[0].as_ref().ok().copied(), "{next:?}");
    });
}

/// A waker that does not return keeps the client's own thread busy. A caller's command is sent
/// all the same: the caller sends it itself, as none is in flight. The answer waits for the thread.
#[test]
fn a_command_is_sent_while_the_clients_thread_is_busy() {
    let server = Server::start();
    let users = Builder::new_current_thread().enable_all().build().unwrap();
    let (locks, lease) = users.block_on(async {
        let locks = Locks::connect(&server.url()).await.unwrap();
        let lease = locks.mutex("gone").ttl(TTL).lock().await.unwrap();
        // Its next renewal finds out, on the client's thread. By then the test waits for that.
        let _: () = server.redis().await.del("leasehold:lock:{gone}").await.unwrap();
        (locks, lease)
    });
    let busy = Arc::new(Busy { begun: Barrier::new(2), over: Barrier::new(2), once: Once::new() });
    let handle = lease.handle();
    let mut lost = pin!(handle.lost());
    let _inside = users.enter();
    let waker = Waker::from(busy.clone());
    assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    // From here on the client's thread is inside the waker.
    busy.begun.wait();
    let mutex = locks.mutex("a").ttl(TTL);
    let mut acquiring = pin!(mutex.lock());
    let is_sent = users.block_on(async {
        assert!(is_pending(&mut acquiring).await);
        let mut redis = server.redis().await;
        let is_there = async {
            while !redis.exists::<_, bool>("leasehold:lock:{a}").await.unwrap() {
                yield_now().await;
            }
        };
        timeout(LONG, is_there).await.is_ok()
    });
    busy.over.wait();
    assert!(is_sent);
    assert!(users.block_on(acquiring).unwrap().is_held());
}

/// A waker whose first wake returns when the test says so.
struct Busy {
    begun: Barrier,
    over: Barrier,
    once: Once,
}

impl Wake for Busy {
    fn wake(self: Arc<Self>) {
        self.once.call_once(|| {
            self.begun.wait();
            self.over.wait();
        });
    }
}

/// The process is stopped until another has the lock. When it goes on, it knows of the loss at
/// once, without the server. The work does not run, and the release does not touch the other's
/// lease.
#[tokio::test]
async fn a_process_stopped_past_its_ttl_does_not_continue() {
    stop_past_the_ttl(|_| {}, |_| {}).await;
}

/// The same if the clock of its timers and of [`Instant`](std::time::Instant) stood still as well.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_system_suspended_past_the_ttl_does_not_continue() {
    let clock = leasehold_tests::skew::Clock::new();
    stop_past_the_ttl(|command| clock.govern(command), |time| clock.suspend(time)).await;
}

async fn stop_past_the_ttl(
    prepare: impl FnOnce(&mut Command),
    before_it_goes_on: impl FnOnce(Duration),
) {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
    prepare(&mut command);
    let mut holder = Process::start(command.arg(server.url()).args(["run", "a", "1500"]));
    assert_eq!(holder.line().as_deref(), Some("ready"));
    signal("-STOP", &holder.pid());
    let stopped = Instant::now();
    let lease = locks.mutex("a").wait(Wait::Forever).lock().await.unwrap();
    let mut redis = server.redis().await;
    let mut record = redis::cmd("GET");
    record.arg("leasehold:lock:{a}");
    let (fence, before) = (lease.fence().unwrap(), record.query_async(&mut redis).await);
    let before: String = before.unwrap();
    assert!(before.starts_with("MH"), "{before}");
    holder.go_on();
    before_it_goes_on(stopped.elapsed());
    signal("-CONT", &holder.pid());
    // The lease is not held when asked, the loss is reported, the work ended with an error, and the
    // release was refused.
    let said = holder.rest();
    assert_eq!(said, ["lost", "Expired", "stopped", "lost", "lost"]);
    let after: String = record.query_async(&mut redis).await.unwrap();
    assert_eq!(after, before, "nothing of the new holder's is touched");
    assert_eq!(lease.fence().unwrap(), fence);
    lease.release().await.unwrap();
}
