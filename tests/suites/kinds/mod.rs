//! The other kinds of locks on real servers, under load: the promises that users rely on.

mod by_redis_cli;
#[cfg(target_os = "linux")]
mod calendar;
#[cfg(target_os = "linux")]
mod clock;
mod deleted_records;
mod force;
mod force_hints;
#[cfg(target_os = "linux")]
mod forgotten;
mod jobs;
mod many_jobs;
mod rates;
mod reentrant;
mod rw;

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::{Forced, Locks, LossReason};
use leasehold_tests::waiting::{until, until_outlived};
use redis::aio::MultiplexedConnection;

/// Waits until a waiter of this demand is in the queue. A record holds the demand after
/// the end of the heartbeat.
async fn until_waits(redis: &mut MultiplexedConnection, name: &str, demand: &str) {
    let waiters = redis::cmd("HVALS").arg(format!("leasehold:waiters:{{{name}}}")).to_owned();
    until("one waits", async || {
        let said: Vec<String> = waiters.query_async(redis).await.expect("HVALS");
        said.iter().any(|said| &said[35..] == demand)
    })
    .await;
}

/// Uses all other kinds of locks, and the commands of an operator.
pub(crate) async fn every_kind_and_question(locks: &Locks) {
    // That a lease was forced is known until it would have ended. The machine may be busy.
    let ttl = Duration::from_secs(1);
    let reentrant = locks.reentrant_mutex("e").owner("me").ttl(ttl);
    let (hold, again) = (reentrant.lock().await.unwrap(), reentrant.lock().await.unwrap());
    let rw = locks.rw_lock("r").owner("me").ttl(ttl);
    let read = rw.read().await.unwrap();
    let write = rw.try_write().await.unwrap();
    let permit = locks.semaphore("w", 5).owner("me").ttl(ttl).acquire_many(3).await.unwrap();
    let other = locks.semaphore("w", 5).owner("you").ttl(ttl).acquire_many(2).await.unwrap();
    let all = [&hold, &again, &read, &write, &permit, &other];
    join_all(all.map(|lease| until_outlived(lease, ttl))).await;
    for lease in all {
        assert!(!locks.inspect(lease.key()).await.unwrap().holders.is_empty());
    }
    for name in ["e", "r", "w"] {
        assert!(locks.is_held_by(name, "me").await.unwrap());
    }
    for lease in [again, write, other] {
        lease.release().await.unwrap();
    }
    let limit = locks.limits().name("x");
    limit.clone().set(1).await.unwrap();
    assert_eq!(limit.get().await.unwrap().unwrap().limit, 1);
    assert!(limit.unset().await.unwrap());
    for lease in [hold, read, permit] {
        let forced = locks.force_release(lease.key()).await.unwrap();
        assert!(matches!(forced, Forced::Released { held: 1, .. }), "{forced:?}");
        assert_eq!(lease.lost().await, LossReason::Forced);
    }
}
