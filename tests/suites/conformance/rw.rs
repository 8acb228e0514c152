//! The read-write lock, command by command, where nobody waits in a queue.

use std::time::Duration;

use leasehold::LossReason::{Expired, Taken};
use leasehold::store::{Ask, Attempt, Ended, Kind, Renewal, Request};
use leasehold_tests::backend::Backend;

use super::{
    Client, LONG, SHORT, acquire, answered, busy, cancelled, granted, has_ended, released, renewed,
};

macro_rules! cases {
    ($case:path) => {
        $case! {
            rw:
            a_writer_is_alone,
            a_writers_commands_may_be_sent_twice,
            writers_have_growing_tokens_and_readers_none,
            a_live_reader_does_not_prolong_a_dead_one,
            an_ended_writer_is_told_at_its_renewal,
            a_stranger_does_not_read_beside_a_writer,
            one_of_several_readers_may_not_write,
            an_ended_reader_does_not_block_a_writer,
            a_writer_is_renewed,
        }
    };
}
pub(super) use cases;

pub(super) fn read(client: &Client, ttl: Duration) -> Request {
    client.request(Kind::Read, ttl)
}

pub(super) fn write(client: &Client, ttl: Duration) -> Request {
    client.request(Kind::Write, ttl)
}

/// The requests of one owner: to read, to read again, and to write.
pub(super) fn own(client: &Client) -> [Request; 3] {
    [Kind::Read, Kind::Read, Kind::Write].map(|kind| client.owned(kind, "me", LONG))
}

pub(super) async fn a_writer_is_alone(backend: &dyn Backend) {
    let client = Client::new();
    let writer = write(&client, LONG);
    granted(backend, &writer).await;
    busy(backend, &read(&client, LONG)).await;
    busy(backend, &write(&client, LONG)).await;
    assert_eq!(released(backend, &writer).await, Ended::Released);
    granted(backend, &read(&client, LONG)).await;
}

pub(super) async fn a_writers_commands_may_be_sent_twice(backend: &dyn Backend) {
    let client = Client::new();
    let writer = write(&client, LONG);
    let token = granted(backend, &writer).await;
    assert!(backend.is_repeated(token, granted(backend, &writer).await));
    assert!(cancelled(backend, &writer).await);
    assert!(!cancelled(backend, &writer).await);
    has_ended(backend, &writer).await;
}

pub(super) async fn writers_have_growing_tokens_and_readers_none(backend: &dyn Backend) {
    let client = Client::new();
    let mut last = 0;
    for _ in 0..3 {
        let (writer, reader) = (write(&client, LONG), read(&client, LONG));
        let token = granted(backend, &writer).await;
        assert!(token > last);
        last = token;
        let _ = released(backend, &writer).await;
        assert_eq!(granted(backend, &reader).await, 0);
        let _ = released(backend, &reader).await;
    }
}

pub(super) async fn a_live_reader_does_not_prolong_a_dead_one(backend: &dyn Backend) {
    let client = Client::new();
    let (dead, mut live) = (read(&client, SHORT), read(&client, SHORT));
    granted(backend, &dead).await;
    granted(backend, &live).await;
    live.ttl = LONG;
    for _ in 0..3 {
        assert_eq!(renewed(backend, &live).await, Renewal::Renewed);
        backend.pass(SHORT / 2).await;
    }
    let _ = released(backend, &live).await;
    granted(backend, &write(&client, LONG)).await;
}

pub(super) async fn an_ended_writer_is_told_at_its_renewal(backend: &dyn Backend) {
    let client = Client::new();
    let late = write(&client, SHORT);
    granted(backend, &late).await;
    backend.pass(SHORT).await;
    assert_eq!(renewed(backend, &late).await, Renewal::NotHeld(Expired));
    let writer = write(&client, LONG);
    granted(backend, &writer).await;
    assert_eq!(renewed(backend, &late).await, Renewal::NotHeld(Taken));
    assert_eq!(released(backend, &late).await, Ended::NotHeld(Taken));
    assert!(!answered(|| backend.store().cancel(&late)).await);
    assert_eq!(renewed(backend, &writer).await, Renewal::Renewed);
    busy(backend, &read(&client, LONG)).await;
}

pub(super) async fn a_stranger_does_not_read_beside_a_writer(backend: &dyn Backend) {
    let client = Client::new();
    let [.., writer] = own(&client);
    granted(backend, &writer).await;
    busy(backend, &read(&client, LONG)).await;
    busy(backend, &client.owned(Kind::Read, "other", LONG)).await;
    busy(backend, &client.owned(Kind::Read, "m", LONG)).await;
}

pub(super) async fn one_of_several_readers_may_not_write(backend: &dyn Backend) {
    let client = Client::new();
    let [first, _, writer] = own(&client);
    let other = read(&client, LONG);
    granted(backend, &first).await;
    granted(backend, &other).await;
    assert_eq!(acquire(backend, &writer).await, Attempt::WouldDeadlock);
    let _ = released(backend, &other).await;
    granted(backend, &writer).await;
}

pub(super) async fn an_ended_reader_does_not_block_a_writer(backend: &dyn Backend) {
    let client = Client::new();
    let [first, _, writer] = own(&client);
    let dead = client.owned(Kind::Read, "dead", SHORT);
    granted(backend, &dead).await;
    granted(backend, &first).await;
    backend.pass(SHORT).await;
    granted(backend, &writer).await;
    // The dead reader's owner is not let in beside the writer.
    busy(backend, &client.owned(Kind::Read, "dead", LONG)).await;
    assert_eq!(renewed(backend, &dead).await, Renewal::NotHeld(Taken));
}

pub(super) async fn a_writer_is_renewed(backend: &dyn Backend) {
    let client = Client::new();
    let mut writer = write(&client, SHORT);
    granted(backend, &writer).await;
    writer.ttl = LONG;
    assert_eq!(renewed(backend, &writer).await, Renewal::Renewed);
    backend.pass(SHORT).await;
    busy(backend, &read(&client, LONG)).await;
    assert_eq!(renewed(backend, &writer).await, Renewal::Renewed);
}
