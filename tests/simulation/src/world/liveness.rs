//! Nobody waits for a lock that could be had: as docs/guide/guarantees.md says, a waiter that can be
//! told of a lock has it at once, and asks for it when it was told to, or two seconds later at most.
//!
//! The rules look at what is stored on the servers, so they do not depend on what the clients
//! believe. They say nothing of a waiter while a fault could be in its way, and for some time after.
//! That a waiter inside of a process gets what its neighbour had is for `tests/history`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::director::Director;
use super::standstill::clients;
use crate::network::Micros;
use crate::oracle::{Awaited, CLIENT, Late, awaited};
use crate::trace::time;

/// How often the rules look.
const LOOK: Micros = 20_000;

/// What travels meanwhile, and the time between two looks.
const NEWS: Micros = 80_000;

/// A waiter asks again after this time at most.
const ASKS: Micros = 2_000_000;

/// A waiter that can't hear messages asks again after this time at most.
const ASKS_OFTEN: Micros = 200_000;

/// A lock that could be had.
#[derive(Debug)]
struct Free {
    since: Micros,
    awaited: Awaited,
    is_told: bool,
}

/// Looks at all locks, again and again.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    next: Micros,
    free: BTreeMap<(SocketAddr, String), Free>,
    /// The requests that were found to be late.
    late: BTreeSet<Vec<u8>>,
}

impl Liveness {
    /// Looks who waits for too long.
    pub(super) fn look(&mut self, director: &Director) {
        let now = director.now();
        if now < self.next {
            return;
        }
        self.next = now + LOOK;
        let mut before = std::mem::take(&mut self.free);
        // Who asks again after some time does so by its own clock.
        let mut news = NEWS + director.drift().apart(ASKS);
        if director.may_be_deaf() {
            news += ASKS_OFTEN;
        }
        let mut network = director.network();
        for address in network.addresses() {
            let server = &mut network.host(address).server;
            // What a replica has is its master's.
            if !server.is_master() {
                continue;
            }
            let clients = clients(server);
            // The process that a request is of, if nothing is in its way.
            let promised = |request: &[u8], lock: &str| {
                clients
                    .get(&request[..CLIENT])
                    .filter(|it| director.is_promised("liveness", **it, lock, now))
            };
            for awaited in awaited(&server.core().borrow()) {
                let Some(process) = promised(&awaited.first, &awaited.lock).copied() else {
                    continue;
                };
                let key = (address, awaited.lock.clone());
                let known = before.remove(&key).filter(|it| it.awaited.state == awaited.state);
                let mut free = known.unwrap_or(Free { since: now, awaited, is_told: false });
                let wrong = free.problem(process, now, news);
                // At first sight it may have been free for a moment.
                if free.since < now {
                    director.shared.judge("liveness", wrong);
                }
                self.free.insert(key, free);
            }
            for Late { lock, request, by_us } in server.late() {
                let Some(process) = promised(&request, &lock) else { continue };
                let is_late = by_us > i64::try_from(news).expect("it is short")
                    && self.late.insert(request.clone());
                let wrong = is_late.then(|| {
                    format!(
                        "p{process} was to ask again for `{lock}` {} ms ago: {}",
                        by_us / 1_000,
                        String::from_utf8_lossy(&request)
                    )
                });
                director.shared.judge("asks again", wrong);
            }
        }
    }
}

impl Free {
    /// What is wrong if it is still free now; once.
    fn problem(&mut self, process: usize, now: Micros, news: Micros) -> Option<String> {
        let (bound, is) =
            if self.awaited.is_offered { (news, "offered") } else { (ASKS + news, "free") };
        if self.is_told || now - self.since <= bound {
            return None;
        }
        self.is_told = true;
        let Awaited { lock, first, .. } = &self.awaited;
        let (since, first) = (time(self.since), String::from_utf8_lossy(first));
        let since = since.trim();
        Some(format!("`{lock}` is {is} since {since}, and p{process} waits: {first}"))
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
    use crate::network::LinkFaults;

    /// Takes from two waiters their way to the server, just before the lock is released; and says so
    /// or not. Returns what was found.
    fn with_waiters_that_hear_nothing(is_said: bool) -> Vec<String> {
        let (mut director, shared) = Director::quiet();
        let wish = |name: &str| {
            let part = Part::of("mutex", Kind::Mutex);
            let (ttl, wait) = (Duration::from_secs(1), Duration::from_secs(20));
            Wish::plain(part, name.to_owned(), ttl, wait)
        };
        director.start_with(move |worker| async move {
            let held = worker.client.acquire(&wish("first")).await;
            sleep(Duration::from_millis(300)).await;
            drop(held);
        });
        for after in [100, 110] {
            director.start_with(move |worker| async move {
                sleep(Duration::from_millis(after)).await;
                let _held = worker.client.acquire(&wish("next")).await;
            });
        }
        while director.now() < 200_000 {
            turn(&mut director);
        }
        let until = 5_000_000;
        let faults = LinkFaults { blocked_until: Some(until), ..LinkFaults::default() };
        for process in [1, 2] {
            director.network().links.disturb(process, None, faults);
            if is_said {
                director.note_of(process, "test", Effect::Away, (0, until));
            }
        }
        while director.now() < until + 1_000_000 {
            turn(&mut director);
        }
        // Its processes write down no requests, so to `orphans` they have none.
        let found = shared.take_verdict().wrong.into_iter();
        found.filter(|it| it.starts_with("liveness") || it.starts_with("asks again")).collect()
    }

    #[test]
    fn a_lock_that_nobody_takes_is_told() {
        let found = with_waiters_that_hear_nothing(false);
        for part in ["is offered since 0.3", "is free since 1.3", "p2 was to ask again"] {
            assert!(found.iter().any(|it| it.contains(part)), "{part} is not in {found:?}");
        }
        assert!(with_waiters_that_hear_nothing(true).is_empty(), "a fault is an excuse");
    }
}
