//! The attribute and the layer on a quorum.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use leasehold::{LeaseHandle, LockError, LockLayer, QuorumLocks, distributed_lock};
use leasehold_tests::members::Members;
use tower::{Layer, ServiceExt};

use super::LONG;

fn members() -> Members {
    Members::start(3, LONG, Duration::ZERO)
}

#[distributed_lock(key = "order:{id}", locks = locks, wait = "0s", lease = lease)]
async fn order(locks: &QuorumLocks, id: u64) -> Result<u64, LockError> {
    Ok(lease.fence()?.into())
}

#[distributed_lock(key = "catalogue", locks = locks, mode = "read", wait = "0s")]
async fn look(locks: &QuorumLocks) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_attribute_locks_on_a_quorum() {
    let members = members();
    let (locks, other) = (members.locks(), members.locks());
    let first = order(&locks, 42).await.unwrap();
    assert!(order(&other, 42).await.unwrap() > first);
    let _held = other.mutex("order:42").lock().await.unwrap();
    assert!(order(&locks, 42).await.unwrap_err().is_held_by_another());
    let _read = other.rw_lock("catalogue").read().await.unwrap();
    look(&locks).await.unwrap();
    members.member(0).kill();
    members.member(1).kill();
    let error = look(&locks).await.unwrap_err();
    assert!(matches!(error, LockError::Quorum { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_layer_locks_on_a_quorum() {
    let members = members();
    let locks = members.locks();
    let service = || {
        tower::service_fn(|_: Request<()>| async {
            assert!(LeaseHandle::current().is_some());
            Ok::<_, Infallible>(Response::new(String::new()))
        })
    };
    let ask = || Request::put("/").body(()).unwrap();
    for layer in [LockLayer::mutex(&locks, "a"), LockLayer::rw_lock(&locks, "r")] {
        let answer = layer.layer(service()).oneshot(ask()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
    }
    let _held = members.locks().mutex("a").lock().await.unwrap();
    let layer = LockLayer::mutex(&locks, "a");
    let answer = layer.clone().layer(service()).oneshot(ask()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    members.member(0).kill();
    members.member(1).kill();
    let answer = layer.layer(service()).oneshot(ask()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
}

/// A leader is stopped without a majority, and another leads once there is one again.
#[tokio::test(start_paused = true)]
async fn a_leader_needs_a_majority() {
    let members = members();
    let leading = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let (locks, leading) = (members.locks(), leading.clone());
        tokio::spawn(async move {
            let work = |_| {
                let count = Count::up(&leading);
                async move {
                    let _count = count;
                    std::future::pending::<()>().await;
                }
            };
            locks.lead("leader", work).await
        });
    }
    let until = async |count| {
        while leading.load(Ordering::Relaxed) != count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    for _ in 0..3 {
        until(1).await;
        members.member(0).freeze();
        members.member(2).kill();
        until(0).await;
        members.member(0).thaw();
    }
    until(1).await;
}

/// Counts the leaders. There is never more than one.
struct Count(Arc<AtomicUsize>);

impl Count {
    fn up(count: &Arc<AtomicUsize>) -> Self {
        assert_eq!(count.fetch_add(1, Ordering::Relaxed), 0, "two lead");
        Self(count.clone())
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
