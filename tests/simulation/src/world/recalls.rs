//! An idle lease is given back once somebody else waits for its lock: its server recalls it.
//!
//! As in `liveness`, nothing is promised while a fault could be in the way, and for some time after.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::director::Director;
use super::jobs::JOB;
use crate::network::Micros;
use crate::oracle::wanted;
use crate::trace::time;

/// How often the rule looks.
const LOOK: Micros = 50_000;

/// A release is under way for this long, and so is what recalls a lease.
const NEWS: Micros = 600_000;

/// The server, the lock and the request that holds it.
type Place = (SocketAddr, String, Vec<u8>);

/// Looks at all locks that somebody waits for, again and again.
#[derive(Debug, Default)]
pub(super) struct Recalls {
    next: Micros,
    /// Since when nobody uses a lease that others wait for, and whether it was told.
    since: BTreeMap<Place, (Micros, bool)>,
}

impl Recalls {
    /// Looks which idle leases stay.
    pub(super) fn look(&mut self, director: &Director) {
        let now = director.now();
        if now < self.next {
            return;
        }
        self.next = now + LOOK;
        let mut before = std::mem::take(&mut self.since);
        if director.is_disturbed() {
            return;
        }
        let mut network = director.network();
        for address in network.addresses() {
            let server = &network.host(address).server;
            if !server.is_master() {
                continue;
            }
            let all: Vec<_> = wanted(&server.core().borrow()).filter(|it| it.0 != JOB).collect();
            for (lock, holders) in all {
                for id in holders {
                    let Some(process) = network.process_of(&id) else { continue };
                    if !director.is_promised(process, &lock, now) {
                        continue;
                    }
                    if director.uses(process, &lock, now) {
                        director.shared.judge("recalls", None);
                        continue;
                    }
                    let place = (address, lock.clone(), id);
                    let (since, was_told) = before.remove(&place).unwrap_or((now, false));
                    let is_told = now - since > NEWS;
                    let wrong = (is_told && !was_told).then(|| {
                        format!(
                            "since {}, others wait for `{lock}`, and nobody in p{process} uses its lease: {}",
                            time(since).trim(),
                            String::from_utf8_lossy(&place.2)
                        )
                    });
                    director.shared.judge("recalls", wrong);
                    self.since.insert(place, (since, is_told));
                }
            }
        }
    }
}
