//! Leader election on a real server: who leads, what it costs, and a leader that stands still.

use std::future::pending;
use std::time::Duration;

use leasehold::{ElectionHandle, ElectionState, LockError, Locks};
use leasehold_tests::server::Server;
use tokio::task::JoinHandle;

/// Campaigns, and leads until it is stopped.
async fn candidate(
    server: &Server,
    service: &str,
    ttl: Duration,
) -> (ElectionHandle, JoinHandle<Result<(), LockError>>) {
    let locks = Locks::builder().service(service).connect(&server.url()).await.unwrap();
    let mut election = locks.mutex("leader").ttl(ttl).owner(format!("{service}-1")).election();
    let handle = election.handle();
    (handle, tokio::spawn(async move { election.lead(|_| pending::<()>()).await }))
}

async fn until(standing: &mut ElectionHandle, is_so: impl Fn(&ElectionState) -> bool) {
    while !is_so(&standing.state()) {
        standing.changed().await.expect("the election goes on");
    }
}

fn leads(state: &ElectionState) -> bool {
    matches!(state, ElectionState::Leading { .. })
}

/// True if a candidate follows a leader of this process, of this service.
fn follows(state: &ElectionState, service: &str) -> bool {
    let ElectionState::Following { leader: Some(leader), owner, .. } = state else { return false };
    assert_eq!(leader.process, std::process::id());
    assert!(!leader.host.is_empty());
    leader.service == service && owner.as_deref() == Some(&*format!("{service}-1"))
}

#[tokio::test]
async fn a_follower_knows_the_leader_and_takes_over() {
    let server = Server::start();
    let ttl = Duration::from_secs(3);
    let (mut red, first) = candidate(&server, "red", ttl).await;
    until(&mut red, leads).await;
    let (mut blue, _second) = candidate(&server, "blue", ttl).await;
    until(&mut blue, |state| follows(state, "red")).await;

    // The leader steps down, the follower leads, and the former leader follows.
    assert!(red.step_down(Duration::from_millis(100)));
    until(&mut blue, leads).await;
    until(&mut red, |state| follows(state, "blue")).await;
    assert_eq!((red.transitions(), blue.transitions()), (1, 1));

    // An operator takes the lock from it: the next in the queue leads.
    let operator = Locks::connect(&server.url()).await.unwrap();
    let _ = operator.force_release("leader").await.unwrap();
    until(&mut red, leads).await;
    until(&mut blue, |state| follows(state, "red")).await;
    assert_eq!((red.transitions(), blue.transitions()), (2, 2));
    first.abort();
}

/// The server stops, and then the leader's thread. Its task can't notice the end of its lease. The
/// handle tells it all the same, and wakes a waiter on another thread.
#[test]
fn a_loss_is_told_before_the_leaders_task_runs() {
    let ttl = Duration::from_millis(1500);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (leader, server) = (runtime(), Server::start());
    let _frozen = leader.block_on(async {
        let (mut standing, _campaign) = candidate(&server, "red", ttl).await;
        until(&mut standing, leads).await;
        let mut watcher = standing.clone();
        let (told, hears) = std::sync::mpsc::channel();
        let frozen = server.freeze().await;
        let watching = std::thread::spawn(move || {
            let changed = runtime().block_on(watcher.changed());
            let _ = told.send(changed);
        });
        // This blocks the only thread of the leader's runtime.
        let changed = hears.recv_timeout(ttl * 10).expect("it is told without the leader");
        assert_eq!(changed, Some(ElectionState::Campaigning));
        assert!(!standing.is_leader());
        assert_eq!(standing.state(), ElectionState::Campaigning);
        assert!(!standing.step_down(Duration::ZERO));
        watching.join().unwrap();
        frozen
    });
}
