//! A mutex that stays with its client after a release, until another client wants it.

use std::time::Duration;

use leasehold::store::{Ask, Attempt, Ended, Kind, Lingering, Request, TOKENS, Usage};
use leasehold::{Forced, Lease, LockError, Locks, LossReason, Mutex, Released, Wait};
use leasehold_tests::backend::Backend;
use leasehold_tests::waiting::{until, until_some, work_for};
use tokio::time::Instant;

use super::{
    Client, FIRST, LIVE, LONG, SHORT, acquire, ask, cancelled, claims, granted, released, waits,
};

macro_rules! cases {
    ($case:path) => {
        $case! {
            linger:
            a_released_lease_is_taken_up_here_and_counts_on,
            a_dropped_lease_lingers_too,
            a_try_elsewhere_gets_an_idle_lease,
            a_waiter_elsewhere_gets_an_idle_lease,
            a_lease_in_use_goes_to_a_waiter_elsewhere_with_its_release,
            an_idle_lease_ends_after_its_linger,
            a_recalled_lock_does_not_linger_for_a_while,
            release_now_frees_the_lock,
            a_lease_without_the_option_frees_the_lock,
            force_ends_an_idle_lease,
            shutdown_releases_idle_leases,
            other_options_do_not_take_it_up,
            all_locks_of_a_set_are_acquired_although_one_lingers,
            a_set_gets_the_room_of_idle_permits,
            tokens_grow_through_recalls,
            idle_permits_are_taken_up_here_and_recalled,
            a_heavier_permit_here_gets_the_room_of_idle_ones,
            another_kind_gets_an_idle_lease_and_none_in_use,
            readers_linger_beside_readers_until_a_writer_comes,
            an_owner_that_reads_writes_in_the_place_of_idle_readers,
            a_writer_lingers_and_counts_on,
            the_store_keeps_a_lease_whose_client_says_so,
            the_store_hands_over_instead_if_others_wait,
            the_store_takes_no_time_from_a_lease_in_use,
            the_store_recalls_once_and_repeats_for_the_first_waiter,
            the_store_says_if_a_recall_is_true,
            the_store_says_that_another_kind_was_recalled,
            a_lease_that_ended_does_not_linger,
            a_recall_ends_with_the_last_lease,
            a_short_lease_does_not_end_the_mark_of_a_long_one,
            a_permit_that_was_used_for_longer_than_its_ttl_is_recalled,
            permits_that_are_used_all_the_time_are_recalled,
            an_idle_mutex_is_shown,
            idle_permits_readers_and_writers_are_shown,
            the_owner_of_an_idle_mutex_is_shown,
        }
    };
}
pub(super) use cases;

const LINGER: Duration = Duration::from_secs(5);

fn lingering(locks: &Locks) -> Mutex {
    locks.mutex("a").ttl(LONG).linger(LINGER)
}

fn fence(lease: &Lease) -> u64 {
    lease.fence().expect("it is held").get()
}

async fn idle(locks: &Locks) -> u64 {
    let lease = lingering(locks).lock().await.unwrap();
    let fence = fence(&lease);
    assert_eq!(lease.release().await.unwrap(), Released::Lingers);
    fence
}

pub(super) async fn a_released_lease_is_taken_up_here_and_counts_on(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let mut last = idle(&locks).await;
    for nth in 0..TOKENS * 10 {
        let lease = if nth % 2 == 0 {
            lingering(&locks).lock().await
        } else {
            lingering(&locks).try_lock().await
        };
        let lease = lease.unwrap();
        assert!(fence(&lease) > last, "{} after {last}", fence(&lease));
        last = fence(&lease);
        assert_eq!(lease.release().await.unwrap(), Released::Lingers);
    }
    assert_eq!(locks.inspect("a").await.unwrap().holders.len(), 1);
}

pub(super) async fn a_dropped_lease_lingers_too(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let lease = lingering(&locks).lock().await.unwrap();
    let first = fence(&lease);
    drop(lease);
    // A try does not overtake the command of the drop.
    let lease = lingering(&locks).try_lock().await.unwrap();
    assert!(fence(&lease) > first);
    drop(lease);
    let lease = lingering(&locks).lock().await.unwrap();
    assert_eq!(lease.release().await.unwrap(), Released::Lingers);
}

pub(super) async fn a_try_elsewhere_gets_an_idle_lease(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let last = idle(&here).await;
    let lease = elsewhere.mutex("a").try_lock().await.unwrap();
    assert!(fence(&lease) > last);
    let busy = lingering(&here).try_lock().await;
    assert!(matches!(busy, Err(LockError::Busy { .. })), "{busy:?}");
}

pub(super) async fn a_waiter_elsewhere_gets_an_idle_lease(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let last = idle(&here).await;
    let lease = elsewhere.mutex("a").wait(Wait::Forever).lock().await.unwrap();
    assert!(fence(&lease) > last);
}

pub(super) async fn a_lease_in_use_goes_to_a_waiter_elsewhere_with_its_release(
    backend: &dyn Backend,
) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    idle(&here).await;
    let lease = lingering(&here).lock().await.unwrap();
    let busy = elsewhere.mutex("a").try_lock().await;
    assert!(matches!(busy, Err(LockError::Busy { .. })), "{busy:?}");
    assert!(lease.is_held());
    let waiter = elsewhere.mutex("a").wait(Wait::Forever);
    let waiter = tokio::spawn(async move { waiter.lock().await });
    backend.until_queued("a", 1).await;
    assert_eq!(lease.release().await.unwrap(), Released::Free);
    drop(waiter.await.unwrap().unwrap());
}

pub(super) async fn an_idle_lease_ends_after_its_linger(backend: &dyn Backend) {
    let (locks, linger) = (backend.locks().await, Duration::from_millis(200));
    let lease = locks.mutex("a").ttl(LONG).linger(linger).lock().await.unwrap();
    let begun = Instant::now();
    assert_eq!(lease.release().await.unwrap(), Released::Lingers);
    let is_idle = locks.inspect("a").await.unwrap().holders.len() == 1;
    // On a busy machine the linger may be over by now.
    assert!(is_idle || begun.elapsed() >= linger, "it has ended too soon");
    // The timer of a client in memory runs when the test's task waits.
    backend.pass(Duration::from_millis(300)).await;
    let is_free = async || locks.inspect("a").await.unwrap().holders.is_empty();
    until("its linger is over", is_free).await;
}

/// How long a lock does not linger after its first recall.
const PAUSE: Duration = Duration::from_millis(100);

/// How often to try what has to be done within the pause. On a machine under load, more time goes
/// by, and the lock rightly lingers again.
const TRIES: usize = 50;

/// Lets the last recall be forgotten.
async fn forget_the_recall(backend: &dyn Backend) {
    backend.pass(PAUSE * 6).await;
}

pub(super) async fn a_recalled_lock_does_not_linger_for_a_while(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    for _ in 0..TRIES {
        idle(&here).await;
        let begun = Instant::now();
        elsewhere.mutex("a").try_lock().await.unwrap().release().await.unwrap();
        let lease = lingering(&here).lock().await.unwrap();
        let released = lease.release().await.unwrap();
        if begun.elapsed() < PAUSE {
            assert_eq!(released, Released::Free);
            backend.pass(PAUSE * 2).await;
            idle(&here).await;
            return;
        }
        forget_the_recall(backend).await;
    }
    panic!("the machine is too slow for this test");
}

pub(super) async fn release_now_frees_the_lock(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let lease = lingering(&locks).lock().await.unwrap();
    assert_eq!(lease.release_now().await.unwrap(), Released::Free);
    idle(&locks).await;
    let lease = lingering(&locks).lock().await.unwrap();
    assert_eq!(lease.release_now().await.unwrap(), Released::Free);
    assert!(locks.inspect("a").await.unwrap().holders.is_empty());
}

/// Although it may have taken up one that lingered.
pub(super) async fn a_lease_without_the_option_frees_the_lock(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let last = idle(&locks).await;
    let lease = locks.mutex("a").ttl(LONG).lock().await.unwrap();
    assert!(fence(&lease) > last);
    assert_eq!(lease.release().await.unwrap(), Released::Free);
    assert!(locks.inspect("a").await.unwrap().holders.is_empty());
    idle(&locks).await;
}

pub(super) async fn force_ends_an_idle_lease(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let last = idle(&here).await;
    let forced = elsewhere.force_release("a").await.unwrap();
    assert!(matches!(forced, Forced::Released { held: 1, .. }), "{forced:?}");
    // The message may still be on its way: what was taken up before it is lost.
    loop {
        let lease = lingering(&here).lock().await.unwrap();
        match lease.renew().await {
            Ok(()) => {
                assert!(fence(&lease) > last + TOKENS);
                break;
            }
            Err(LockError::Lost { reason: LossReason::Forced, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

pub(super) async fn shutdown_releases_idle_leases(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    idle(&here).await;
    let report = here.shutdown().await;
    assert_eq!(report.left, 0);
    assert!(elsewhere.inspect("a").await.unwrap().holders.is_empty());
    let refused = lingering(&here).lock().await;
    assert!(matches!(refused, Err(LockError::ShutDown)), "{refused:?}");
}

pub(super) async fn other_options_do_not_take_it_up(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let last = idle(&locks).await;
    let other = locks.mutex("a").ttl(LONG * 2).lock().await.unwrap();
    assert!(fence(&other) > last);
    assert_eq!(other.release().await.unwrap(), Released::Free);
    idle(&locks).await;
    let owned = locks.mutex("a").ttl(LONG).owner("o").try_lock().await.unwrap();
    assert!(locks.is_held_by("a", "o").await.unwrap());
    assert_eq!(owned.release().await.unwrap(), Released::Free);
}

pub(super) async fn all_locks_of_a_set_are_acquired_although_one_lingers(backend: &dyn Backend) {
    let locks = backend.locks().await;
    idle(&locks).await;
    let set = locks.all(["a", "b"]).ttl(LONG);
    set.lock().await.unwrap().release().await.unwrap();
    idle(&locks).await;
    set.try_lock().await.unwrap().release().await.unwrap();
}

pub(super) async fn a_set_gets_the_room_of_idle_permits(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    for (n, locks) in [&here, &elsewhere, &here, &elsewhere].into_iter().enumerate() {
        let name = format!("a:{n}");
        let permits = here.semaphore(&name, 2).ttl(LONG).linger(LINGER);
        let held = [permits.acquire().await.unwrap(), permits.acquire().await.unwrap()];
        for permit in held {
            assert_eq!(permit.release().await.unwrap(), Released::Lingers);
        }
        let set = locks.all(["b"]).weighted_permit(&name, 2, 2).ttl(LONG);
        let leases = if n < 2 { set.lock().await } else { set.try_lock().await };
        leases.unwrap().release().await.unwrap();
    }
}

pub(super) async fn tokens_grow_through_recalls(backend: &dyn Backend) {
    let clients = [backend.locks().await, backend.locks().await];
    let mut last = 0;
    for round in 0..40 {
        let locks = &clients[round % 2];
        for _ in 0..round * 5 {
            let lease = lingering(locks).lock().await.unwrap();
            assert!(fence(&lease) > last, "{} after {last}", fence(&lease));
            last = fence(&lease);
            lease.release().await.unwrap();
        }
        // Long enough for the lock to linger again.
        if round % 10 == 9 {
            backend.pass(Duration::from_millis(150)).await;
        }
    }
}

pub(super) async fn idle_permits_are_taken_up_here_and_recalled(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let permits = here.semaphore("a", 3).ttl(LONG).linger(LINGER);
    for _ in 0..3 {
        let held = [permits.acquire().await.unwrap(), permits.try_acquire().await.unwrap()];
        for permit in held {
            assert_eq!(permit.release().await.unwrap(), Released::Lingers);
        }
    }
    assert_eq!(here.inspect("a").await.unwrap().holders.len(), 2);
    let others = elsewhere.semaphore("a", 3).ttl(LONG);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(others.try_acquire().await.unwrap());
    }
    let busy = permits.try_acquire().await;
    assert!(matches!(busy, Err(LockError::Busy { .. })), "{busy:?}");
}

pub(super) async fn a_heavier_permit_here_gets_the_room_of_idle_ones(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let permits = locks.semaphore("a", 4).ttl(LONG).linger(LINGER);
    let held = [permits.acquire().await.unwrap(), permits.acquire().await.unwrap()];
    for permit in held {
        assert_eq!(permit.release().await.unwrap(), Released::Lingers);
    }
    let heavy = permits.acquire_many(4).await.unwrap();
    assert_eq!(heavy.release().await.unwrap(), Released::Lingers);
    let heavy = permits.try_acquire_many(4).await.unwrap();
    assert_eq!(heavy.release_now().await.unwrap(), Released::Free);
    assert!(locks.inspect("a").await.unwrap().holders.is_empty());
}

pub(super) async fn readers_linger_beside_readers_until_a_writer_comes(backend: &dyn Backend) {
    let (one, two) = (backend.locks().await, backend.locks().await);
    for locks in [&one, &two, &one, &two] {
        let lock = locks.rw_lock("a").linger(LINGER);
        assert_eq!(lock.read().await.unwrap().release().await.unwrap(), Released::Lingers);
    }
    assert_eq!(one.inspect("a").await.unwrap().holders.len(), 2);
    // It writes itself, too: its own idle reader is in its way.
    let write = one.rw_lock("a").wait(Wait::Forever).write().await.unwrap();
    let busy = two.rw_lock("a").linger(LINGER).try_read().await;
    assert!(matches!(busy, Err(LockError::Busy { .. })), "{busy:?}");
    write.release().await.unwrap();
}

pub(super) async fn an_owner_that_reads_writes_in_the_place_of_idle_readers(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let lock = here.rw_lock("a").owner("it");
    let read = lock.read().await.unwrap();
    let others = elsewhere.rw_lock("a").linger(LINGER);
    assert_eq!(others.read().await.unwrap().release().await.unwrap(), Released::Lingers);
    let begun = Instant::now();
    let write = loop {
        match lock.try_write().await {
            // The other client was told, and a busy machine lets it answer late.
            Err(LockError::WouldDeadlock { .. }) if begun.elapsed() < LONG => {}
            answer => break answer.unwrap(),
        }
    };
    write.release().await.unwrap();
    // One of two that read elsewhere goes on.
    let (idle, in_use) = (others.read().await.unwrap(), others.read().await.unwrap());
    idle.release().await.unwrap();
    let refused = lock.try_write().await;
    assert!(matches!(refused, Err(LockError::WouldDeadlock { .. })), "{refused:?}");
    assert!(in_use.is_held() && read.is_held());
}

pub(super) async fn a_writer_lingers_and_counts_on(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let lock = here.rw_lock("a").linger(LINGER);
    let mut last = 0;
    for _ in 0..TOKENS * 3 {
        let lease = lock.write().await.unwrap();
        assert!(fence(&lease) > last, "{} after {last}", fence(&lease));
        last = fence(&lease);
        assert_eq!(lease.release().await.unwrap(), Released::Lingers);
    }
    let lease = elsewhere.rw_lock("a").try_write().await.unwrap();
    assert!(fence(&lease) > last);
}

async fn lingers(backend: &dyn Backend, request: &Request, usage: Usage) -> Lingering {
    let sent = async || backend.store().linger(request, usage);
    until_some("a connection for hints is open", sent).await.await.unwrap()
}

async fn kept(backend: &dyn Backend, request: &Request) -> u64 {
    match lingers(backend, request, Usage::Ended).await {
        Lingering::Kept { token } => token,
        other => panic!("{other:?}"),
    }
}

pub(super) async fn the_store_keeps_a_lease_whose_client_says_so(backend: &dyn Backend) {
    let client = Client::new();
    let request = client.mutex(LONG);
    let token = granted(backend, &request).await;
    let reserved = kept(backend, &request).await;
    assert!(reserved >= token);
    assert!(kept(backend, &request).await >= reserved, "a copy reserves no less");
    assert_eq!(granted(backend, &request).await.max(reserved), granted(backend, &request).await);
    assert_eq!(released(backend, &request).await, Ended::Released);
    let next = client.mutex(LONG);
    assert!(granted(backend, &next).await >= reserved + TOKENS, "the block is the client's");
    // A late copy.
    let late = lingers(backend, &request, Usage::Ended).await;
    assert!(matches!(late, Lingering::Ended(Ended::Released)), "{late:?}");
}

pub(super) async fn the_store_hands_over_instead_if_others_wait(backend: &dyn Backend) {
    let client = Client::new();
    let [holder, waiter] = [(); 2].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
    waits(backend, &waiter, LIVE).await;
    assert_eq!(lingers(backend, &holder, Usage::InUse).await, Lingering::Wanted);
    assert_eq!(lingers(backend, &holder, Usage::Ended).await, Lingering::Ended(Ended::Released));
    assert_eq!(lingers(backend, &holder, Usage::Ended).await, Lingering::Ended(Ended::Released));
    claims(backend, &waiter).await;
}

/// A question may come after a renewal that its holder counts on.
pub(super) async fn the_store_takes_no_time_from_a_lease_in_use(backend: &dyn Backend) {
    for kind in [Kind::Mutex, Kind::Semaphore { limit: 3, weight: 2 }, Kind::Read, Kind::Write] {
        let holder = Client::new().request(kind, LONG);
        granted(backend, &holder).await;
        let mut shorter = holder.clone();
        shorter.ttl = SHORT;
        let answer = lingers(backend, &shorter, Usage::InUse).await;
        assert!(matches!(answer, Lingering::Kept { .. }), "{kind:?}: {answer:?}");
        backend.pass(SHORT * 2).await;
        let ended = backend.store().release(&holder, Duration::ZERO).await.unwrap();
        assert_eq!(ended, Ended::Released, "{kind:?}");
    }
}

pub(super) async fn the_store_recalls_once_and_repeats_for_the_first_waiter(backend: &dyn Backend) {
    let client = Client::new();
    let [holder, first, second] = [(); 3].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
    let _ = kept(backend, &holder).await;
    let answer = acquire(backend, &first).await;
    assert!(matches!(answer, Attempt::Recalled { .. }), "{answer:?}");
    let answer = acquire(backend, &second).await;
    assert!(matches!(answer, Attempt::Busy { .. }), "it was told: {answer:?}");
    let answer = ask(backend, &first, LIVE, FIRST).await;
    assert!(matches!(answer, Attempt::Queued { .. }), "{answer:?}");
    // The client that was recalled uses the lease and lets it linger again.
    assert!(!cancelled(backend, &first).await);
    let _ = kept(backend, &holder).await;
    let answer = acquire(backend, &second).await;
    assert!(matches!(answer, Attempt::Recalled { .. }), "{answer:?}");
    assert!(cancelled(backend, &holder).await);
    granted(backend, &client.mutex(LONG)).await;
}

/// A client that hears a recall asks if it is true: a forged one changes nothing.
pub(super) async fn the_store_says_if_a_recall_is_true(backend: &dyn Backend) {
    let recalled = |in_use| Usage::Recalled { in_use };
    let (client, others) = (Client::new(), Client::new());
    let cases = [
        (client.mutex(LONG), others.mutex(LONG)),
        (client.permit(1, LONG), others.permit(1, LONG)),
        (client.request(Kind::Read, LONG), others.request(Kind::Write, LONG)),
        (client.request(Kind::Write, LONG), others.request(Kind::Read, LONG)),
    ];
    for (holder, other) in cases {
        granted(backend, &holder).await;
        let _ = kept(backend, &holder).await;
        for in_use in [true, false, true] {
            let answer = lingers(backend, &holder, recalled(in_use)).await;
            assert!(matches!(answer, Lingering::Kept { .. }), "{holder:?}: {answer:?}");
        }
        let answer = acquire(backend, &other).await;
        let is_of_its_kind = matches!(answer, Attempt::Recalled { other_kind: false, .. });
        assert!(is_of_its_kind, "{holder:?}: {answer:?}");
        assert_eq!(lingers(backend, &holder, recalled(true)).await, Lingering::Wanted);
        let released = Lingering::Ended(Ended::Released);
        assert_eq!(lingers(backend, &holder, recalled(false)).await, released);
        assert_eq!(lingers(backend, &holder, recalled(false)).await, released, "a copy");
        granted(backend, &other).await;
        assert!(cancelled(backend, &other).await);
    }
}

/// A waiter can't stand in the queue there, so it must know why it was refused.
pub(super) async fn the_store_says_that_another_kind_was_recalled(backend: &dyn Backend) {
    let (client, others) = (Client::new(), Client::new());
    let permit = Kind::Semaphore { limit: 1, weight: 1 };
    let pairs = [
        (Kind::Mutex, permit),
        (Kind::Mutex, Kind::Write),
        (permit, Kind::Mutex),
        (permit, Kind::Read),
        (Kind::Read, Kind::Mutex),
        (Kind::Write, permit),
    ];
    for (kind, other) in pairs {
        for waits in [false, true] {
            let [holder, other] = [client.request(kind, LONG), others.request(other, LONG)];
            granted(backend, &holder).await;
            let _ = kept(backend, &holder).await;
            let answer = if waits {
                ask(backend, &other, LIVE, FIRST).await
            } else {
                acquire(backend, &other).await
            };
            let is_other = matches!(answer, Attempt::Recalled { other_kind: true, .. });
            assert!(is_other, "{holder:?}, {other:?}: {answer:?}");
            assert!(cancelled(backend, &holder).await);
        }
    }
}

/// A client is not asked to release what it no longer has.
pub(super) async fn a_recall_ends_with_the_last_lease(backend: &dyn Backend) {
    let (client, others) = (Client::new(), Client::new());
    for is_forced in [false, true] {
        let permit = client.permit(1, LONG);
        granted(backend, &permit).await;
        assert_eq!(kept(backend, &permit).await, 0);
        if is_forced {
            let forced = backend
                .store()
                .force_release(&permit.key, leasehold_tests::requests::force())
                .await
                .unwrap();
            assert!(matches!(forced, Forced::Released { held: 1, .. }), "{forced:?}");
        } else {
            assert_eq!(released(backend, &permit).await, Ended::Released);
        }
        let next = others.permit(1, LONG);
        granted(backend, &next).await;
        let refused = acquire(backend, &others.permit(1, LONG)).await;
        assert!(matches!(refused, Attempt::Busy { .. }), "{is_forced}: {refused:?}");
        assert_eq!(released(backend, &next).await, Ended::Released);
    }
}

pub(super) async fn a_lease_that_ended_does_not_linger(backend: &dyn Backend) {
    let client = Client::new();
    let [first, second] = [(); 2].map(|()| client.mutex(LONG));
    let expired = lingers(backend, &first, Usage::Ended).await;
    assert_eq!(expired, Lingering::Ended(Ended::NotHeld(LossReason::Expired)));
    granted(backend, &first).await;
    assert_eq!(released(backend, &first).await, Ended::Released);
    granted(backend, &second).await;
    assert_eq!(released(backend, &second).await, Ended::Released);
    let taken = lingers(backend, &first, Usage::Ended).await;
    assert_eq!(taken, Lingering::Ended(Ended::NotHeld(LossReason::Taken)));
    // It changed nothing.
    let third = client.mutex(LONG);
    granted(backend, &third).await;
    // A late copy of its acquire waits for nobody.
    waits(backend, &first, LIVE).await;
    let taken = lingers(backend, &first, Usage::Ended).await;
    assert_eq!(taken, Lingering::Ended(Ended::NotHeld(LossReason::Taken)));
    assert_eq!(released(backend, &third).await, Ended::Released);
    granted(backend, &client.mutex(LONG)).await;
}

/// The server knows for one TTL that the client may keep a permit. Renewals do not prolong that.
pub(super) async fn a_permit_that_was_used_for_longer_than_its_ttl_is_recalled(
    backend: &dyn Backend,
) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    // On a busy machine a renewal may be late, but not by a second.
    let ttl = Duration::from_secs(2);
    let permits = here.semaphore("a", 1).ttl(ttl).linger(LINGER);
    permits.acquire().await.unwrap().release().await.unwrap();
    let permit = permits.acquire().await.unwrap();
    backend.pass(ttl + ttl / 4).await;
    permit.release().await.unwrap();
    let _permit = elsewhere.semaphore("a", 1).try_acquire().await.unwrap();
}

pub(super) async fn permits_that_are_used_all_the_time_are_recalled(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let permits = here.semaphore("a", 1).ttl(Duration::from_secs(1)).linger(LINGER);
    permits.acquire().await.unwrap().release().await.unwrap();
    let users = (0..2).map(|_| {
        let permits = permits.clone();
        tokio::spawn(async move {
            loop {
                let permit = permits.acquire().await.unwrap();
                work_for(Duration::from_millis(3)).await;
                permit.release().await.unwrap();
            }
        })
    });
    let users: Vec<_> = users.collect();
    backend.pass(Duration::from_millis(1400)).await;
    let other = elsewhere.semaphore("a", 1).wait(Duration::from_secs(1)).acquire().await;
    users.iter().for_each(tokio::task::JoinHandle::abort);
    assert!(other.is_ok(), "{other:?}");
}

/// Which of the lock's holders may be idle, in the order in which their leases end.
async fn shown(locks: &Locks) -> Vec<bool> {
    let info = locks.inspect("a").await.unwrap();
    info.holders.iter().map(|holder| holder.may_be_idle).collect()
}

pub(super) async fn an_idle_mutex_is_shown(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let lease = lingering(&here).lock().await.unwrap();
    assert_eq!(shown(&elsewhere).await, [false], "it was never idle");
    lease.release().await.unwrap();
    for _ in 0..TRIES {
        assert_eq!(shown(&elsewhere).await, [true]);
        let lease = lingering(&here).lock().await.unwrap();
        assert_eq!(shown(&elsewhere).await, [true], "the store does not know that it is in use");
        let begun = Instant::now();
        let busy = elsewhere.mutex("a").try_lock().await;
        assert!(matches!(busy, Err(LockError::Busy { .. })), "{busy:?}");
        assert_eq!(shown(&elsewhere).await, [true], "it was recalled");
        let released = lease.release().await.unwrap();
        if begun.elapsed() < PAUSE {
            assert_eq!(released, Released::Free);
            assert!(shown(&elsewhere).await.is_empty());
            let _lease = elsewhere.mutex("a").lock().await.unwrap();
            assert_eq!(shown(&here).await, [false], "the mark ended with the lease");
            return;
        }
        forget_the_recall(backend).await;
        idle(&here).await;
    }
    panic!("the machine is too slow for this test");
}

pub(super) async fn idle_permits_readers_and_writers_are_shown(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let permits = here.semaphore("a", 4).ttl(LONG).linger(LINGER);
    let held = [permits.acquire().await.unwrap(), permits.acquire().await.unwrap()];
    let other = elsewhere.semaphore("a", 4).ttl(LONG * 2).acquire().await.unwrap();
    assert_eq!(shown(&here).await, [false, false, false]);
    let [idle, held] = held;
    idle.release().await.unwrap();
    assert_eq!(shown(&here).await, [true, true, false], "all of that client, and no other");
    held.release_now().await.unwrap();
    other.release().await.unwrap();
    assert!(matches!(here.force_release("a").await.unwrap(), Forced::Released { .. }));
    assert!(shown(&here).await.is_empty());

    let lock = here.rw_lock("a").linger(LINGER);
    lock.read().await.unwrap().release().await.unwrap();
    assert_eq!(shown(&elsewhere).await, [true]);
    let read = elsewhere.rw_lock("a").try_read().await.unwrap();
    let holders = here.inspect("a").await.unwrap().holders;
    assert_eq!(holders.iter().filter(|holder| holder.may_be_idle).count(), 1, "{holders:?}");
    read.release().await.unwrap();
    let write = elsewhere.rw_lock("a").linger(LINGER).wait(Wait::Forever).write().await.unwrap();
    assert_eq!(shown(&here).await, [false]);
    write.release().await.unwrap();
    let holders = here.inspect("a").await.unwrap().holders;
    assert!(holders[0].may_be_idle && holders[0].is_writer, "{holders:?}");
}

/// The record of a mutex has the mark before the owner's name.
pub(super) async fn the_owner_of_an_idle_mutex_is_shown(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let mutex = lingering(&here).owner("worker-7");
    for _ in 0..2 {
        mutex.lock().await.unwrap().release().await.unwrap();
        let holders = elsewhere.inspect("a").await.unwrap().holders;
        assert_eq!(holders[0].owner.as_deref(), Some("worker-7"));
        assert!(holders[0].may_be_idle && elsewhere.is_held_by("a", "worker-7").await.unwrap());
    }
}

pub(super) async fn a_short_lease_does_not_end_the_mark_of_a_long_one(backend: &dyn Backend) {
    let (client, others) = (Client::new(), Client::new());
    let [long, short] = [LONG, SHORT].map(|ttl| client.permit(2, ttl));
    for permit in [&long, &short] {
        granted(backend, permit).await;
    }
    assert_eq!(kept(backend, &long).await, 0);
    assert_eq!(kept(backend, &short).await, 0);
    backend.pass(SHORT * 2).await;
    granted(backend, &others.permit(2, LONG)).await;
    let refused = acquire(backend, &others.permit(2, LONG)).await;
    assert!(matches!(refused, Attempt::Recalled { .. }), "{refused:?}");
}

/// Acquires a lock as one of the five kinds, of which the last can't linger.
async fn as_kind(nth: usize, locks: &Locks, wait: Duration) -> Result<Lease, LockError> {
    let rw = locks.rw_lock("a").ttl(LONG).wait(wait).linger(LINGER);
    match nth {
        0 => locks.mutex("a").ttl(LONG).wait(wait).linger(LINGER).lock().await,
        1 => locks.semaphore("a", 1).ttl(LONG).wait(wait).linger(LINGER).acquire().await,
        2 => rw.read().await,
        3 => rw.write().await,
        _ => locks.reentrant_mutex("a").owner("o").ttl(LONG).wait(wait).lock().await,
    }
}

pub(super) async fn another_kind_gets_an_idle_lease_and_none_in_use(backend: &dyn Backend) {
    for (idle, asker) in (0..4).flat_map(|idle| (0..5).map(move |asker| (idle, asker))) {
        // Readers and writers share a kind.
        if idle == asker || [idle, asker].iter().all(|it| [2, 3].contains(it)) {
            continue;
        }
        for (wait, is_here) in [(Duration::ZERO, false), (LINGER, true), (LINGER, false)] {
            let (here, elsewhere) = (backend.locks().await, backend.locks().await);
            let asking = if is_here { &here } else { &elsewhere };
            for is_idle in [false, true] {
                let lease = as_kind(idle, &here, LINGER).await.unwrap();
                assert_eq!(lease.release().await.unwrap(), Released::Lingers);
                if is_idle {
                    let mut lease = as_kind(asker, asking, wait).await;
                    // A try waits for the recalled lease for a moment alone, and the machine may be busy.
                    for _ in 0..3 {
                        if wait.is_zero() && lease.is_err() {
                            lease = as_kind(asker, asking, wait).await;
                        }
                    }
                    let lease = lease.unwrap_or_else(|it| panic!("{asker} after {idle}: {it}"));
                    lease.release_now().await.unwrap();
                    break;
                }
                let in_use = as_kind(idle, &here, LINGER).await.unwrap();
                let refused = as_kind(asker, asking, wait.min(SHORT)).await;
                let is_wrong = matches!(refused, Err(LockError::WrongKind { .. }));
                assert!(is_wrong, "{asker} beside {idle} in use: {refused:?}");
                in_use.release_now().await.unwrap();
                // Until the recall is forgotten, the lock does not linger.
                backend.pass(PAUSE * 2).await;
            }
        }
    }
}
