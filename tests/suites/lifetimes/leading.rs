//! Leader election: `lead`.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::store::fault_injection::FaultInjector;
use leasehold::{Fault, Fence, LeaseHandle, LockError, Locks};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::{SECOND, TTL, another};

/// The current leader, as the work sees it.
#[derive(Default)]
pub(super) struct Seen {
    now: AtomicU32,
    most: AtomicU32,
    terms: std::sync::Mutex<Vec<(u32, Fence)>>,
}

pub(super) struct Leading(Arc<Seen>);

impl Leading {
    pub(super) fn begin(seen: &Arc<Seen>, who: u32, lease: &LeaseHandle) -> Self {
        let now = seen.now.fetch_add(1, Ordering::SeqCst) + 1;
        seen.most.fetch_max(now, Ordering::SeqCst);
        seen.terms.lock().unwrap().push((who, lease.fence().unwrap()));
        Self(seen.clone())
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Seen {
    /// The leaders in order. Checks that the tokens grew, and that no two led at once.
    pub(super) fn leaders(&self) -> Vec<u32> {
        let terms = self.terms.lock().unwrap();
        assert!(terms.is_sorted_by_key(|(_, fence)| *fence), "{terms:?}");
        assert_eq!(self.most.load(Ordering::SeqCst), 1);
        terms.iter().map(|(who, _)| *who).collect()
    }
}

/// Campaigns, and leads until it is stopped.
fn candidate(locks: &Locks, who: u32, seen: &Arc<Seen>) -> JoinHandle<Result<(), LockError>> {
    let (mutex, seen) = (locks.mutex("leader").ttl(TTL), seen.clone());
    tokio::spawn(async move {
        mutex
            .lead(|lease| {
                let leading = Leading::begin(&seen, who, &lease);
                async move {
                    pending::<()>().await;
                    drop(leading);
                }
            })
            .await
    })
}

#[tokio::test(start_paused = true)]
async fn a_cut_off_leader_is_replaced_and_never_two_lead() {
    let (first, faults) = Locks::in_memory_with_faults();
    let (seen, second) = (Arc::<Seen>::default(), another(faults.store()));
    // Only the first candidate's commands are lost.
    let cut_off = Arc::new(FaultInjector::over(faults.store().clone()));
    let lost = another(&cut_off);
    drop(first);
    let one = candidate(&lost, 1, &seen);
    sleep(SECOND).await;
    let two = candidate(&second, 2, &seen);
    sleep(TTL * 3).await;
    assert_eq!(seen.leaders(), [1], "it is renewed");
    cut_off.always(None, Fault::LoseCommand);
    sleep(TTL * 2).await;
    assert_eq!(seen.leaders(), [1, 2]);
    cut_off.heal(None);
    sleep(TTL).await;
    assert_eq!(seen.leaders(), [1, 2], "the first one campaigns, and waits");
    two.abort();
    sleep(SECOND).await;
    assert_eq!(seen.leaders(), [1, 2, 1], "it leads again when the other is gone");
    one.abort();
}

#[tokio::test(start_paused = true)]
async fn the_future_is_dropped_before_it_campaigns_again() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let seen = Arc::<Seen>::default();
    let leader = candidate(&locks, 1, &seen);
    for _ in 0..5 {
        sleep(TTL).await;
        let _ = another(faults.store()).force_release("leader").await.unwrap();
    }
    sleep(TTL).await;
    assert_eq!(seen.leaders(), [1; 6]);
    leader.abort();
}

#[tokio::test(start_paused = true)]
async fn max_hold_lets_each_candidate_lead_in_turn() {
    let (_locks, faults) = Locks::in_memory_with_faults();
    let seen = Arc::<Seen>::default();
    let candidates: Vec<_> = (1..=3)
        .map(|who| {
            let (mutex, seen) = (another(faults.store()).mutex("leader"), seen.clone());
            let mutex = mutex.ttl(TTL).max_hold(TTL * 2);
            tokio::spawn(async move {
                let lead = mutex.lead(|lease| {
                    let leading = Leading::begin(&seen, who, &lease);
                    async move {
                        pending::<()>().await;
                        drop(leading);
                    }
                });
                lead.await
            })
        })
        .collect();
    sleep(TTL * 13).await;
    let leaders = seen.leaders();
    assert!(leaders.len() >= 6, "{leaders:?}");
    assert!(leaders.windows(3).all(|turn| turn.iter().sum::<u32>() == 6), "{leaders:?}");
    candidates.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn finished_work_returns_its_result_and_frees_the_lock() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let led = locks.lead("leader", async |lease| {
        assert_eq!(LeaseHandle::current().unwrap().key(), lease.key());
        sleep(TTL).await;
        7
    });
    assert_eq!(led.await.unwrap(), 7);
    assert!(another(faults.store()).mutex("leader").try_lock().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_leader_steps_down_when_its_client_is_shut_down() {
    let (first, faults) = Locks::in_memory_with_faults();
    let (seen, second) = (Arc::<Seen>::default(), another(faults.store()));
    let one = candidate(&first, 1, &seen);
    sleep(SECOND).await;
    let two = candidate(&second, 2, &seen);
    sleep(SECOND).await;
    let begun = Instant::now();
    let report = first.shutdown().await;
    assert_eq!(begun.elapsed(), Duration::ZERO, "it steps down at once");
    assert_eq!((report.released, report.left), (1, 0));
    assert!(matches!(one.await.unwrap(), Err(LockError::ShutDown)));
    sleep(SECOND).await;
    assert_eq!(seen.leaders(), [1, 2], "the next one did not wait for a TTL");
    two.abort();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_panics_or_is_dropped_leaves_nothing() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let other = another(faults.store());
    let panicked = {
        let locks = locks.clone();
        tokio::spawn(
            async move { locks.lead("leader", async |_| -> () { panic!("on purpose") }).await },
        )
    };
    assert!(panicked.await.unwrap_err().is_panic());
    assert!(other.mutex("leader").try_lock().await.is_ok());
    let dropped = candidate(&locks, 1, &Arc::default());
    sleep(SECOND).await;
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    assert!(other.mutex("leader").try_lock().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_ends_no_campaign() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let seen = Arc::<Seen>::default();
    faults.always(Fault::LoseCommand);
    let leader = candidate(&locks, 1, &seen);
    sleep(TTL * 10).await;
    assert!(!leader.is_finished());
    faults.heal();
    sleep(TTL).await;
    assert_eq!(seen.leaders(), [1]);
    leader.abort();
}

#[tokio::test]
async fn an_invalid_request_ends_the_campaign() {
    let locks = Locks::in_memory();
    let refused = locks.lead("", async |_| ()).await;
    assert!(matches!(refused, Err(LockError::InvalidKey { .. })), "{refused:?}");
    let _permit = locks.semaphore("other", 1).acquire().await.unwrap();
    let refused = locks.lead("other", async |_| ()).await;
    assert!(matches!(refused, Err(LockError::WrongKind { .. })), "{refused:?}");
}

/// Those that campaign do not replace the leader.
#[tokio::test(start_paused = true)]
async fn a_leader_is_not_replaced() {
    let (first, faults) = Locks::in_memory_with_faults();
    let second = Locks::over(faults.store().clone());
    let terms = std::cell::Cell::new(0);
    let lead = async |locks: &Locks| {
        let leader = locks.mutex("leader").replace(true);
        leader
            .lead(|_| async {
                terms.set(terms.get() + 1);
                std::future::pending::<()>().await;
            })
            .await
    };
    let both = async { tokio::join!(lead(&first), lead(&second)) };
    let minute = std::time::Duration::from_secs(60);
    let _ = tokio::time::timeout(minute, both).await.unwrap_err();
    assert_eq!(terms.get(), 1);
}
