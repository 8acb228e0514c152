//! When each waiter was told to ask again. A client that forgets that leaves a free lock to nobody.

use std::collections::BTreeMap;

use super::change::Change;
use super::format::Ask;
use super::overview::locks;
use super::stored::Place;
use crate::server::core::Core;

/// The answer to a request that waits: its position, its heartbeat, and in how many milliseconds it is
/// to ask again.
const QUEUED: i64 = 5;

/// When waiters are to ask again, by the server's clock, in microseconds.
#[derive(Debug, Default)]
pub(super) struct Appointments(BTreeMap<(Place, Vec<u8>), i64>);

/// A waiter that was to ask again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    pub lock: String,
    pub request: Vec<u8>,
    /// By how much it is late, in microseconds.
    pub by_us: i64,
}

impl Appointments {
    /// Notes what a call has answered to its requests.
    pub(super) fn note(&mut self, change: &Change<'_>, now_us: i64) {
        for request in change.requests() {
            let key = (change.place.clone(), request.id().to_vec());
            match change.answer(request)[..] {
                [QUEUED, _, _, again_ms] => {
                    self.0.insert(key, now_us + again_ms * 1_000);
                }
                _ => {
                    self.0.remove(&key);
                }
            }
        }
    }

    /// The live waiters in the queues that have not asked in time. Forgets those that wait no longer.
    pub(super) fn late(&mut self, core: &Core) -> Vec<Late> {
        let mut known = std::mem::take(&mut self.0);
        let mut late = Vec::new();
        for (place, stored) in locks(core) {
            // A dead waiter asks no more: its client may have been unable to take it back.
            let live = |ask: &Ask<'_>| ask.until_ms > stored.now_ms;
            for (id, ..) in stored.waiting().filter(|(.., ask)| live(ask)) {
                let Some((key, due_us)) = known.remove_entry(&(place.clone(), id.to_vec())) else {
                    continue;
                };
                if core.now_us > due_us {
                    let (lock, by_us) = (place.to_string(), core.now_us - due_us);
                    late.push(Late { lock, request: id.to_vec(), by_us });
                }
                self.0.insert(key, due_us);
            }
        }
        late
    }
}
