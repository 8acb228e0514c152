//! What operators see of the locks, by `inspect`, `list` and `jobs`: it is what a server had when it was asked.

use std::collections::{BTreeMap, BTreeSet};

use leasehold::{Holder, LockInfo, LockKind, Locks, Waiter};

use super::jobs::JOB;
use super::plan::Deployment;
use super::turns::Worker;
use super::wishes::PROBES;
use crate::network::Network;
use crate::oracle::holders;
use crate::process;

/// How much each server had shown, and who held what, before somebody looked.
struct Before {
    shown: Vec<usize>,
    held: BTreeMap<String, BTreeSet<Vec<u8>>>,
}

impl Before {
    fn now() -> Self {
        let (mut shown, mut held) = (Vec::new(), BTreeMap::new());
        process::in_network(|network, _| {
            each_server(network, |seen| shown.push(seen.len()));
            held = all_held(network);
        });
        Self { shown, held }
    }

    /// What the servers have shown since then.
    fn shown_since(&self) -> BTreeSet<Vec<String>> {
        let (mut since, mut count) = (BTreeSet::new(), self.shown.iter());
        process::in_network(|network, _| {
            each_server(network, |seen| {
                since.extend(seen[*count.next().expect("no server is new")..].iter().cloned());
            });
        });
        since
    }

    /// The locks that a request has held all the time since then.
    fn held_since(&self) -> BTreeSet<String> {
        let mut held = BTreeMap::new();
        process::in_network(|network, _| held = all_held(network));
        let stayed = |(lock, ids): &(&String, &BTreeSet<Vec<u8>>)| {
            held.get(*lock).is_some_and(|now: &BTreeSet<_>| !now.is_disjoint(ids))
        };
        self.held.iter().filter(stayed).map(|(lock, _)| lock.clone()).collect()
    }
}

fn each_server(network: &mut Network, mut look: impl FnMut(&[Vec<String>])) {
    for address in network.addresses() {
        look(network.host(address).server.oracle().map_or(&[], |oracle| oracle.shown()));
    }
}

fn all_held(network: &mut Network) -> BTreeMap<String, BTreeSet<Vec<u8>>> {
    let addresses = network.addresses();
    let of = |address| {
        let server = &network.host(address).server;
        holders(&server.core().borrow()).collect::<Vec<_>>()
    };
    addresses.into_iter().flat_map(of).collect()
}

/// A lock as it was shown, as the oracle says it.
fn lines(info: &LockInfo, has_record: bool) -> Vec<String> {
    let mut lines = vec![format!("name {}", info.name)];
    lines.extend(info.kind.filter(|_| has_record).map(|kind| format!("kind {}", kind.name())));
    lines.push(format!("held by {}", info.held));
    let mut holders: Vec<_> = info.holders.iter().map(holder).collect();
    holders.sort();
    lines.extend(holders);
    lines.push(format!("{} wait", info.waiting));
    lines.extend(info.waiters.iter().map(waiter));
    lines.push(format!("limit {:?}", info.last_limit));
    lines.push(format!("kept {}", info.kept.is_some()));
    lines.push(format!("done {}", info.last_success.is_some()));
    lines
}

fn holder(holder: &Holder) -> String {
    let Holder { id, owner, note, is_writer, weight, fence, .. } = holder;
    format!("holder {id} {:?} {weight} {owner:?} {note:?} {is_writer}", fence.map(u64::from))
}

fn waiter(waiter: &Waiter) -> String {
    let Waiter { owner, note, is_writer, weight, limit, .. } = waiter;
    format!("waiter {weight} {owner:?} {note:?} {is_writer} {limit:?}")
}

impl Worker {
    /// Looks at all locks, as an operator does.
    pub(super) async fn look_around(&self, locks: &Locks) {
        for (lock, _) in PROBES {
            let before = Before::now();
            if let Ok(info) = locks.inspect(lock).await {
                self.expect_shown(&info, &before);
            }
        }
        self.expect_list(locks).await;
        self.expect_jobs(locks).await;
    }

    /// A server has had the lock as it was shown.
    fn expect_shown(&self, info: &LockInfo, before: &Before) {
        if info.kind == Some(LockKind::Foreign) {
            return;
        }
        let shown = before.shown_since();
        let is_so =
            [true, false].iter().any(|has_record| shown.contains(&lines(info, *has_record)));
        let name = format!("name {}", info.name);
        let wrong = (!is_so).then(|| {
            let had: Vec<_> = shown.iter().filter(|it| it[0] == name).collect();
            format!("{} sees {:?}, and the servers had {had:?}", self.name, lines(info, true))
        });
        self.shared.judge("overview", wrong);
    }

    /// A lock that somebody holds all the time is in the list, and none that nobody wants.
    async fn expect_list(&self, locks: &Locks) {
        let (before, mut listed) = (Before::now(), BTreeSet::new());
        let mut list = locks.list("*");
        while let Some(found) = list.next().await {
            let Ok(info) = found else { return };
            self.expect_shown(&info, &before);
            let is_nothing = info.held == 0 && info.waiting == 0 && info.kept.is_none();
            let wrong = is_nothing.then(|| format!("{}: nobody has {info:?}", self.name));
            self.shared.judge("overview", wrong);
            listed.insert(info.name);
        }
        // Elsewhere a replica has what its master does not have yet, or has no more.
        if self.deployment == Deployment::Single {
            let held = before.held_since();
            let left_out: Vec<_> = held.difference(&listed).collect();
            let wrong = (!left_out.is_empty())
                .then(|| format!("{}: the list has no {left_out:?}", self.name));
            self.shared.judge("overview", wrong);
        }
    }

    /// There is one job; a run that is shown is one that holds its lock.
    async fn expect_jobs(&self, locks: &Locks) {
        let before = Before::now();
        let Ok(jobs) = locks.jobs("*").await else { return };
        let shown = before.shown_since();
        for job in jobs {
            let runs = job.running.as_ref().map(holder);
            let is_so = runs.is_none_or(|runs| shown.iter().any(|lines| lines.contains(&runs)));
            let wrong = (job.name != JOB || !is_so).then(|| format!("{}: {job:?}", self.name));
            self.shared.judge("overview", wrong);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_history::Kind;

    use super::super::director::Director;
    use super::super::turn;
    use super::super::wishes::{Part, Wish};
    use super::*;
    use crate::world::client::Client;

    #[test]
    fn another_lock_than_was_shown_is_told() {
        let (mut director, shared) = Director::quiet();
        director.start_with(async move |worker| {
            let Client::All(locks) = &worker.client else { panic!("it is one server") };
            let (part, ttl) = (Part::of("mutex", Kind::Mutex), Duration::from_secs(20));
            let wish = Wish { note: Some("why"), ..Wish::plain(part, "a".to_owned(), ttl, ttl) };
            let _held = worker.called(&wish).await.expect("it is free");
            worker.look_around(locks).await;
            let before = Before::now();
            let mut info = locks.inspect("mutex").await.expect("the server is there");
            info.held += 1;
            worker.expect_shown(&info, &before);
        });
        while director.now() < 1_000_000 {
            turn(&mut director);
        }
        let verdict = shared.take_verdict();
        assert_eq!(verdict.judged.get("overview"), PROBES.len() as u64 + 4);
        let is_ours = |it: &String| it.starts_with("overview");
        let found: Vec<_> = verdict.wrong.into_iter().filter(is_ours).collect();
        assert!(found.len() == 1 && found[0].starts_with("overview: p0 sees"), "{found:?}");
    }
}
