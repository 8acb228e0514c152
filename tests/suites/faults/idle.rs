//! How long an idle lease may be taken up: for its own linger, and not after the store has
//! forgotten it.

use std::time::Duration;

use leasehold::{Locks, Released};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(30);

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(200);
const LITTLE: Duration = Duration::from_millis(50);

async fn held(locks: &Locks, name: &str) -> u64 {
    locks.inspect(name).await.unwrap().held
}

/// Neither a lease that lingers beside it nor the last use of the lock makes it linger for longer,
/// or for a shorter time.
#[tokio::test(start_paused = true)]
async fn each_lease_ends_after_its_own_linger() {
    for lingers in [[LONG, SHORT], [SHORT, LONG]] {
        let locks = Locks::in_memory();
        let mutex = locks.mutex("a").ttl(TTL);
        let permits = locks.semaphore("s", 2).ttl(TTL);
        let mut leases = Vec::new();
        for linger in lingers {
            let lease = mutex.clone().linger(linger).lock().await.unwrap();
            assert_eq!(lease.release().await.unwrap(), Released::Lingers);
            leases.push(permits.clone().linger(linger).acquire().await.unwrap());
        }
        for lease in leases {
            assert_eq!(lease.release().await.unwrap(), Released::Lingers);
        }
        let begun = Instant::now();
        assert_eq!((held(&locks, "a").await, held(&locks, "s").await), (1, 2), "{lingers:?}");
        sleep(SHORT + LITTLE).await;
        let is_short = u64::from(lingers[1] == SHORT);
        assert_eq!((held(&locks, "a").await, held(&locks, "s").await), (1 - is_short, 1));
        assert_eq!(begun.elapsed(), SHORT + LITTLE);
    }
}
