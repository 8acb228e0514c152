//! The read-write lock, command by command, with its queue.

use std::time::Duration;

use leasehold::LossReason::{Expired, Taken};
use leasehold::store::{Ask, Attempt, Ended, Kind, Renewal};
use leasehold_tests::backend::Backend;

use super::rw::{own, read, write};
use super::{
    Client, FIRST, LIVE, LONG, SHORT, acquire, ask, busy, cancelled, claims, granted, released,
    renewed, waits,
};

macro_rules! cases {
    ($case:path) => {
        $case! {
            rw_queue:
            a_writer_waits_for_the_last_reader,
            nobody_overtakes_a_waiting_writer,
            consecutive_readers_are_let_in_together,
            writers_are_served_one_by_one,
            a_cancelled_writer_lets_the_readers_behind_it_in,
            a_dead_writer_lets_the_readers_behind_it_in,
            an_offer_ends_with_the_heartbeat,
            an_owner_reads_again_past_a_waiting_writer,
            a_stranger_does_not_read_again,
            a_writer_may_read_and_goes_on_reading,
            a_sole_reader_may_write,
            a_request_that_would_wait_for_itself_is_refused,
            after_an_upgrade_the_others_wait_for_both,
            an_owner_without_leases_does_not_wait_for_itself,
            an_ended_writer_lets_nobody_in_beside_the_next,
        }
    };
}
pub(super) use cases;

pub(super) async fn a_writer_waits_for_the_last_reader(backend: &dyn Backend) {
    let client = Client::new();
    let readers = [(); 3].map(|()| read(&client, LONG));
    for reader in &readers {
        granted(backend, reader).await;
    }
    let writer = write(&Client::new(), LONG);
    waits(backend, &writer, LIVE).await;
    for reader in &readers {
        assert_eq!(renewed(backend, &writer).await, Renewal::NotHeld(Expired));
        let _ = released(backend, reader).await;
    }
    claims(backend, &writer).await;
    busy(backend, &read(&client, LONG)).await;
}

pub(super) async fn nobody_overtakes_a_waiting_writer(backend: &dyn Backend) {
    let client = Client::new();
    let reader = read(&client, LONG);
    granted(backend, &reader).await;
    let (writer, later) = (write(&Client::new(), LONG), read(&Client::new(), LONG));
    waits(backend, &writer, LIVE).await;
    busy(backend, &read(&client, LONG)).await;
    waits(backend, &later, LIVE).await;
    let _ = released(backend, &reader).await;
    claims(backend, &writer).await;
    assert_eq!(renewed(backend, &later).await, Renewal::NotHeld(Taken));
    let _ = released(backend, &writer).await;
    claims(backend, &later).await;
}

pub(super) async fn consecutive_readers_are_let_in_together(backend: &dyn Backend) {
    let writer = write(&Client::new(), LONG);
    granted(backend, &writer).await;
    let run = [(); 5].map(|()| read(&Client::new(), LONG));
    for reader in &run {
        waits(backend, reader, LIVE).await;
    }
    let (next, behind) = (write(&Client::new(), LONG), read(&Client::new(), LONG));
    waits(backend, &next, LIVE).await;
    waits(backend, &behind, LIVE).await;
    let _ = released(backend, &writer).await;
    for reader in &run {
        claims(backend, reader).await;
    }
    assert_eq!(renewed(backend, &behind).await, Renewal::NotHeld(Expired));
    for reader in &run {
        let _ = released(backend, reader).await;
    }
    claims(backend, &next).await;
    let _ = released(backend, &next).await;
    claims(backend, &behind).await;
}

pub(super) async fn writers_are_served_one_by_one(backend: &dyn Backend) {
    let writers = [(); 4].map(|()| write(&Client::new(), LONG));
    let mut last = granted(backend, &writers[0]).await;
    for writer in &writers[1..] {
        waits(backend, writer, LIVE).await;
    }
    for pair in writers.windows(2) {
        let _ = released(backend, &pair[0]).await;
        claims(backend, &pair[1]).await;
        let token = granted(backend, &pair[1]).await;
        assert!(token > last);
        last = token;
    }
}

pub(super) async fn a_cancelled_writer_lets_the_readers_behind_it_in(backend: &dyn Backend) {
    granted(backend, &read(&Client::new(), LONG)).await;
    let (writer, behind) = (write(&Client::new(), LONG), read(&Client::new(), LONG));
    waits(backend, &writer, LIVE).await;
    waits(backend, &behind, LIVE).await;
    assert!(!cancelled(backend, &writer).await);
    claims(backend, &behind).await;
}

pub(super) async fn a_dead_writer_lets_the_readers_behind_it_in(backend: &dyn Backend) {
    granted(backend, &read(&Client::new(), LONG)).await;
    let (writer, behind) = (write(&Client::new(), LONG), read(&Client::new(), LONG));
    waits(backend, &writer, SHORT).await;
    waits(backend, &behind, LIVE).await;
    backend.pass(SHORT).await;
    // A try serves the waiter.
    busy(backend, &read(&Client::new(), LONG)).await;
    claims(backend, &behind).await;
    granted(backend, &read(&Client::new(), LONG)).await;
}

pub(super) async fn an_offer_ends_with_the_heartbeat(backend: &dyn Backend) {
    let reader = read(&Client::new(), LONG);
    granted(backend, &reader).await;
    let dead = write(&Client::new(), LONG);
    waits(backend, &dead, SHORT).await;
    let _ = released(backend, &reader).await;
    busy(backend, &read(&Client::new(), LONG)).await;
    backend.pass(SHORT).await;
    granted(backend, &read(&Client::new(), LONG)).await;
    assert_eq!(renewed(backend, &dead).await, Renewal::NotHeld(Expired));
}

pub(crate) async fn an_owner_reads_again_past_a_waiting_writer(backend: &dyn Backend) {
    let client = Client::new();
    let [first, second, _] = own(&client);
    let elsewhere = Client::new().owned(Kind::Read, "me", LONG);
    granted(backend, &first).await;
    let writer = write(&Client::new(), LONG);
    waits(backend, &writer, LIVE).await;
    granted(backend, &second).await;
    assert_eq!(ask(backend, &elsewhere, LIVE, FIRST).await, Attempt::Granted { token: 0 });
    for reader in [first, second, elsewhere] {
        assert_eq!(renewed(backend, &writer).await, Renewal::NotHeld(Expired));
        let _ = released(backend, &reader).await;
    }
    claims(backend, &writer).await;
}

pub(super) async fn a_stranger_does_not_read_again(backend: &dyn Backend) {
    let client = Client::new();
    let [first, second, _] = own(&client);
    let other = client.owned(Kind::Read, "other", LONG);
    granted(backend, &first).await;
    waits(backend, &write(&Client::new(), LONG), LIVE).await;
    busy(backend, &other).await;
    let _ = released(backend, &first).await;
    busy(backend, &second).await;
}

pub(super) async fn a_writer_may_read_and_goes_on_reading(backend: &dyn Backend) {
    let client = Client::new();
    let [first, second, writer] = own(&client);
    granted(backend, &writer).await;
    let (next, behind) = (write(&Client::new(), LONG), read(&Client::new(), LONG));
    waits(backend, &behind, LIVE).await;
    waits(backend, &next, LIVE).await;
    granted(backend, &first).await;
    assert_eq!(renewed(backend, &behind).await, Renewal::NotHeld(Taken));
    // The lock is never free in between: the owner only reads from now on, and the readers at the
    // head of the queue read with it.
    assert_eq!(released(backend, &writer).await, Ended::Released);
    claims(backend, &behind).await;
    assert_eq!(renewed(backend, &first).await, Renewal::Renewed);
    assert_eq!(renewed(backend, &next).await, Renewal::NotHeld(Expired));
    granted(backend, &second).await;
    for reader in [first, second, behind] {
        let _ = released(backend, &reader).await;
    }
    claims(backend, &next).await;
}

pub(super) async fn a_sole_reader_may_write(backend: &dyn Backend) {
    let client = Client::new();
    let [first, second, writer] = own(&client);
    let before = write(&client, LONG);
    let token = granted(backend, &before).await;
    let _ = released(backend, &before).await;
    granted(backend, &first).await;
    granted(backend, &second).await;
    waits(backend, &write(&Client::new(), LONG), LIVE).await;
    assert!(granted(backend, &writer).await > token);
    busy(backend, &read(&client, LONG)).await;
    let _ = released(backend, &writer).await;
    for reader in [first, second] {
        assert_eq!(renewed(backend, &reader).await, Renewal::Renewed);
    }
}

pub(crate) async fn a_request_that_would_wait_for_itself_is_refused(backend: &dyn Backend) {
    let client = Client::new();
    let [first, _, writer] = own(&client);
    let again = client.owned(Kind::Write, "me", LONG);
    granted(backend, &first).await;
    assert_eq!(ask(backend, &writer, LIVE, FIRST).await, Attempt::WouldDeadlock);
    let _ = released(backend, &first).await;
    granted(backend, &writer).await;
    assert_eq!(ask(backend, &again, LIVE, FIRST).await, Attempt::WouldDeadlock);
    assert_eq!(acquire(backend, &again).await, Attempt::WouldDeadlock);
    // A refused request blocks nobody.
    let _ = released(backend, &writer).await;
    granted(backend, &read(&client, LONG)).await;
}

pub(super) async fn after_an_upgrade_the_others_wait_for_both(backend: &dyn Backend) {
    let client = Client::new();
    let [first, _, writer] = own(&client);
    granted(backend, &first).await;
    granted(backend, &writer).await;
    let (next, later) = (write(&Client::new(), LONG), write(&Client::new(), LONG));
    waits(backend, &next, LIVE).await;
    waits(backend, &later, LIVE).await;
    let _ = released(backend, &first).await;
    assert_eq!(renewed(backend, &writer).await, Renewal::Renewed);
    assert_eq!(renewed(backend, &next).await, Renewal::NotHeld(Taken));
    let _ = released(backend, &writer).await;
    claims(backend, &next).await;
}

pub(super) async fn an_owner_without_leases_does_not_wait_for_itself(backend: &dyn Backend) {
    let client = Client::new();
    granted(backend, &read(&client, LONG)).await;
    // More leases than one command removes.
    for _ in 0..140 {
        granted(backend, &client.owned(Kind::Read, "me", SHORT * 4)).await;
    }
    backend.pass(SHORT * 4).await;
    let writer = client.owned(Kind::Write, "me", LONG);
    for _ in 0..5 {
        match ask(backend, &writer, LIVE, FIRST).await {
            Attempt::Busy { retry_after: Duration::ZERO, expiry_added: false, .. } => {}
            Attempt::Queued { .. } => return,
            other => panic!("{other:?}"),
        }
    }
    panic!("it was told to ask at once again and again");
}

/// More leases of an owner have ended than one command removes. A writer's is among them. The owner
/// writes anew, and the former writer's commands change nothing.
pub(super) async fn an_ended_writer_lets_nobody_in_beside_the_next(backend: &dyn Backend) {
    let client = Client::new();
    let me = |kind, ttl| client.owned(kind, "me", ttl);
    granted(backend, &me(Kind::Read, LONG)).await;
    for _ in 0..70 {
        granted(backend, &me(Kind::Read, SHORT)).await;
    }
    // It ends after them, so it is not among the first to be removed.
    let former = me(Kind::Write, SHORT * 10);
    granted(backend, &former).await;
    backend.pass(SHORT * 10).await;
    let writer = me(Kind::Write, LONG);
    granted(backend, &writer).await;
    let stranger = read(&Client::new(), LONG);
    assert!(!cancelled(backend, &former).await);
    busy(backend, &stranger).await;
    // All ended leases are removed.
    let owner = former.owner.as_ref().expect("it was given one");
    assert!(backend.store().is_held_by(&former.key, owner).await.unwrap());
    busy(backend, &stranger).await;
    assert_eq!(renewed(backend, &writer).await, Renewal::Renewed);
}
