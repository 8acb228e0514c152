use std::sync::atomic::AtomicU64;

use super::*;
use crate::core::key::LockKey;
use crate::store::memory::MemoryStore;
use crate::store::{ClientId, Kind, RequestId, Store};

fn local() -> LocalLease {
    local_with(Options::default())
}

fn local_with(options: Options) -> LocalLease {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let request = Request {
        key: LockKey::new("a").unwrap(),
        id: RequestId::next(ClientId::random(), &AtomicU64::new(0)),
        kind: Kind::Mutex,
        owner: None,
        note: None,
        ttl: Duration::from_secs(10),
    };
    let (sent, ttl) = (store.now(), request.ttl);
    let times = GrantTimes::by_command(sent, ttl);
    let context = Arc::new(LeaseContext { store, shutdown: Arc::default() });
    let grant = Grant { request, fence: None, times, tick: None, place: None };
    LocalLease::new(&context, grant, &Options { ttl, ..options })
}

#[tokio::test(start_paused = true)]
async fn the_deadline_is_before_the_servers() {
    let local = local();
    assert_eq!(local.remaining(), Duration::from_millis(9_898));
}

#[tokio::test(start_paused = true)]
async fn a_late_renewal_does_not_bring_it_back() {
    let local = local();
    let sent = local.context.store.now();
    tokio::time::advance(Duration::from_secs(10)).await;
    local.extend(sent + Duration::from_secs(5), Duration::from_secs(10));
    assert!(!local.is_held());
    assert_eq!(local.lost().await, LossReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn loss_resolves_at_the_deadline_without_the_store() {
    let local = local();
    let before = tokio::time::Instant::now();
    assert_eq!(local.lost().await, LossReason::Expired);
    let waited = before.elapsed();
    assert!((9_898..=9_900).contains(&waited.as_millis()), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_vanished_lease_is_not_held_and_is_lost_at_its_deadline_at_the_latest() {
    let (local, gone) = (local(), local());
    assert!(local.mark_not_held(LossReason::Taken) && !local.mark_not_held(LossReason::Taken));
    assert!(!local.is_held() && local.loss().is_none());
    local.lose(LossReason::Forced);
    assert_eq!(local.lost().await, LossReason::Forced);
    assert!(gone.mark_not_held(LossReason::Taken));
    let before = tokio::time::Instant::now();
    assert_eq!(gone.lost().await, LossReason::Taken);
    assert!(before.elapsed().as_millis() >= 9_898);
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_never_lost() {
    let local = local();
    assert!(local.begin_release(local.context.store.now()));
    let lost = tokio::time::timeout(Duration::from_secs(60), local.lost()).await;
    assert!(lost.is_err());
    assert!(!local.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_replaced_lease_is_counted_until_the_store_has_it_no_more() {
    let left = |local: &LocalLease| local.context.shutdown.report().left;
    let [released, vanished, expired] = [local(), local(), local()];
    for local in [&released, &vanished, &expired] {
        local.lose(LossReason::Replaced);
        assert!(local.is_stopping());
        assert_eq!(left(local), 1);
    }
    released.count_out(true);
    assert!(!vanished.mark_not_held(LossReason::Gone), "its loss is final");
    assert_eq!((left(&released), left(&vanished)), (0, 0));
    // After a shutdown, nobody renews it.
    expired.context.shutdown.end();
    assert!(!expired.is_stopping());
    assert_eq!((left(&expired), expired.loss()), (1, Some(LossReason::Replaced)));
}
