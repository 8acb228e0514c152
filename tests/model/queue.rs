//! The queue at a server.

use crate::messages::RequestId;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Waiter {
    pub(crate) position: u8,
    pub(crate) id: RequestId,
    /// Its heartbeat has not ended.
    pub(crate) is_live: bool,
}

/// Puts a waiter into the queue, or back into its place, and returns its position. `last` is the
/// last position that was given.
pub(crate) fn enqueue(
    queue: &mut Vec<Waiter>,
    last: &mut u8,
    id: RequestId,
    position: Option<u8>,
) -> u8 {
    if let Some(waiter) = queue.iter_mut().find(|waiter| waiter.id == id) {
        waiter.is_live = true;
        return waiter.position;
    }
    let position = position.unwrap_or_else(|| {
        *last += 1;
        *last
    });
    let place = queue.partition_point(|waiter| waiter.position < position);
    queue.insert(place, Waiter { position, id, is_live: true });
    position
}
