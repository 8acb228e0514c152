//! A lease's phase: it is left once, by whoever comes first, and the shutdown counts it out once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use shuttle::future::block_on;
use shuttle::sync::atomic::AtomicU64;
use shuttle::thread;

use super::core::error::LossReason;
use super::core::key::LockKey;
use super::core::options::Options;
use super::explore::{check, finds};
use super::state::lease::{Grant, GrantTimes, LeaseContext, LocalLease};
use super::state::shutdown::Shutdown;
use super::store::memory::MemoryStore;
use super::store::{ClientId, Kind, Request, RequestId, Store};
use super::system::now;

const TTL: Duration = Duration::from_secs(10);

/// A lease of a client whose shutdown has begun.
fn lease(sent: Instant) -> (Arc<LocalLease>, Arc<Shutdown>) {
    let id = RequestId::next(ClientId::random(), &AtomicU64::new(0));
    let key = LockKey::new("a").unwrap();
    let request = Request { key, id, kind: Kind::Mutex, owner: None, note: None, ttl: TTL };
    let times = GrantTimes::by_command(sent, TTL);
    let shutdown = Arc::<Shutdown>::default();
    shutdown.begin();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let context = Arc::new(LeaseContext { store, shutdown: shutdown.clone() });
    let options = Options { ttl: TTL, ..Options::default() };
    let local = LocalLease::new(&context, Grant::new(request, 1, times), &options);
    (Arc::new(local), shutdown)
}

/// Looks again and again. What was seen stays.
fn observe(local: &LocalLease) {
    let (mut was_held, mut loss) = (true, None);
    for _ in 0..3 {
        let is_held = local.is_held();
        assert!(was_held || !is_held, "it came back");
        was_held = is_held;
        let seen = local.loss();
        assert!(loss.is_none() || loss == seen, "it was lost in another way: {loss:?}, {seen:?}");
        loss = seen;
        assert!(!(local.has_ended() && seen.is_some()), "it was released, and lost by {seen:?}");
    }
}

/// Its holder releases it, and the store says that it is gone.
fn a_lease_ends_in_one_way() {
    let sent = now();
    let (local, shutdown) = lease(sent);
    let spawn = |work: fn(&LocalLease, Instant) -> bool| {
        let local = local.clone();
        thread::spawn(move || work(&local, sent))
    };
    let released = spawn(|local, sent| {
        let has_begun = local.begin_release(sent);
        local.count_out(has_begun);
        has_begun
    });
    let gone = spawn(|local, _| {
        let was_held = local.mark_not_held(LossReason::Taken);
        local.lose(LossReason::Forced);
        was_held
    });
    let observer = spawn(|local, _| {
        observe(local);
        true
    });
    let listener = spawn(|local, _| {
        block_on(local.until_not_held());
        local.is_held()
    });
    let (released, gone) = (released.join().unwrap(), gone.join().unwrap());
    observer.join().unwrap();
    assert!(!listener.join().unwrap(), "it was said to have ended");
    assert!(released != gone, "it left `held` twice, or not at all");
    let loss = gone.then_some(LossReason::Forced);
    assert_eq!((local.loss(), local.has_ended()), (loss, released), "the loss, the release");
    let report = shutdown.report();
    assert_eq!((report.released, report.left), (released.into(), 0), "released, left");
}

/// Its deadline passes, and the shutdown ends its time, while its holder releases it: all who look
/// may notice.
fn a_lease_that_is_over_ends_in_one_way() {
    let sent = now().checked_sub(2 * TTL).expect("the machine is up for longer");
    let (local, shutdown) = lease(sent);
    let holder = {
        let local = local.clone();
        thread::spawn(move || {
            // Its clock was read in time.
            let has_begun = local.begin_release(sent);
            local.count_out(has_begun);
            has_begun
        })
    };
    let observer = {
        let local = local.clone();
        thread::spawn(move || observe(&local))
    };
    shutdown.end();
    observe(&local);
    observer.join().unwrap();
    let released = holder.join().unwrap();
    assert_eq!(local.loss().is_none(), released, "the release counts or the loss");
    let report = shutdown.report();
    assert_eq!((report.released, report.left), (released.into(), 0), "released, left");
}

#[test]
fn a_lease_leaves_held_once() {
    check(a_lease_ends_in_one_way);
}

#[test]
fn a_lease_that_is_over_leaves_held_once() {
    check(a_lease_that_is_over_ends_in_one_way);
}

#[test]
fn a_lease_with_two_ends_is_found() {
    let mistake = "a lease looks at its phase before it changes it";
    finds(mistake, "it ", a_lease_ends_in_one_way);
    finds(mistake, "it ", a_lease_that_is_over_ends_in_one_way);
}

#[test]
fn a_lease_that_is_counted_out_twice_is_found() {
    let mistake = "a lease looks whether it was counted out before it notes it";
    finds(mistake, "counted out twice", a_lease_ends_in_one_way);
}

#[test]
fn an_end_of_a_lease_that_is_not_heard_is_found() {
    let mistake = "a lease is looked at before it is listened to";
    finds(mistake, "deadlock", a_lease_ends_in_one_way);
}
