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
                let claim = Claim { lock: lock.clone(), ttl: *ttl, linger: *linger, until: None };
                self.0.entry(worker(id).to_owned()).or_default().insert(id.clone(), claim);
            }
            Line::Refused { id, at, .. } => self.end(id, |_| *at),
            Line::Freed { id, at, how } if how == "detached" => self.end(id, |it| at + it.ttl),
            Line::Freed { id, at, .. } => self.end(id, |it| at + it.linger),
            Line::Dead { worker, .. } => {
                self.0.remove(worker);
            }
            _ => {}
        }
    }

    fn end(&mut self, id: &str, at: impl Fn(&Claim) -> Nanos) {
        let claim = self.0.get_mut(worker(id)).and_then(|of_worker| of_worker.get_mut(id));
        if let Some(claim) = claim {
            claim.until = Some(at(claim) + NEWS);
        }
    }

    /// How many requests of a process for a lock its server may have.
    pub(super) fn count(&mut self, worker: &str, lock: &str, now: Nanos) -> usize {
        let Some(of_worker) = self.0.get_mut(worker) else { return 0 };
        of_worker.retain(|_, claim| claim.until.is_none_or(|until| now < until));
        of_worker.values().filter(|claim| claim.lock == lock).count()
    }
}
