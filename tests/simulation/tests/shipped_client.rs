//! The shipped client in a simulated world: nothing of it but `system` knows.

use std::time::Duration;

use leasehold::system::simulation::enter;
use leasehold::{LockError, Locks, Wait};
use leasehold_simulation::network::Network;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::Instant;

/// Runs a test on a thread of its own world.
fn in_a_world<F: Future<Output = ()>>(test: impl FnOnce(std::rc::Rc<Network>) -> F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    LocalSet::new().block_on(&runtime.expect("a runtime"), async {
        fastrand::seed(7);
        let network = Network::start(7);
        enter(Some(network.clone()));
        test(network).await;
        enter(None);
    });
}

async fn client() -> Locks {
    Locks::connect("redis://10.0.0.1:6379").await.expect("the server is there")
}

#[test]
fn locks_exclude_each_other_and_are_handed_over() {
    in_a_world(async |network| {
        let (one, other) = (client().await, client().await);
        let held = one.mutex("a").ttl(Duration::from_secs(1)).lock().await.unwrap();
        let busy = other.mutex("a").try_lock().await;
        assert!(matches!(busy, Err(LockError::Busy { .. })), "{busy:?}");
        let (first, begun) = (held.fence().unwrap(), Instant::now());
        let waiting = spawn_local(async move {
            other.mutex("a").wait(Wait::Forever).lock().await.map(|lease| lease.fence().unwrap())
        });
        // Renewals keep it for far longer than its TTL.
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(held.is_held() && !waiting.is_finished());
        held.release().await.unwrap();
        assert!(waiting.await.unwrap().unwrap() > first);
        let took = begun.elapsed().saturating_sub(Duration::from_secs(30));
        assert!(took < Duration::from_millis(5), "{took:?}");
        let now_ms = network.server().borrow().core().borrow().now_us / 1000;
        let core = network.server().borrow();
        let core = core.core().borrow();
        let keys: Vec<_> = core.databases.values().flat_map(|keys| keys.live(now_ms)).collect();
        assert!(!keys.is_empty());
        for (key, entry) in keys {
            assert!(entry.expires_ms.is_some(), "{}", String::from_utf8_lossy(key));
        }
    });
}

/// A day of renewals takes a moment: the world's time is its own.
#[test]
fn a_day_goes_by_at_once() {
    in_a_world(async |_| {
        let held = client().await.mutex("a").ttl(Duration::from_secs(3600)).lock().await.unwrap();
        tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
        assert!(held.is_held());
        held.release().await.unwrap();
    });
}
