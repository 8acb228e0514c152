//! A record that the server has lost is not taken for a slow renewal.

use std::time::Duration;

use leasehold::{Lease, LockError, Locks, LossReason};
use leasehold_tests::server::Server;

async fn lose_data(server: &Server) {
    redis::cmd("FLUSHALL").exec_async(&mut server.redis().await).await.unwrap();
}

/// A server that has lost its data, and the leases that it had granted before.
async fn with_lost_data() -> (Server, Locks, [Lease; 3]) {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let ttl = Duration::from_secs(3);
    let leases = [
        locks.mutex("a").ttl(ttl).lock().await.unwrap(),
        locks.semaphore("b", 1).ttl(ttl).acquire().await.unwrap(),
        locks.rw_lock("c").ttl(ttl).write().await.unwrap(),
    ];
    lose_data(&server).await;
    (server, locks, leases)
}

#[tokio::test]
async fn a_renewal_says_that_the_record_is_gone() {
    let (_server, _locks, leases) = with_lost_data().await;
    for lease in leases {
        assert_eq!(lease.lost().await, LossReason::Gone, "{}", lease.key());
        let error = lease.release().await.unwrap_err();
        assert!(error.to_string().contains("lost its record before its time was over"), "{error}");
    }
}

#[tokio::test]
async fn a_release_says_that_the_record_is_gone() {
    let (server, locks, leases) = with_lost_data().await;
    for lease in leases {
        let key = lease.key().clone();
        let Err(LockError::Lost { reason, .. }) = lease.release().await else { panic!("{key}") };
        assert_eq!(reason, LossReason::Gone, "{key}");
    }
    let done = locks.mutex("d").once(Duration::from_secs(60)).lock().await.unwrap();
    lose_data(&server).await;
    let Err(LockError::Lost { reason, .. }) = done.complete().await else { panic!("it completes") };
    assert_eq!(reason, LossReason::Gone);
}

/// Others may have the lock by then, and that says more.
#[tokio::test]
async fn a_record_that_another_has_written_since_is_taken() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let lease = locks.mutex("a").ttl(Duration::from_secs(3)).lock().await.unwrap();
    lose_data(&server).await;
    let _next = Locks::connect(&server.url()).await.unwrap().mutex("a").try_lock().await.unwrap();
    assert_eq!(lease.lost().await, LossReason::Taken);
}
