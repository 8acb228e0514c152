//! How a waiter is told of an offer: the include `tell`.

use super::context::Context;
use super::queue::{Queue, Waiter};
use crate::store::{Hint, RequestId};

/// How many clients are tried when an offer's client receives no hints.
const TRIED: usize = 8;

/// Tells a waiter that it has been offered the lock.
///
/// A client that receives no hints may be dead. Then its other waiters live no longer than the
/// offer, unless they ask again; and the first client that does receive hints is told to ask,
/// and so learns when the offer ends.
pub(super) fn tell(
    queue: &mut Queue,
    (id, waiter): (RequestId, &Waiter),
    token: u64,
    context: &mut Context<'_>,
) {
    let ends = waiter.offer_ends(context.now);
    let (until, early) = (waiter.until.micros(), waiter.until - ends);
    if context.tell(id.client(), Hint::Offered { id, token, until, early }) {
        return;
    }
    queue.doubt(id.client(), ends);
    let mut deaf = vec![id.client()];
    for other in queue.ids() {
        let client = other.client();
        if !deaf.contains(&client) {
            deaf.push(client);
            if deaf.len() > TRIED + 1 || context.tell(client, Hint::Free { id: other }) {
                return;
            }
        }
    }
}
