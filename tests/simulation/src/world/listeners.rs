//! Who waits is heard of: the client of a waiter listens on the server that has its lock. One that
//! listens elsewhere, at a master of before, still asks every two seconds, so `liveness` alone would
//! see nothing; but others overtake it, and it keeps leases that nobody can ask back.
//!
//! As in `liveness`, nothing is promised while a fault could be in the way, and for some time after.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::director::Director;
use super::lasting::{Lasting, lasts};
use super::standstill::clients;
use crate::network::Micros;
use crate::oracle::{CLIENT, Waiting, heard};
use crate::trace::time;

/// How often the rule looks.
const LOOK: Micros = 200_000;

/// A client that has failed for long pauses for up to five seconds; so long after a fault it is back.
const MOST: Micros = 2_500_000;

/// A waiter of a process on a server.
type Waiter = (SocketAddr, usize, Waiting);

/// Looks at all waiters, again and again.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    next: Micros,
    /// The processes of all clients that have listened somewhere.
    clients: BTreeMap<Vec<u8>, usize>,
    /// Since when a waiter is not heard, and whether it was told.
    since: Lasting<Waiter>,
}

impl Listeners {
    /// Looks whose messages go nowhere.
    pub(super) fn look(&mut self, director: &Director) {
        let now = director.now();
        if now < self.next {
            return;
        }
        self.next = now + LOOK;
        let mut network = director.network();
        let mut waiters = BTreeMap::new();
        for address in network.addresses() {
            let server = &network.host(address).server;
            self.clients.append(&mut clients(server));
            if server.is_master() {
                let of_server = heard(&server.core().borrow()).into_iter();
                waiters.extend(of_server.map(|(waiter, is_heard)| ((address, waiter), is_heard)));
            }
        }
        let mut before = std::mem::take(&mut self.since);
        for ((address, waiter), is_heard) in waiters {
            let client = waiter.request.get(..CLIENT).and_then(|it| self.clients.get(it));
            let Some(process) = client.copied() else { continue };
            if !director.is_promised("listeners", process, &waiter.lock, now) {
                continue;
            }
            if is_heard {
                director.shared.judge("listeners", None);
                continue;
            }
            let key = (address, process, waiter);
            let told = lasts(&key, (now, MOST), &mut before, &mut self.since);
            let wrong = told.map(|since| {
                let Waiting { lock, request } = &key.2;
                format!(
                    "since {}, p{process} waits for `{lock}` at {address}, and does not listen there: {}",
                    time(since).trim(),
                    String::from_utf8_lossy(request)
                )
            });
            director.shared.judge("listeners", wrong);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_history::{Effect, Kind};
    use tokio::time::sleep;

    use super::super::turn;
    use super::super::wishes::{Part, Wish};
    use super::*;

    /// Lets one process wait for what another one has, and takes the subscriptions of both; and says so
    /// or not. Returns what was found.
    fn with_a_waiter_that_is_not_heard(is_said: bool) -> Vec<String> {
        let (mut director, shared) = Director::quiet();
        let wish = |name: &str| {
            let part = Part::of("mutex", Kind::Mutex);
            let (ttl, wait) = (Duration::from_secs(20), Duration::from_secs(20));
            Wish::plain(part, name.to_owned(), ttl, wait)
        };
        director.start_with(move |worker| async move {
            let _held = worker.client.acquire(&wish("first")).await;
            sleep(Duration::from_secs(20)).await;
        });
        director.start_with(move |worker| async move {
            sleep(Duration::from_millis(100)).await;
            let _held = worker.client.acquire(&wish("next")).await;
        });
        while director.now() < 1_000_000 {
            turn(&mut director);
        }
        let address = director.network().addresses()[0];
        director.network().host(address).server.forget_listeners();
        if is_said {
            director.note_of(1, "test", Effect::Away, (0, 7_000_000));
        }
        while director.now() < 7_000_000 {
            turn(&mut director);
        }
        let found = shared.take_verdict().wrong.into_iter();
        found.filter(|it| it.starts_with("listeners")).collect()
    }

    #[test]
    fn a_waiter_that_is_not_heard_is_told() {
        let found = with_a_waiter_that_is_not_heard(false);
        let said = "listeners: since 1.";
        assert!(found.len() == 1 && found[0].starts_with(said), "{found:?}");
        assert!(found[0].contains("p1 waits for `{mutex}` at "), "{found:?}");
        assert!(with_a_waiter_that_is_not_heard(true).is_empty(), "a fault is an excuse");
    }
}
