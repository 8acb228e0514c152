//! The requests that a server knows of: what somebody can say of them who reads its keys.

use super::format::{Ask, Record};
use super::overview::locks;
use super::stored::{Place, Stored};
use crate::server::core::Core;

/// A request that holds a lock or waits for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) id: Vec<u8>,
    pub(crate) record_key: Vec<u8>,
    /// The token of the lock.
    pub(crate) token: u64,
    /// Until when it waits, or until some time after now.
    pub(crate) until_ms: i64,
}

/// All of them.
pub(crate) fn known(core: &Core) -> Vec<Known> {
    locks(core).flat_map(|(place, stored)| of_lock(&place, &stored)).collect()
}

fn of_lock(place: &Place, stored: &Stored) -> Vec<Known> {
    let token = stored.record().map_or(0, Record::token);
    let known = |id: &[u8], until_ms| Known {
        id: id.to_vec(),
        record_key: place.key("lock"),
        token,
        until_ms,
    };
    let holders = stored.live().map(|it| known(it.holder.id, stored.now_ms + 6_000));
    let waiters = stored.waiting().map(|(id, _, ask): (_, _, Ask<'_>)| known(id, ask.until_ms));
    holders.chain(waiters).collect()
}
