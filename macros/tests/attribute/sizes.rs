//! How much room a lock takes in the future of its caller.

use std::{future::Future, hint::black_box};

use leasehold::{LockError, Locks, distributed_lock};
use tokio::task;

/// How many bytes a lock may add to the future of its body.
const ROOM: usize = 1600;

/// A body that carries a kilobyte over an await.
async fn bare() -> Result<(), LockError> {
    let carried = [1_u8; 1024];
    task::yield_now().await;
    black_box(&carried);
    Ok(())
}

#[distributed_lock(key = "a")]
async fn first() -> Result<(), LockError> {
    bare().await
}

#[distributed_lock(key = "b", permits = 2, on_lost = "finish")]
async fn second() -> Result<(), LockError> {
    first().await
}

#[distributed_lock(key = "c", if_held = "skip", reentrant, lease = lease)]
async fn third() -> Result<(), LockError> {
    assert!(lease.is_held());
    second().await
}

#[test]
fn a_lock_adds_a_little_to_its_body() {
    fn size<F: Future>(_: impl FnOnce() -> F) -> usize {
        size_of::<F>()
    }
    let mut body = size(bare);
    for (name, call) in [("first", size(first)), ("second", size(second)), ("third", size(third))] {
        assert!(call <= body + ROOM, "{name} takes {call} bytes, its body {body}");
        body = call;
    }
}

#[test]
fn leading_adds_a_little_to_its_work() {
    let locks = Locks::in_memory();
    let (lead, body) = (locks.lead("a", |_| bare()), bare());
    let (lead, body) = (size_of_val(&lead), size_of_val(&body));
    assert!(lead <= body + ROOM, "it takes {lead} bytes, its body {body}");
}
