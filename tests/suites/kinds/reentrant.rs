//! One owner in several processes.

use std::process::Command;

use leasehold::{LockError, Locks, Released};
use leasehold_tests::process::Process;
use leasehold_tests::server::Server;

fn reenter(server: &Server, owner: &str, count: &str) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
    let mut worker = Process::start(command.args([&server.url(), "reenter", "a", owner, count]));
    assert_eq!(worker.line().as_deref(), Some("ready"));
    worker
}

/// Two processes and this one share an owner, and each acquire is sent three times. Six holds count
/// as six: five releases do not free the lock, and the sixth does.
#[tokio::test]
async fn holds_of_two_processes_are_counted_once_each() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mine = locks.reentrant_mutex("a").owner("job").lock().await.unwrap();
    let mut first = reenter(&server, "job", "2");
    let mut second = reenter(&server, "job", "3");
    let other = locks.reentrant_mutex("a").owner("other");
    let is_busy = async || matches!(other.try_lock().await, Err(LockError::Busy { .. }));
    assert_eq!(locks.inspect("a").await.unwrap().held, 6);
    assert!(is_busy().await);

    first.go_on();
    assert_eq!(first.rest(), ["StillHeld(5)", "StillHeld(4)"]);
    assert!(is_busy().await);
    second.go_on();
    assert_eq!(second.rest(), ["StillHeld(3)", "StillHeld(2)", "StillHeld(1)"]);
    assert!(is_busy().await, "five of six are released");
    assert_eq!(mine.release().await.unwrap(), Released::Free);
    other.try_lock().await.unwrap().release().await.unwrap();
}

/// The holds of a dead process end with their TTL. Other holds of its owner do not.
#[tokio::test]
async fn a_dead_process_leaves_its_owners_other_holds_alone() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut dead = reenter(&server, "job", "2");
    let mine = locks.reentrant_mutex("a").owner("job").lock().await.unwrap();
    let other = locks.reentrant_mutex("a").owner("other");
    dead.kill();
    assert!(other.try_lock().await.is_err());
    assert_eq!(mine.release().await.unwrap(), Released::StillHeld(2));
    assert!(other.try_lock().await.is_err(), "until their TTL is over");
    let forced = locks.force_release("a").await.unwrap();
    assert!(matches!(forced, leasehold::Forced::Released { held: 2, .. }), "{forced:?}");
    other.try_lock().await.unwrap().release().await.unwrap();
}
