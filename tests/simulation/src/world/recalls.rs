//! An idle lease is given back once somebody else waits for its lock: its server recalls it.
//!
//! As in `liveness`, nothing is promised while a fault could be in the way, and for some time after.

use std::net::SocketAddr;

use super::director::Director;
use super::jobs::JOB;
use super::lasting::{Lasting, lasts};
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
    since: Lasting<Place>,
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
        let mut network = director.network();
        for address in network.addresses() {
            let server = &network.host(address).server;
            if !server.is_master() {
                continue;
            }
            let all: Vec<_> = wanted(&server.core().borrow()).filter(|it| it.0 != JOB).collect();
            for (lock, holders) in all {
                for id in holders.into_iter().filter(|it| !director.revived.contains(it)) {
                    let Some(process) = network.process_of(&id) else { continue };
                    if !director.is_promised("recalls", process, &lock, now) {
                        continue;
                    }
                    if director.uses(process, &lock, now) {
                        director.shared.judge("recalls", None);
                        continue;
                    }
                    let place = (address, lock.clone(), id);
                    let told = lasts(&place, (now, NEWS), &mut before, &mut self.since);
                    let wrong = told.map(|since| {
                        format!(
                            "since {}, others wait for `{lock}`, and nobody in p{process} uses its lease: {}",
                            time(since).trim(),
                            String::from_utf8_lossy(&place.2)
                        )
                    });
                    director.shared.judge("recalls", wrong);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_history::Kind;
    use tokio::time::sleep;

    use super::super::turn;
    use super::super::wishes::{Part, Wish};
    use super::*;

    /// A process keeps a lease that it has noted, or not, while another waits. Returns what was found.
    fn with_a_lease(is_noted: bool) -> Vec<String> {
        let (mut director, shared) = Director::quiet();
        let wish = |name: &str| {
            let part = Part::of("mutex", Kind::Mutex);
            let (ttl, wait) = (Duration::from_secs(20), Duration::from_secs(20));
            Wish::plain(part, name.to_owned(), ttl, wait)
        };
        director.start_with(move |worker| async move {
            if is_noted {
                worker.ask(&wish("first"));
            }
            let _held = worker.client.acquire(&wish("first")).await;
            sleep(Duration::from_secs(20)).await;
        });
        director.start_with(move |worker| async move {
            sleep(Duration::from_millis(100)).await;
            worker.ask(&wish("next"));
            let _held = worker.client.acquire(&wish("next")).await;
        });
        while director.now() < 3_000_000 {
            turn(&mut director);
        }
        let found = shared.take_verdict().wrong.into_iter();
        found.filter(|it| it.starts_with("recalls")).collect()
    }

    #[test]
    fn a_lease_that_nobody_uses_is_told() {
        assert_eq!(with_a_lease(true), [""; 0]);
        let found = with_a_lease(false);
        let said = "others wait for `mutex`, and nobody in p0 uses its lease";
        assert!(found.len() == 1 && found[0].contains(said), "{found:?}");
    }
}
