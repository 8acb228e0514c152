//! Waiters that a message of their lock's server does not reach.

use super::overview::locks;
use crate::server::core::Core;

/// A live waiter whose client listens to no channel of its lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unheard {
    pub lock: String,
    pub request: Vec<u8>,
}

/// The waiters of a server that nobody can tell anything.
pub fn unheard(core: &Core) -> Vec<Unheard> {
    let mut found = Vec::new();
    for (place, stored) in locks(core) {
        for (id, ..) in stored.waiting().filter(|(.., ask)| ask.is_live(stored.now_ms)) {
            let mut clients = core.subscriptions.keys().filter_map(|it| place.listener(&it.name));
            if !clients.any(|client| id.starts_with(client)) {
                found.push(Unheard { lock: place.to_string(), request: id.to_vec() });
            }
        }
    }
    found
}
