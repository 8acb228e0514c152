//! A stuck holder's lock is taken by force, under load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{Fence, Forced, LockError, Locks, LossReason, Wait};
use leasehold_tests::backend::light_client;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{OwnTime, until};
use tokio::task::JoinSet;

/// A resource that refuses reads and writes of a holder older than the newest it has seen.
#[derive(Default)]
struct Fenced(Mutex<(Option<Fence>, u64)>);

impl Fenced {
    fn read(&self, fence: Fence) -> Option<u64> {
        let mut inner = self.0.lock().unwrap();
        if inner.0 > Some(fence) {
            return None;
        }
        inner.0 = Some(fence);
        Some(inner.1)
    }

    fn write(&self, fence: Fence, value: u64) -> bool {
        let mut inner = self.0.lock().unwrap();
        let is_newest = inner.0 <= Some(fence);
        if is_newest {
            *inner = (Some(fence), value);
        }
        is_newest
    }
}

const STUCK: u32 = 5;

/// Eight tasks add to a number in a loop. Now and then one is stuck while it holds the lock, and an
/// operator releases the lock by force. The next task runs at once. The stuck task learns that it
/// was forced, and its write is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_holder_is_forced_while_others_go_on() {
    let server = Server::start();
    let (store, stop) = (Arc::new(Fenced::default()), Arc::new(AtomicBool::new(false)));
    let mut running = JoinSet::new();
    for _ in 0..8 {
        let (locks, store, stop) = (light_client(&server).await, store.clone(), stop.clone());
        running.spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let lease = locks.mutex("a").wait(Wait::Forever).lock().await.unwrap();
                let fence = lease.fence().unwrap();
                // It may have been forced just after its grant.
                if let Some(number) = store.read(fence) {
                    tokio::task::yield_now().await;
                    store.write(fence, number + 1);
                }
                match lease.release().await {
                    Ok(_) | Err(LockError::Lost { reason: LossReason::Forced, .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        });
    }
    let operator = Locks::connect(&server.url()).await.unwrap();
    let stuck = light_client(&server).await;
    for _ in 0..STUCK {
        let mutex = stuck.mutex("a").ttl(Duration::from_secs(3)).wait(Wait::Forever);
        let lease = mutex.lock().await.unwrap();
        let fence = lease.fence().unwrap();
        let number = store.read(fence).expect("it is the newest");
        let waiting = operator.inspect("a").await.unwrap();
        assert_eq!(waiting.holders.len(), 1);
        assert_eq!(waiting.holders[0].fence, Some(fence));

        let time = OwnTime::begin();
        let Forced::Released { held: 1, fence: moved, .. } =
            operator.force_release("a").await.unwrap()
        else {
            panic!("it is held");
        };
        assert!(moved > fence);
        until("the next one runs", async || store.0.lock().unwrap().1 != number).await;
        let waited = time.passed();
        assert!(waited < Duration::from_secs(1), "the next one ran after {waited:?}");
        assert!(!store.write(fence, 0) && store.read(fence).is_none(), "it is refused");
        assert_eq!(lease.lost().await, LossReason::Forced);
        assert!(!lease.is_held());
        let released = lease.release().await;
        assert!(
            matches!(released, Err(LockError::Lost { reason: LossReason::Forced, .. })),
            "{released:?}"
        );
    }
    stop.store(true, Ordering::SeqCst);
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
}

/// An operator writes to the resource with the token of the forced release. From then on the
/// resource refuses the former holder, even before there is a next one.
#[tokio::test]
async fn the_operators_token_fences_the_former_holder_off() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let store = Fenced::default();
    let lease = locks.mutex("a").lock().await.unwrap();
    let fence = lease.fence().unwrap();
    assert!(store.write(fence, 1));
    let Forced::Released { fence: moved, .. } = locks.force_release("a").await.unwrap() else {
        panic!("it is held");
    };
    assert_eq!(store.read(moved), Some(1));
    assert!(!store.write(fence, 2));
    let next = locks.mutex("a").try_lock().await.unwrap();
    assert!(store.write(next.fence().unwrap(), 3));
    next.release().await.unwrap();
    assert!(lease.release().await.is_err());
    assert_eq!(locks.force_release("b").await.unwrap(), Forced::NotHeld);
}

/// For each kind, the holder learns that it was forced, and the waiter is granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_is_forced() {
    let server = Server::start();
    let (locks, other) = (light_client(&server).await, light_client(&server).await);
    let ttl = Duration::from_millis(600);
    let held = [
        locks.mutex("mutex").ttl(ttl).lock().await.unwrap(),
        locks.reentrant_mutex("reentrant").owner("me").ttl(ttl).lock().await.unwrap(),
        locks.semaphore("semaphore", 1).ttl(ttl).acquire().await.unwrap(),
        locks.rw_lock("read").ttl(ttl).read().await.unwrap(),
        locks.rw_lock("write").ttl(ttl).write().await.unwrap(),
    ];
    let mut waiting = JoinSet::new();
    for name in ["mutex", "reentrant", "semaphore", "read", "write"] {
        let other = other.clone();
        waiting.spawn(async move {
            match name {
                "mutex" => other.mutex(name).wait(Wait::Forever).lock().await,
                "reentrant" => {
                    other.reentrant_mutex(name).owner("you").wait(Wait::Forever).lock().await
                }
                "semaphore" => other.semaphore(name, 1).wait(Wait::Forever).acquire().await,
                _ => other.rw_lock(name).wait(Wait::Forever).write().await,
            }
        });
    }
    for lease in &held {
        while locks.inspect(lease.key()).await.unwrap().waiting == 0 {
            tokio::task::yield_now().await;
        }
    }
    for lease in &held {
        let forced = locks.force_release(lease.key()).await.unwrap();
        assert!(matches!(forced, Forced::Released { held: 1, .. }), "{forced:?}");
    }
    while let Some(lease) = waiting.join_next().await {
        let lease = lease.unwrap().unwrap();
        assert!(lease.is_held());
        lease.release().await.unwrap();
    }
    for lease in held {
        assert_eq!(lease.lost().await, LossReason::Forced, "{lease:?}");
    }
}

/// Somebody deleted the record, and with it the token. No holder gets a token older than its own.
#[tokio::test]
async fn tokens_do_not_go_back_where_the_record_was_deleted() {
    let server = Server::start();
    let locks = light_client(&server).await;
    let (mine, also) = (locks.reentrant_mutex("a").owner("me"), locks.rw_lock("b").owner("me"));
    let outer = mine.lock().await.unwrap();
    let read = also.read().await.unwrap();
    let write = also.try_write().await.unwrap();
    let (token, written) = (outer.fence().unwrap(), write.fence().unwrap());
    write.release().await.unwrap();
    let mut redis = server.redis().await;
    redis::cmd("DEL").arg("leasehold:lock:{a}").exec_async(&mut redis).await.unwrap();
    redis::cmd("DEL").arg("leasehold:lock:{b}").exec_async(&mut redis).await.unwrap();
    let inner = mine.lock().await.unwrap();
    let fence = inner.fence().unwrap();
    assert!(fence > token);
    assert_eq!(
        mine.lock().await.unwrap().fence().unwrap(),
        fence,
        "it keeps this token from then on"
    );
    assert!(also.try_write().await.unwrap().fence().unwrap() > written);
    drop((outer, inner, read));
}

/// If one of a lock's keys is foreign, a forced release takes nothing and changes nothing.
#[tokio::test]
async fn a_foreign_key_is_not_forced_by_half() {
    let server = Server::start();
    let locks = light_client(&server).await;
    let mut redis = server.redis().await;
    for role in ["queue", "forced"] {
        let read = locks.rw_lock("a").read().await.unwrap();
        let key = format!("leasehold:{role}:{{a}}");
        redis::cmd("SET").arg(&key).arg("foreign").exec_async(&mut redis).await.unwrap();
        assert_eq!(locks.force_release("a").await.unwrap(), Forced::Foreign);
        let ends: i64 = redis::cmd("PTTL").arg(&key).query_async(&mut redis).await.unwrap();
        assert_eq!(ends, -1, "{role}");
        redis::cmd("DEL").arg(&key).exec_async(&mut redis).await.unwrap();
        assert_eq!(locks.inspect("a").await.unwrap().held, 1);
        read.release().await.unwrap();
    }
}
