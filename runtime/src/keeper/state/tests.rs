//! The keeper's timetable and its jobs, without a thread.

use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Waker};

use super::*;
use crate::core::key::LockKey;
use crate::core::options::Options;
use crate::state::lease::{Grant, GrantTimes, LeaseContext};
use crate::store::memory::MemoryStore;
use crate::store::{ClientId, Kind, Request, RequestId};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn state() -> (KeeperState, impl Fn() -> Arc<LocalLease>) {
    let store = Arc::new(MemoryStore::default());
    let shared = KeeperState::new(Jobs::new(store));
    let (store, shutdown) = (shared.jobs.store.clone(), shared.jobs.shutdown.clone());
    let context = Arc::new(LeaseContext { store, shutdown });
    let local = move || {
        let id = RequestId::next(ClientId::random(), &AtomicU64::new(0));
        let (key, ttl) = (LockKey::new("a").unwrap(), Duration::from_secs(30));
        let request = Request { key, id, kind: Kind::Mutex, owner: None, note: None, ttl };
        let times = GrantTimes::by_command(Instant::now(), ttl);
        let grant = Grant { request, fence: None, times, tick: None, place: None };
        Arc::new(LocalLease::new(&context, grant, &Options::default()))
    };
    (shared, local)
}

/// The next lease of a turn has the place of the last. A lease that is due at another time has
/// its own, and then nobody has the old one.
#[test]
fn a_lease_takes_the_place_that_was_left_to_it() {
    let (shared, local) = state();
    let in_table = || -> Vec<_> {
        let in_table = shared.agenda().timetable.due(Instant::now() + DAY, 100);
        in_table.iter().map(|local| local.request.id).collect()
    };
    let slot_of = |local: &LocalLease| slot_of(local).take().unwrap();
    let when = Instant::now();

    let (first, next) = (local(), local());
    shared.schedule(&first, when, None);
    let place = slot_of(&first);
    assert!(first.begin_release(when));
    shared.schedule(&next, when, Some(place));
    assert_eq!(slot_of(&next), place);
    assert_eq!(in_table(), [next.request.id]);

    let (first, later) = (local(), local());
    shared.schedule(&first, when, None);
    shared.schedule(&later, when + Duration::from_secs(1), Some(slot_of(&first)));
    assert_eq!(in_table(), [later.request.id]);

    // The keeper has just looked at the place: it is gone.
    let late = local();
    shared.schedule(&late, when, Some(place));
    assert_eq!(in_table(), [late.request.id]);

    let first = local();
    shared.schedule(&first, when, None);
    shared.give_up(slot_of(&first));
    assert_eq!(in_table(), []);
}

/// The places of a turn that goes on stay where they are: its next lease looks for its place there.
#[test]
fn a_lost_connection_brings_all_renewals_forward() {
    let (shared, local) = state();
    let (now, later) = (Instant::now(), Instant::now() + DAY);
    let [soon, one, other, ended] = [(); 4].map(|()| local());
    shared.schedule(&soon, now, None);
    for local in [&one, &other, &ended] {
        shared.schedule(local, later, None);
    }
    let place = slot_of(&ended).take().unwrap();
    assert!(ended.begin_release(now));
    let before = *slot_of(&soon);

    shared.renew_soon();
    assert_eq!(*slot_of(&soon), before);
    let slots = [&one, &other].map(|local| slot_of(local).unwrap());
    assert!(slots.iter().all(|slot| slot.0 <= Instant::now() + SOON), "{slots:?}");
    assert_eq!(shared.agenda().timetable.due(now + 2 * SOON, 100).len(), 3);
    shared.schedule(&local(), later, Some(place));
    assert_eq!(shared.agenda().timetable.len(), 1, "the place was there");
    assert!(
        pin!(shared.changed.notified())
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    );
}

/// One that is handed over or whose answer arrives just then is renewed as soon, once.
#[test]
fn what_is_known_from_before_a_lost_connection_is_renewed_soon() {
    let (shared, local) = state();
    let later = Instant::now() + DAY;
    let [holder, next, late] = [(); 3].map(|()| local());
    shared.schedule(&holder, later, None);
    let place = slot_of(&holder).take().unwrap();
    assert!(holder.begin_release(Instant::now()));

    shared.renew_soon();
    shared.schedule(&next, later, Some(place));
    shared.schedule(&late, later, None);
    let due = |local: &LocalLease| slot_of(local).unwrap().0;
    assert!([&next, &late].iter().all(|local| due(local) <= Instant::now() + SOON));
    assert_eq!(shared.agenda().timetable.len(), 2, "nobody has the old place");

    late.extend(Instant::now(), late.request.ttl);
    shared.schedule(&late, later, None);
    assert_eq!(due(&late), later, "it is confirmed");
}

#[test]
fn an_earlier_event_wakes_the_keeper() {
    let (shared, local) = state();
    let wakes = |when| {
        shared.schedule(&local(), when, None);
        let woken = pin!(shared.changed.notified());
        woken.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    };
    let at = |seconds| Instant::now() + Duration::from_secs(seconds);
    assert!(wakes(at(10)), "it has nothing to wait for");
    assert!(!wakes(at(20)));
    assert!(wakes(at(5)));
    assert!(shared.agenda().timetable.next(false).is_some());
    assert!(!wakes(at(6)));
    assert!(shared.agenda().timetable.next(true).is_none(), "it waits for something else");
    assert!(wakes(at(30)), "and what it does then is not known");
}

/// Two jobs, and the number of the first.
fn two_jobs() -> (Arc<KeeperState>, [JobId; 2]) {
    let shared = Arc::new(KeeperState::new(Jobs::new(Arc::new(MemoryStore::default()))));
    shared.push(Box::pin(async {}));
    shared.push(Box::pin(async {}));
    let jobs = shared.agenda().take_jobs();
    let [first, second] = [0, 1].map(|at: usize| jobs[at].0);
    (shared, [first, second])
}

#[test]
fn a_drain_does_not_wait_for_later_jobs() {
    let (shared, [first, second]) = two_jobs();
    assert!(!shared.drain(first, Duration::ZERO));
    drop(JobGuard { shared: shared.clone(), id: first });
    assert!(shared.drain(first, Duration::from_secs(60)));
    assert!(!shared.drain(second, Duration::ZERO));
}

#[test]
fn nobody_waits_twice_for_the_same_job_in_vain() {
    let (shared, [first, second]) = two_jobs();
    shared.give_up_jobs(first);
    assert!(shared.drain(first, Duration::from_secs(60)));
    assert!(!shared.drain(second, Duration::ZERO), "this one has not been waited for");
    assert_eq!(shared.tell(), Some(first));
    shared.give_up_jobs(first);
    assert_eq!(shared.tell(), None, "it has been told");
    shared.take_up(first);
    assert!(!shared.drain(first, Duration::ZERO), "a moment later it is waited for again");

    shared.note_shutdown();
    assert!(shared.drain(second, Duration::from_secs(60)), "the shutdown has waited");
    shared.give_up_jobs(second);
    assert_eq!(shared.tell(), None, "and has told it");
    shared.take_up(second);
    assert!(shared.drain(second, Duration::from_secs(60)), "for good");
}

#[test]
fn a_thread_that_has_ended_takes_no_jobs() {
    let (shared, [_, second]) = two_jobs();
    shared.close();
    let is_dropped = Arc::new(());
    let job = is_dropped.clone();
    shared.push(Box::pin(async move { drop(job) }));
    assert_eq!(Arc::strong_count(&is_dropped), 1);
    assert!(shared.drain(second, Duration::from_secs(60)));
    drop(JobGuard { shared: shared.clone(), id: second });
}
