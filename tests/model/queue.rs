//! The queue at a server.

use crate::messages::RequestId;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Waiter {
    pub(crate) ticket: u8,
    pub(crate) id: RequestId,
    /// Its heartbeat has not run out.
    pub(crate) is_live: bool,
}

/// Puts a waiter into the queue or back into its place, and returns its ticket. `last` is
/// the last ticket that was given.
pub(crate) fn enqueue(
    queue: &mut Vec<Waiter>,
    last: &mut u8,
    id: RequestId,
    ticket: Option<u8>,
) -> u8 {
    if let Some(waiter) = queue.iter_mut().find(|waiter| waiter.id == id) {
        waiter.is_live = true;
        return waiter.ticket;
    }
    let ticket = ticket.unwrap_or_else(|| {
        *last += 1;
        *last
    });
    let place = queue.partition_point(|waiter| waiter.ticket < ticket);
    queue.insert(place, Waiter { ticket, id, is_live: true });
    ticket
}
