//! Shutdown's counts: whoever waits is woken, and not before nothing is left.

use std::sync::Arc;

use shuttle::future::block_on;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;

use super::explore::{check, finds};
use super::state::shutdown::{AcquiringGuard, ActivityGuard, Shutdown};

const LEASES: usize = 2;

/// Leases that end after the shutdown has begun, some of them with work in the background.
fn every_release_is_waited_for_and_reported() {
    let shutdown = Arc::<Shutdown>::default();
    let holders = (0..LEASES).map(|number| {
        shutdown.lease_begins();
        let shutdown = shutdown.clone();
        thread::spawn(move || {
            block_on(shutdown.begun());
            let release = (number > 0).then(|| ActivityGuard::new(&shutdown));
            shutdown.lease_ends(true);
            drop(release);
        })
    });
    let holders: Vec<_> = holders.collect();
    shutdown.begin();
    block_on(shutdown.drained());
    let report = shutdown.report();
    assert_eq!((report.released, report.left), (LEASES, 0), "released, left");
    for holder in holders {
        holder.join().unwrap();
    }
}

/// A lease that was released before the shutdown, and that goes to the next task of the process:
/// on its way it is no lease, and counts as an activity.
fn a_lease_on_its_way_is_waited_for() {
    let (shutdown, held) = (Arc::<Shutdown>::default(), Arc::new(AtomicUsize::new(1)));
    shutdown.lease_begins();
    let holder = {
        let (shutdown, held) = (shutdown.clone(), held.clone());
        thread::spawn(move || {
            if !shutdown.has_begun() {
                let on_its_way = ActivityGuard::new(&shutdown);
                shutdown.lease_ends(true);
                shutdown.lease_begins();
                drop(on_its_way);
            }
            held.fetch_sub(1, Ordering::SeqCst);
            shutdown.lease_ends(true);
        })
    };
    shutdown.begin();
    block_on(shutdown.drained());
    assert_eq!(held.load(Ordering::SeqCst), 0, "a task still holds the lease");
    holder.join().unwrap();
}

/// An acquisition that is given up once the shutdown has begun, and cancelled in the background.
fn what_an_acquisition_leaves_is_waited_for() {
    let (shutdown, left) = (Arc::<Shutdown>::default(), Arc::new(AtomicUsize::new(1)));
    let acquiring = AcquiringGuard::new(&shutdown);
    let waiter = {
        let (shutdown, left) = (shutdown.clone(), left.clone());
        thread::spawn(move || {
            block_on(shutdown.begun());
            let cancel = ActivityGuard::new(&shutdown);
            drop(acquiring);
            left.fetch_sub(1, Ordering::SeqCst);
            drop(cancel);
        })
    };
    shutdown.begin();
    block_on(shutdown.idle());
    assert_eq!(left.load(Ordering::SeqCst), 0, "its cancel is overlooked");
    waiter.join().unwrap();
}

/// Work that is still held when the time of grace ends.
fn the_end_of_the_grace_period_is_heard() {
    let shutdown = Arc::<Shutdown>::default();
    let worker = {
        let shutdown = shutdown.clone();
        thread::spawn(move || block_on(shutdown.over()))
    };
    shutdown.begin();
    shutdown.end();
    worker.join().unwrap();
    assert!(shutdown.has_begun() && shutdown.is_over());
}

#[test]
fn releases_are_waited_for_and_reported() {
    check(every_release_is_waited_for_and_reported);
}

#[test]
fn a_lease_that_is_handed_over_is_waited_for() {
    check(a_lease_on_its_way_is_waited_for);
}

#[test]
fn a_cancel_is_waited_for() {
    check(what_an_acquisition_leaves_is_waited_for);
}

#[test]
fn a_cancel_that_is_overlooked_is_found() {
    let mistake = "a shutdown looks at acquisitions after what they leave";
    finds(mistake, "is overlooked", what_an_acquisition_leaves_is_waited_for);
}

#[test]
fn the_end_is_heard() {
    check(the_end_of_the_grace_period_is_heard);
}

#[test]
fn an_end_that_is_not_heard_is_found() {
    let mistake = "a shutdown is looked at before it is listened to";
    finds(mistake, "deadlock", the_end_of_the_grace_period_is_heard);
    finds(mistake, "deadlock", every_release_is_waited_for_and_reported);
}

#[test]
fn a_release_that_is_not_reported_is_found() {
    let mistake = "a lease is counted out before its release is counted";
    finds(mistake, "released, left", every_release_is_waited_for_and_reported);
}

#[test]
fn a_lease_that_is_overlooked_on_its_way_is_found() {
    let mistake = "a shutdown reads activities and leases one after the other";
    finds(mistake, "still holds", a_lease_on_its_way_is_waited_for);
}
