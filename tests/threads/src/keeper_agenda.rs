//! The keeper's agenda: no ended lease stays in its timetable, and no job is overlooked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use shuttle::future::block_on;
use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use shuttle::thread;

use super::core::key::LockKey;
use super::core::options::Options;
use super::explore::{check, finds};
use super::keeper::jobs::Jobs;
use super::keeper::state::{JobGuard, KeeperState};
use super::keeper::timetable::slot_of;
use super::state::lease::{Grant, GrantTimes, LeaseContext, LocalLease};
use super::store::memory::MemoryStore;
use super::store::{ClientId, Kind, Request, RequestId};
use super::system::now;

const TTL: Duration = Duration::from_secs(30);

fn keeper() -> Arc<KeeperState> {
    let store = Arc::new(MemoryStore::default());
    Arc::new(KeeperState::new(Jobs::new(store)))
}

fn lease(keeper: &KeeperState, sent: Instant) -> Arc<LocalLease> {
    let id = RequestId::next(ClientId::random(), &AtomicU64::new(0));
    let key = LockKey::new("a").unwrap();
    let request = Request { key, id, kind: Kind::Mutex, owner: None, note: None, ttl: TTL };
    let grant = Grant::new(request, 1, GrantTimes::by_command(sent, TTL));
    let (store, shutdown) = (keeper.jobs.store.clone(), keeper.jobs.shutdown.clone());
    let context = Arc::new(LeaseContext { store, shutdown });
    Arc::new(LocalLease::new(&context, grant, &Options::default()))
}

/// A lease is handed over, with its place, and then released, while the keeper renews both.
fn an_ended_lease_leaves_the_timetable() {
    let (keeper, sent) = (keeper(), now());
    let (first, next) = (lease(&keeper, sent), lease(&keeper, sent));
    let ids = [first.request.id, next.request.id];
    let when = sent + TTL / 3;
    keeper.schedule(&first, when, None);
    let renewing = {
        let keeper = keeper.clone();
        thread::spawn(move || {
            for later in 1..3 {
                let due = keeper.agenda().timetable.due(when + later * TTL, 2);
                for local in due {
                    keeper.schedule(&local, when + later * TTL, None);
                }
            }
        })
    };
    assert!(first.begin_release(sent));
    let place = slot_of(&first).take();
    if place.is_none() {
        keeper.unschedule(&first);
    }
    keeper.schedule(&next, when, place);
    assert!(next.begin_release(sent));
    keeper.unschedule(&next);
    renewing.join().unwrap();
    for id in ids {
        assert!(keeper.find(id).is_none(), "an ended lease is left");
    }
}

/// A drain waits for the jobs that are there, and the keeper's thread takes all.
fn a_drain_ends_with_its_jobs() {
    let keeper = keeper();
    let work = {
        let keeper = keeper.clone();
        thread::spawn(move || {
            loop {
                let jobs = keeper.agenda().take_jobs();
                for (id, job) in jobs {
                    let _done = JobGuard { shared: keeper.clone(), id };
                    block_on(job);
                }
                if keeper.agenda().is_over() {
                    return;
                }
                block_on(keeper.changed.notified());
            }
        })
    };
    let other = {
        let keeper = keeper.clone();
        thread::spawn(move || keeper.push(Box::pin(async {})))
    };
    let is_done = Arc::<AtomicBool>::default();
    {
        let is_done = is_done.clone();
        keeper.push(Box::pin(async move { is_done.store(true, Ordering::SeqCst) }));
    }
    // Here its time limit never ends.
    assert!(keeper.drain(keeper.last_job(), Duration::MAX));
    assert!(is_done.load(Ordering::SeqCst), "it did not wait for the job");
    other.join().unwrap();
    keeper.end();
    work.join().unwrap();
}

#[test]
fn no_ended_lease_is_left() {
    check(an_ended_lease_leaves_the_timetable);
}

#[test]
fn jobs_are_done_and_waited_for() {
    check(a_drain_ends_with_its_jobs);
}

#[test]
fn an_ended_lease_that_is_put_back_is_found() {
    let mistake = "a renewed lease is put back although its holder has ended it";
    finds(mistake, "is left", an_ended_lease_leaves_the_timetable);
}

#[test]
fn an_ended_lease_that_is_overlooked_is_found() {
    let mistake = "a lease's slot is read before the timetable is locked";
    finds(mistake, "is left", an_ended_lease_leaves_the_timetable);
}

#[test]
fn a_job_that_nobody_takes_is_found() {
    let mistake = "the keeper is woken before its job is there";
    finds(mistake, "deadlock", a_drain_ends_with_its_jobs);
}

#[test]
fn an_end_of_a_job_that_is_not_heard_is_found() {
    let mistake = "the end of a job is told before it is noted";
    finds(mistake, "deadlock", a_drain_ends_with_its_jobs);
}
