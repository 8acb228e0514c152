//! Requests that a server has and their process has not: a lease that nobody uses keeps a lock from
//! others until its TTL ends, and the place of nobody keeps them waiting.
//!
//! As in `liveness`, nothing is promised while a fault could be in the way, and for some time after.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::director::Director;
use super::lasting::{Lasting, lasts};
use crate::network::Micros;
use crate::oracle::requests;
use crate::trace::time;

/// How often the rule looks.
const LOOK: Micros = 50_000;

/// For so long there may be too many: the process says at once what it does not want any more.
const MOST: Micros = 200_000;

/// The server, the process and the lock.
type Place = (SocketAddr, usize, String);

/// Looks at all locks, again and again.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    next: Micros,
    /// Since when there are too many, and whether it was told.
    since: Lasting<Place>,
}

impl Orphans {
    /// Looks which processes have forgotten requests.
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
            // What a replica has is its master's.
            if !server.is_master() {
                continue;
            }
            let all = requests(&server.core().borrow());
            for (lock, ids) in all {
                let mut of_process = BTreeMap::<usize, Vec<_>>::new();
                for id in ids.difference(&director.revived).cloned() {
                    if let Some(process) = network.process_of(&id) {
                        of_process.entry(process).or_default().push(id);
                    }
                }
                for (process, ids) in of_process {
                    let most = director.claims(process, &lock, now);
                    if !director.is_promised("orphans", process, &lock, now) {
                        continue;
                    }
                    if ids.len() <= most {
                        director.shared.judge("orphans", None);
                        continue;
                    }
                    let place = (address, process, lock.clone());
                    let told = lasts(&place, (now, MOST), &mut before, &mut self.since);
                    let wrong = told.map(|since| {
                        let ids: Vec<_> =
                            ids.iter().map(|id| String::from_utf8_lossy(id)).collect();
                        format!(
                            "since {}, p{process} has {most} requests for `{lock}`, and the server has {}",
                            time(since).trim(),
                            ids.join(", ")
                        )
                    });
                    director.shared.judge("orphans", wrong);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_history::{Kind, Line};
    use tokio::time::sleep;

    use super::super::turn;
    use super::super::turns::now;
    use super::super::wishes::{Part, Wish};
    use super::*;

    /// Acquires a lock, and says after its release, or before, that it is free.
    fn with_a_holder(is_released: bool) -> Vec<String> {
        let (mut director, shared) = Director::quiet();
        director.start_with(move |worker| async move {
            let (ttl, wait) = (Duration::from_secs(20), Duration::ZERO);
            let part = Part::of("of:{7}:third", Kind::Mutex);
            let wish = Wish::plain(part, "first".to_owned(), ttl, wait);
            let id = worker.ask(&wish).remove(0);
            let mut held = Some(worker.client.acquire(&wish).await);
            sleep(Duration::from_secs(1)).await;
            if is_released {
                held = None;
            }
            worker.note(Line::Freed { id, at: now(), how: "dropped".to_owned() });
            sleep(Duration::from_secs(4)).await;
            drop(held);
        });
        while director.now() < 4_000_000 {
            turn(&mut director);
        }
        shared.take_verdict().wrong
    }

    #[test]
    fn a_forgotten_lease_is_told() {
        let found = with_a_holder(false);
        let said = "orphans: since 1.5";
        assert!(found.len() == 1 && found[0].starts_with(said), "{found:?}");
        assert!(found[0].contains("p0 has 0 requests for `of:{7}:third`"), "{found:?}");
        assert!(with_a_holder(true).is_empty());
    }
}
