//! What a client dropped before is released before the client is refused because of it.

use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use leasehold::{Fault, LockError, Locks, Released, Step, distributed_lock};
use leasehold_tests::backend::light_client;
use leasehold_tests::kinds::{EVERY_KIND, Kind};
use leasehold_tests::polls::is_pending;
use leasehold_tests::server::Server;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(60);

/// A client with a thread of its own for the connections, and one without.
async fn clients(server: &Server) -> [Locks; 2] {
    [Locks::connect(&server.url()).await.unwrap(), light_client(server).await]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_lease_of_any_kind_does_not_refuse_the_next_try() {
    let server = Server::start();
    for (client, locks) in clients(&server).await.into_iter().enumerate() {
        for (nth, kind) in EVERY_KIND.into_iter().enumerate() {
            let name = format!("a:{nth}:{client}");
            for round in 0..100 {
                let taken = kind.try_lock(&locks, &name, LONG).await;
                assert!(taken.is_ok(), "{kind:?}, round {round}: {taken:?}");
                drop(taken);
                let rival = kind.rival().try_lock(&locks, &name, LONG).await;
                assert!(rival.is_ok(), "the rival of {kind:?}, round {round}: {rival:?}");
                drop(rival);
            }
        }
    }
}

/// The name was that of another kind of lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_lease_does_not_refuse_another_kind() {
    let server = Server::start();
    for (client, locks) in clients(&server).await.into_iter().enumerate() {
        let name = format!("a:{client}");
        for round in 0..100 {
            drop(Kind::Mutex.try_lock(&locks, &name, LONG).await.expect("it is free"));
            let permit = locks.semaphore(&*name, 3).try_acquire().await;
            assert!(permit.is_ok(), "round {round}: {permit:?}");
            drop(permit);
        }
    }
}

/// The caller gave up: while it held the lock, and while it asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_given_up_does_not_refuse_the_next() {
    let server = Server::start();
    for (client, locks) in clients(&server).await.into_iter().enumerate() {
        let name = format!("a:{client}");
        for round in 0..100_u64 {
            let held = async {
                let lease = locks.mutex(&*name).ttl(LONG).try_lock().await?;
                pending::<()>().await;
                drop(lease);
                Ok::<_, LockError>(())
            };
            // Some give up before the answer, and some under the lease.
            let _ = timeout(Duration::from_micros(round * 20), held).await;
            let next = locks.mutex(&*name).ttl(LONG).try_lock().await;
            assert!(next.is_ok(), "round {round}: {next:?}");
            next.unwrap().release().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_that_was_given_up_or_panicked_runs_again() {
    #[distributed_lock(locks = locks, key = "job", ttl = "60s", if_held = "skip")]
    async fn job(locks: &Locks, how: &str, runs: &mut u32) -> Result<(), LockError> {
        *runs += 1;
        match how {
            "hangs" => pending().await,
            "panics" => panic!("on purpose"),
            _ => Ok(()),
        }
    }
    let server = Server::start();
    for locks in clients(&server).await {
        for round in 0..50 {
            let mut runs = 0;
            let _ = timeout(Duration::from_millis(2), job(&locks, "hangs", &mut runs)).await;
            runs = 0;
            job(&locks, "works", &mut runs).await.unwrap();
            assert_eq!(runs, 1, "after it was given up, round {round}");
            let own = locks.clone();
            let panics = async move { job(&own, "panics", &mut 0).await };
            assert!(tokio::spawn(panics).await.unwrap_err().is_panic());
            runs = 0;
            job(&locks, "works", &mut runs).await.unwrap();
            assert_eq!(runs, 1, "after a panic, round {round}");
        }
    }
}

/// Another client lets the lock linger, and is asked once to release it. The answer that says so is
/// not lost because this client still releases something else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_lease_does_not_hide_that_another_client_lets_go() {
    let server = Server::start();
    let elsewhere = Locks::connect(&server.url()).await.unwrap();
    let locks = Locks::connect(&server.url()).await.unwrap();
    for round in 0..50 {
        let name = format!("a:{round}");
        let lingers = elsewhere.mutex(&*name).ttl(LONG).linger(LONG);
        let released = lingers.lock().await.unwrap().release().await.unwrap();
        assert_eq!(released, Released::Lingers);
        drop(locks.mutex("other").try_lock().await.unwrap());
        let next = locks.mutex(&*name).try_lock().await;
        assert!(next.is_ok(), "round {round}: {next:?}");
    }
}

/// The store does not answer: a try ends all the same.
#[tokio::test]
async fn a_release_without_an_answer_holds_a_try_up_for_a_while_only() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let lease = locks.mutex("a").ttl(LONG).lock().await.unwrap();
    let frozen = server.freeze().await;
    drop(lease);
    let refused = timeout(LONG / 2, locks.mutex("a").try_lock()).await;
    assert!(refused.expect("it does not hang").is_err());
    drop(frozen);
}

/// The system was suspended while the answer was on its way: the holder takes its grant for over, the
/// store does not, and the release is lost once.
#[tokio::test(start_paused = true)]
async fn a_grant_that_came_too_late_does_not_refuse_its_own_try() {
    for kind in EVERY_KIND {
        let (locks, faults) = Locks::in_memory_with_faults();
        faults.on(Step::Acquire).next(Fault::Delay(Duration::from_secs(1)));
        faults.next(Fault::LoseCommand);
        let mut tried = pin!(kind.try_lock(&locks, "a", LONG));
        assert!(is_pending(&mut tried).await);
        faults.store().suspend(LONG);
        let taken = tried.await;
        assert!(taken.is_ok(), "{kind:?}: {taken:?}");
    }
}
