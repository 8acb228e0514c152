//! Waiters, and whether a message of their lock's server reaches them.

use std::collections::BTreeMap;

use super::overview::locks;
use crate::server::core::Core;

/// A live waiter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    pub lock: String,
    pub request: Vec<u8>,
}

/// The waiters of a server, and whether their clients listen to a channel of their lock.
pub fn heard(core: &Core) -> BTreeMap<Waiting, bool> {
    let mut all = BTreeMap::new();
    for (place, stored) in locks(core) {
        for (id, ..) in stored.waiting().filter(|(.., ask)| ask.is_live(stored.now_ms)) {
            let mut clients = core.subscriptions.keys().filter_map(|it| place.listener(&it.name));
            let is_heard = clients.any(|client| id.starts_with(client));
            all.insert(Waiting { lock: place.to_string(), request: id.to_vec() }, is_heard);
        }
    }
    all
}
