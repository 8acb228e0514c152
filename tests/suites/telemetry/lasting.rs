//! The gauges of the oldest hold and the longest wait, while these go on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use leasehold::{Locks, Mutex as Lock, Wait};
use leasehold_tests::backend::light_client;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::until;
use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    set_default_local_recorder,
};
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// What a scrape would show: each gauge by its name and labels.
#[derive(Clone, Default)]
struct Gauges(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

impl Recorder for Gauges {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let labels = key.labels().map(metrics::Label::value);
        let name = [key.name()].into_iter().chain(labels).collect::<Vec<_>>().join(" ");
        Gauge::from_arc(self.0.lock().unwrap().entry(name).or_default().clone())
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

impl Gauges {
    /// For how long the oldest hold had gone on when it was shown. The clock of these tests stands
    /// still while they do, and the wall clock hardly moves. `None` if nothing was ever shown.
    fn hold(&self, labels: &str) -> Option<u64> {
        self.since(OLDEST_HOLD, labels).map(lasted)
    }

    /// The same, of the longest wait.
    fn wait(&self, labels: &str) -> Option<u64> {
        self.since(LONGEST_WAIT, labels).map(lasted)
    }

    fn since(&self, name: &str, labels: &str) -> Option<f64> {
        let gauge = self.0.lock().unwrap().get(&format!("{name} {labels}"))?.clone();
        Some(f64::from_bits(gauge.load(Ordering::SeqCst)))
    }
}

const OLDEST_HOLD: &str = "leasehold_oldest_hold_since_seconds";
const LONGEST_WAIT: &str = "leasehold_longest_wait_since_seconds";

/// In whole seconds.
fn lasted(since: f64) -> u64 {
    if since == 0.0 {
        return NOTHING;
    }
    let since = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(since);
    (since.elapsed().unwrap_or_default() + SECOND / 2).as_secs()
}

/// The gauge says that nothing goes on.
const NOTHING: u64 = u64::MAX;

fn start() -> (Gauges, Locks, metrics::LocalRecorderGuard<'static>) {
    let gauges: &'static Gauges = Box::leak(Box::default());
    (gauges.clone(), Locks::in_memory(), set_default_local_recorder(gauges))
}

/// Waits in the background of the test, until it is dropped.
async fn wait_for<T>(time: Duration, acquiring: &mut (impl Future<Output = T> + Unpin)) {
    assert!(timeout(time, acquiring).await.is_err(), "it was acquired");
}

/// A short hold is never shown. The oldest of several that last is; after it the next oldest.
#[tokio::test(start_paused = true)]
async fn the_oldest_of_several_holds_is_shown_while_it_goes_on() {
    let (gauges, locks, _guard) = start();
    let of = "semaphore oldest hold";
    let seats = locks.semaphore("seats", 3).label("oldest hold").ttl(30 * SECOND);
    for _ in 0..3 {
        let short = seats.acquire().await.unwrap();
        sleep(9 * SECOND).await;
        short.release().await.unwrap();
    }
    assert_eq!(gauges.hold(of), None, "they were short");

    // A third of their TTLs is 20 s, 10 s and 10 s.
    let first = seats.clone().ttl(60 * SECOND).acquire().await.unwrap();
    sleep(11 * SECOND).await;
    let second = seats.acquire().await.unwrap();
    let third = seats.acquire().await.unwrap();
    sleep(8 * SECOND).await;
    assert_eq!(gauges.hold(of), None, "nobody has handled them");
    sleep(2 * SECOND).await;
    assert_eq!(gauges.hold(of), Some(20));
    sleep(2 * SECOND).await;
    assert_eq!(gauges.hold(of), Some(20), "the others are newer");
    third.release().await.unwrap();
    assert_eq!(gauges.hold(of), Some(20));
    first.release().await.unwrap();
    assert_eq!(gauges.hold(of), Some(10), "the next oldest");
    sleep(1000 * SECOND).await;
    assert_eq!(gauges.hold(of), Some(10), "it is shown once, and goes on");
    let _ = locks.force_release("seats").await.unwrap();
    second.lost().await;
    assert_eq!(gauges.hold(of), Some(NOTHING), "a loss ends a hold");
}

/// The keeper handles these leases late, or when they end.
#[tokio::test(start_paused = true)]
async fn a_hold_of_a_long_ttl_or_without_renewal_is_shown_at_once() {
    let (gauges, locks, _guard) = start();
    let long = locks.mutex("long").label("long ttl").ttl(91 * SECOND).lock().await.unwrap();
    assert_eq!(gauges.hold("mutex long ttl"), Some(0));
    drop(long);
    assert_eq!(gauges.hold("mutex long ttl"), Some(NOTHING));

    let unrenewed = locks.mutex("unrenewed").label("no renewal").auto_renew(false);
    let short = unrenewed.clone().ttl(30 * SECOND).lock().await.unwrap();
    sleep(20 * SECOND).await;
    short.release().await.unwrap();
    assert_eq!(gauges.hold("mutex no renewal"), None, "it could not last for 30 s");
    let long = unrenewed.ttl(31 * SECOND).lock().await.unwrap();
    assert_eq!(gauges.hold("mutex no renewal"), Some(0));
    long.lost().await;
    assert_eq!(gauges.hold("mutex no renewal"), Some(NOTHING));
}

/// A hold is the work of a holder, and not a lease that nobody uses.
#[tokio::test(start_paused = true)]
async fn an_idle_lease_is_no_hold() {
    let (gauges, locks, _guard) = start();
    let cart = locks.mutex("cart").label("idle lease").linger(600 * SECOND);
    cart.lock().await.unwrap().release().await.unwrap();
    sleep(60 * SECOND).await;
    assert_eq!(gauges.hold("mutex idle lease"), None);
    let used = cart.lock().await.unwrap();
    sleep(30 * SECOND).await;
    assert!(matches!(gauges.hold("mutex idle lease"), Some(1..=11)));
    used.release().await.unwrap();
    assert_eq!(gauges.hold("mutex idle lease"), Some(NOTHING));
    sleep(60 * SECOND).await;
    assert_eq!(gauges.hold("mutex idle lease"), Some(NOTHING));
}

/// A task that waits behind another of its process is shown after a second.
#[tokio::test(start_paused = true)]
async fn the_longest_of_several_waits_is_shown_while_it_goes_on() {
    let (gauges, locks, _guard) = start();
    let of = "mutex longest wait";
    let order: Lock = locks.mutex("order").label("longest wait").wait(Wait::Forever);
    let held = order.lock().await.unwrap();
    // It stands in the store's queue for all of them, and is not shown.
    let mut candidate = Box::pin(order.lead(|_| std::future::pending::<()>()));
    wait_for(SECOND, &mut candidate).await;
    let mut short = Box::pin(order.lock());
    wait_for(SECOND * 9 / 10, &mut short).await;
    drop(short);
    assert_eq!(gauges.wait(of), None, "it was short");

    let [mut first, mut second, mut third] = [(); 3].map(|()| Box::pin(order.lock()));
    wait_for(SECOND / 2, &mut first).await;
    assert_eq!(gauges.wait(of), None);
    wait_for(60 * SECOND, &mut first).await;
    assert_eq!(gauges.wait(of), Some(1));
    let of_first = gauges.since(LONGEST_WAIT, of);
    // Those that begin later are not shown while the first waits.
    wait_for(60 * SECOND, &mut second).await;
    wait_for(60 * SECOND, &mut third).await;
    assert_eq!(gauges.since(LONGEST_WAIT, of), of_first);
    drop(first);
    let of_second = gauges.since(LONGEST_WAIT, of);
    assert!(of_second > of_first, "{of_second:?}: the next longest");
    drop(third);
    assert_eq!(gauges.since(LONGEST_WAIT, of), of_second);
    drop(second);
    assert_eq!(gauges.wait(of), Some(NOTHING), "nobody waits");
    drop((candidate, held));
}

/// Behind a holder of another process it is shown as soon as the store has said so. A wait ends with
/// the patience of its caller, too.
#[tokio::test(start_paused = true)]
async fn a_wait_in_the_stores_queue_is_shown_at_once() {
    let (gauges, _, _guard) = start();
    let (locks, faults) = Locks::in_memory_with_faults();
    let other = Locks::over(faults.store().clone());
    let held = other.mutex("order").lock().await.unwrap();
    let order = locks.mutex("order").label("store's queue").wait(5 * SECOND);
    let of = "mutex store's queue";
    order.try_lock().await.unwrap_err();
    assert_eq!(gauges.wait(of), None, "a try does not wait");
    let mut waiting = Box::pin(order.lock());
    wait_for(SECOND / 10, &mut waiting).await;
    assert_eq!(gauges.wait(of), Some(0));
    waiting.await.unwrap_err();
    assert_eq!(gauges.wait(of), Some(NOTHING));
    // One that is dropped, and one that gets the lock.
    let mut waiting = Box::pin(order.lock());
    wait_for(SECOND, &mut waiting).await;
    assert_eq!(gauges.wait(of), Some(0));
    drop(waiting);
    assert_eq!(gauges.wait(of), Some(NOTHING));
    let (waited, released) = tokio::join!(order.lock(), async {
        sleep(SECOND).await;
        assert_eq!(gauges.wait(of), Some(0));
        held.release().await
    });
    released.unwrap();
    let granted = waited.unwrap();
    assert_eq!(gauges.wait(of), Some(NOTHING));
    // The keeper handles a lease at once that the store has offered.
    sleep(SECOND / 10).await;
    assert_eq!(gauges.hold(of), None, "it is new");
    drop(granted);
}

/// A candidate that waits while another leads, and a call that waits for its next tick, are no callers
/// that nobody lets in.
#[tokio::test(start_paused = true)]
async fn waits_that_are_as_they_should_be_are_not_shown() {
    let (gauges, locks, _guard) = start();
    let leader = locks.mutex("leader").label("candidate");
    let mut leads = Box::pin(leader.lead(|_| std::future::pending::<()>()));
    wait_for(SECOND, &mut leads).await;
    let mut follows = Box::pin(leader.lead(|_| std::future::pending::<()>()));
    let both = async { tokio::join!(&mut leads, &mut follows) };
    assert!(timeout(600 * SECOND, both).await.is_err());
    assert_eq!(gauges.wait("mutex candidate"), None);
    assert!(matches!(gauges.hold("mutex candidate"), Some(1..=11)), "the leader is a holder");

    let day = 24 * 60 * 60 * SECOND;
    let daily = locks.mutex("daily").label("tick").once_per(day).wait(Wait::Forever);
    let first = daily.lock().await.unwrap();
    let mut next = Box::pin(daily.lock());
    wait_for(5 * SECOND, &mut next).await;
    assert_eq!(gauges.wait("mutex tick"), Some(0), "it waits for the run of this tick");
    let ((), completed) = tokio::join!(wait_for(SECOND, &mut next), first.complete());
    completed.unwrap();
    assert_eq!(gauges.wait("mutex tick"), Some(NOTHING), "the tick is done");
}

/// The keeper's thread shows a hold, the caller's its wait, and a scrape sees both while they go on. All
/// threads of this process have these gauges; the other tests have their own.
#[tokio::test(flavor = "multi_thread")]
async fn a_scrape_sees_a_holder_that_hangs_and_a_caller_that_waits() {
    let gauges = Gauges::default();
    metrics::set_global_recorder(gauges.clone()).expect("no other test has set one");
    let server = Server::start();
    let (locks, other) = (light_client(&server).await, light_client(&server).await);
    let named = |locks: &Locks| locks.mutex("hangs").label("hangs").ttl(6 * SECOND);
    let now = || SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();

    let before = now();
    let lease = named(&locks).lock().await.unwrap();
    let granted = now();
    let patient = named(&other).wait(Wait::Forever);
    let waiting = tokio::spawn(async move { patient.lock().await });
    let since = |name| gauges.since(name, "mutex hangs").filter(|since| *since > 0.0);
    until("both are seen", async || since(OLDEST_HOLD).is_some() && since(LONGEST_WAIT).is_some())
        .await;
    let (hold, wait, seen) = (since(OLDEST_HOLD).unwrap(), since(LONGEST_WAIT).unwrap(), now());
    assert!(hold > before - 0.1 && hold < granted + 0.1, "{before} {hold} {granted}");
    assert!(wait > granted - 0.1 && wait < seen, "{granted} {wait} {seen}");

    lease.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert_eq!([since(OLDEST_HOLD), since(LONGEST_WAIT)], [None, None]);
    next.release().await.unwrap();
}
