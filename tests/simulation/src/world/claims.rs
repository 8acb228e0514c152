//! Which requests each process has: those that it made and that have not ended, and those that have
//! ended a moment ago.

use std::collections::BTreeMap;

use leasehold_history::{Line, Nanos};

/// What travels after the end: a release, a cancel, and their answers.
const NEWS: Nanos = 500_000_000;

/// A request that its server may have.
#[derive(Debug)]
struct Claim {
    lock: String,
    ttl: Nanos,
    /// How long its lease may stay with the process after its release.
    linger: Nanos,
    until: Option<Nanos>,
    /// Its lease was let go to another process.
    is_detached: bool,
}

/// The claims of all processes.
#[derive(Debug, Default)]
pub(super) struct Claims(BTreeMap<String, BTreeMap<String, Claim>>);

fn worker(id: &str) -> &str {
    id.split(':').next().unwrap_or_default()
}

impl Claims {
    /// Notes what a line of the history says.
    pub(super) fn note(&mut self, line: &Line) {
        match line {
            Line::Ask { id, lock, ttl, linger, .. } => {
                let (lock, ttl, linger) = (lock.clone(), *ttl, *linger);
                let claim = Claim { lock, ttl, linger, until: None, is_detached: false };
                self.0.entry(worker(id).to_owned()).or_default().insert(id.clone(), claim);
            }
            Line::Refused { id, at, .. } => self.end(id, |_| *at),
            Line::Freed { id, at, how } if how == "detached" => self.end(id, |it| {
                it.is_detached = true;
                at + it.ttl
            }),
            Line::Freed { id, at, .. } => self.end(id, |it| at + it.linger),
            Line::Dead { worker, .. } => {
                self.0.remove(worker);
            }
            _ => {}
        }
    }

    fn end(&mut self, id: &str, at: impl FnOnce(&mut Claim) -> Nanos) {
        let claim = self.0.get_mut(worker(id)).and_then(|of_worker| of_worker.get_mut(id));
        if let Some(claim) = claim {
            let at = at(claim);
            claim.until = Some(at + NEWS);
        }
    }

    /// How many requests of a process for a lock its server may have.
    pub(super) fn count(&mut self, worker: &str, lock: &str, now: Nanos) -> usize {
        let Some(of_worker) = self.0.get_mut(worker) else { return 0 };
        of_worker.retain(|_, claim| claim.until.is_none_or(|until| now < until));
        of_worker.values().filter(|claim| claim.lock == lock).count()
    }

    /// How many leases of a process for a lock have gone to others, and may last.
    pub(super) fn detached(&self, worker: &str, lock: &str, now: Nanos) -> usize {
        let own = self.0.get(worker).into_iter().flat_map(BTreeMap::values);
        let is_open = |it: &&Claim| it.until.is_none_or(|until| now < until);
        own.filter(is_open).filter(|it| it.is_detached && it.lock == lock).count()
    }

    /// True if a process may use a lock: one of its requests for it has not ended, or its lease has gone to
    /// another process.
    pub(super) fn uses(&self, worker: &str, lock: &str, now: Nanos) -> bool {
        let own = self.0.get(worker).into_iter().flat_map(BTreeMap::values);
        let may_use = |it: &Claim| {
            it.until.is_none() || it.is_detached && it.until.is_some_and(|until| now < until)
        };
        own.filter(|it| it.lock == lock).any(may_use)
    }
}
