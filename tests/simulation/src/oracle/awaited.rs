//! Locks that nobody has although somebody waits for them.

use std::collections::BTreeSet;

use super::format::{Ask, Mode};
use super::overview::locks;
use super::stored::{Place, Stored};
use crate::server::core::Core;

/// A lock that could be given to somebody who waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    pub lock: String,
    /// The first live waiter; or the request that it is offered to.
    pub first: Vec<u8>,
    pub is_offered: bool,
    /// It is another one after each grant and each end of a lease.
    pub state: (Vec<u8>, BTreeSet<Vec<u8>>),
}

/// The locks of a server that stand free while a live waiter is there. A waiter counts as alive until
/// its heartbeat ends.
pub fn awaited(core: &Core) -> Vec<Awaited> {
    let waits = |(place, stored): (Place, Stored)| {
        let (first, is_offered) = first(&stored)?;
        let state = (known(&stored), stored.live().map(|it| it.holder.id.to_vec()).collect());
        Some(Awaited { lock: place.to_string(), first, is_offered, state })
    };
    locks(core).filter_map(waits).collect()
}

/// The record without the flag that says whether somebody may wait.
fn known(stored: &Stored) -> Vec<u8> {
    let record = stored.record.as_ref().map(|it| it.value.as_slice()).unwrap_or_default();
    record.iter().enumerate().filter(|(at, _)| *at != 52).map(|(_, byte)| *byte).collect()
}

fn first(stored: &Stored) -> Option<(Vec<u8>, bool)> {
    let record = stored.record().filter(|_| !stored.is_foreign);
    if let Some(offer) = record.filter(|it| it.state() == b'O') {
        return Some((offer.id().to_vec(), true));
    }
    // Where the first is too heavy, the others wait behind it.
    let (id, _, ask) = stored.waiting().find(|(_, _, ask)| ask.is_live(stored.now_ms))?;
    (!stored.is_foreign && could_have(stored, id, &ask)).then(|| (id.to_vec(), false))
}

/// Whether a waiter's request excludes none of the holders.
pub(super) fn could_have(stored: &Stored, id: &[u8], ask: &Ask<'_>) -> bool {
    let Some(own) = ask.holder(id) else { return false };
    let mut others = stored.live().map(|it| it.holder);
    let is_kept = stored.record().is_some_and(|it| it.state() == b'K');
    // Its work may be done in this tick.
    if is_kept || ask.is_once && stored.done.is_some() {
        return false;
    }
    match own.mode {
        Mode::Alone => others.next().is_none(),
        Mode::Reentrant | Mode::Writer => {
            others.all(|it| it.owner.is_some() && it.owner == own.owner)
        }
        Mode::Reader => others.all(|it| it.mode == Mode::Reader),
        Mode::Permit => {
            let taken: u64 = others.map(|it| u64::from(it.weight)).sum();
            taken + u64::from(own.weight) <= u64::from(ask.limit.unwrap_or(1))
        }
    }
}
