//! The requests that a server knows.

use std::collections::BTreeSet;

use super::overview::locks;
use super::stored::{Place, Stored};
use crate::server::core::Core;

/// A client takes a lease for over by so many milliseconds before its server does.
const EARLY_MS: i64 = 50;

/// For each lock, by its name, the requests whose leases its server has, and their clients still count.
pub(crate) fn holders(core: &Core) -> impl Iterator<Item = (String, BTreeSet<Vec<u8>>)> {
    locks(core).map(|(place, stored)| {
        let lasting = stored.live().filter(|it| it.ends_ms > stored.now_ms + EARLY_MS);
        (place.name(), lasting.map(|it| it.holder.id.to_vec()).collect())
    })
}

/// For each lock that somebody waits for, by its name, the requests that hold it.
pub(crate) fn wanted(core: &Core) -> impl Iterator<Item = (String, Vec<Vec<u8>>)> {
    let is_wanted =
        |it: &Stored| it.waiting().any(|(.., ask)| ask.until_ms > it.now_ms) && !it.is_foreign;
    locks(core).filter(move |(_, stored)| is_wanted(stored)).map(|(place, stored)| {
        (place.name(), stored.live().map(|it| it.holder.id.to_vec()).collect())
    })
}

/// For each lock, by its name, the requests that hold it, are offered it, or wait for it. A dead waiter
/// is left out.
pub fn requests(core: &Core) -> Vec<(String, BTreeSet<Vec<u8>>)> {
    let of_lock = |(place, stored): (Place, Stored)| {
        let mut ids: BTreeSet<_> = stored.live().map(|it| it.holder.id.to_vec()).collect();
        let waiting = stored.waiting().filter(|(.., ask)| ask.until_ms > stored.now_ms);
        ids.extend(waiting.map(|(id, ..)| id.to_vec()));
        if let Some(offer) = stored.record().filter(|it| !stored.is_foreign && it.state() == b'O') {
            ids.insert(offer.id().to_vec());
        }
        (place.name(), ids)
    };
    locks(core).map(of_lock).collect()
}
