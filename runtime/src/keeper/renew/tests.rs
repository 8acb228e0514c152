//! The keeper's renewals, on a store of the test's own.

use std::cell::RefCell;
use std::sync::atomic::AtomicU64;

use super::*;
use crate::core::error::Step;
use crate::core::key::LockKey;
use crate::core::options::Options;
use crate::state::lease::{Grant, GrantTimes, LeaseContext};
use crate::store::Request;
use crate::store::fault_injection::{Fault, FaultInjector};
use crate::store::memory::MemoryStore;
use crate::store::{Ask, ClientId, Kind, RequestId};

/// A lease of this name.
fn lease(
    context: &Arc<LeaseContext>,
    name: &str,
    ttl: Duration,
    times: GrantTimes,
    options: &Options,
) -> Arc<LocalLease> {
    let id = RequestId::next(ClientId::random(), &AtomicU64::new(0));
    let key = LockKey::new(name).unwrap();
    let request = Request { key, id, kind: Kind::Mutex, owner: None, note: None, ttl };
    let grant = Grant { request, fence: None, times, tick: None, place: None };
    Arc::new(LocalLease::new(context, grant, options))
}

/// It can be due before that, because a connection was lost.
#[tokio::test]
async fn a_last_run_is_replaced_when_its_tick_ends() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let context = Arc::new(LeaseContext { store: store.clone(), shutdown: Arc::default() });
    let ttl = Duration::from_secs(30);
    let tick_ends = store.now() + ttl / 3;
    let times = GrantTimes::by_command(store.now(), ttl);
    let times = GrantTimes { tick_ends: Some(tick_ends), ..times };
    let options = Options { replace: true, max_hold: Some(ttl), ..Options::default() };
    let local = lease(&context, "a", ttl, times, &options);
    assert!(local.is_final());
    let mut next = None;
    renew_due(&store, vec![local], |_, when| next = Some(when), |_| {}).await;
    assert_eq!(next, Some(tick_ends));
}

/// Its answer is there when the others' are not yet, and is all the time it has.
#[tokio::test(start_paused = true)]
async fn a_short_lease_does_not_wait_for_the_others_answers() {
    let faulty = Arc::new(FaultInjector::over(Arc::new(MemoryStore::default())));
    let store: Arc<dyn Store> = faulty.clone();
    let context = LeaseContext { store: store.clone(), shutdown: Arc::default() };
    let (context, mut due) = (Arc::new(context), Vec::new());
    for (name, ttl) in [("long", 30_000), ("short", 100), ("also long", 30_000)] {
        let ttl = Duration::from_millis(ttl);
        let times = GrantTimes::by_command(store.now(), ttl);
        let local = lease(&context, name, ttl, times, &Options::default());
        let _ = store.acquire(&local.request, None).await.unwrap();
        due.push(local);
    }
    let begun = store.now();
    // The shortest is asked for first.
    faulty.next(Some(Step::Renew), None);
    faulty.next(Some(Step::Renew), Some(Fault::Delay(Duration::from_millis(400))));
    let renewed = RefCell::new(Vec::new());
    let again = |local: &Arc<LocalLease>, _| {
        let key = local.request.key.name().to_owned();
        let took = store.now().saturating_duration_since(begun);
        renewed.borrow_mut().push((key, took.as_millis()));
    };
    renew_due(&store, due, again, |_| {}).await;
    let in_order = [("short", 0), ("long", 400), ("also long", 400)];
    assert_eq!(renewed.into_inner(), in_order.map(|(key, took)| (key.to_owned(), took)));
}
