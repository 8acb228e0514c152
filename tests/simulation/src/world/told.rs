//! What an error says, and a shutdown: it is so.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::{Lease, LockError, Outcome, ShutdownReport};
use leasehold_history::{Kind, Nanos};

use super::jobs::JOB;
use super::plan::Deployment;
use super::turns::{Worker, now};
use super::wishes::{Part, Wish};
use crate::process;

/// What half of the requests call their locks.
pub(super) const LABEL: &str = "simulated";

/// Clocks of processes drift, and their timers are late.
const LATE: Duration = Duration::from_millis(5);

/// So long after the end of a request it is still known that there was one.
const KNOWN: Nanos = 500_000_000;

/// What there was before a request.
pub(super) struct Before {
    at: Nanos,
    /// How often its process was let in, at each of its locks.
    granted: Vec<u64>,
}

impl Before {
    /// What a request is compared with when it ends.
    pub(super) fn of(wish: &Wish) -> Self {
        let mut granted = Vec::new();
        process::in_network(|network, _| {
            let own = |part: &Part| network.granted(process::id(), part.lock);
            granted = wish.parts.iter().map(own).collect();
        });
        Self { at: now(), granted }
    }
}

impl Worker {
    /// Looks whether the error of a request for locks can be, from what the caller knows.
    pub(super) fn expect_true(&self, wish: &Wish, error: &LockError, before: &Before) {
        let wrong = self.untruth(wish, error, before).map(|problem| {
            let locks: Vec<_> = wish.parts.iter().map(|it| it.lock).collect();
            format!("{}: {}: {problem}: {error:?}", self.name, locks.join(", "))
        });
        self.shared.judge("told", wrong);
    }

    /// Looks whether a lease is named as its caller has said. A ticket says no label.
    pub(super) fn expect_label(&self, lease: &Lease, wish: &Wish) {
        let (has_label, is_label) = (wish.note.is_some(), lease.key().label() == Some(LABEL));
        let wrong = (wish.ticket.is_none() && has_label != is_label)
            .then(|| format!("{}: {lease:?} has another label", self.name));
        self.shared.judge("told", wrong);
    }

    /// What is wrong with an error.
    fn untruth(&self, wish: &Wish, error: &LockError, before: &Before) -> Option<&'static str> {
        let key = match error {
            LockError::Busy { key, .. }
            | LockError::TimedOut { key, .. }
            | LockError::Done { key, .. }
            | LockError::Closed { key, .. }
            | LockError::TicketEnded { key, .. }
            | LockError::WouldDeadlock { key, .. }
            | LockError::WrongKind { key, .. } => Some(key),
            _ => None,
        };
        let part = key.map(|key| wish.parts.iter().find(|it| it.lock == key.as_ref()));
        if part.is_some_and(|part| part.is_none()) {
            return Some("it names a lock that was not asked for");
        }
        let has_label = wish.note.is_some();
        // A ticket says no label.
        if wish.ticket.is_none() && key.is_some_and(|key| (key.label() == Some(LABEL)) != has_label)
        {
            return Some("it has another label");
        }
        let is_permit = part.flatten().is_some_and(|part| part.kind == Kind::Permits);
        let (took, waits) = (Duration::from_nanos(now() - before.at) + LATE, wish.waits());
        match error {
            LockError::Busy { .. } if !waits.is_zero() => Some("it was to wait"),
            LockError::Busy { is_semaphore, .. } | LockError::TimedOut { is_semaphore, .. }
                if *is_semaphore != is_permit =>
            {
                Some("it is wrong whether that is a semaphore")
            }
            LockError::Busy { held_by_caller, .. } | LockError::TimedOut { held_by_caller, .. }
                if *held_by_caller =>
            {
                Some("no caller is under a lease")
            }
            LockError::TimedOut { .. } if waits.is_zero() => Some("it was not to wait"),
            LockError::TimedOut { waited, .. } if *waited > self.clocks.longest(took) => {
                Some("it has waited for longer than it took")
            }
            LockError::TimedOut { waited, .. } if *waited + LATE < waits => {
                Some("it has not waited for that long")
            }
            LockError::TimedOut { held_by_client: true, key, .. }
                if self.own_claims(key.as_ref()) < 2 =>
            {
                Some("nobody else in this process has asked for it")
            }
            LockError::Done { .. } if wish.succeeds.is_none() => Some("it is no work"),
            LockError::WouldDeadlock { .. } if !wish.is_named => Some("it has said no owner"),
            LockError::TicketEnded { .. } if wish.ticket.is_none() => Some("it has no ticket"),
            LockError::ShutDown if !self.is_ending() => Some("nobody has shut it down"),
            LockError::Store { label, what, .. } | LockError::Quorum { label, what, .. }
                if label.is_some() != has_label && wish.ticket.is_none()
                    || !wish.parts.iter().any(|it| what.contains(it.lock)) =>
            {
                Some("it names another lock, or has another label")
            }
            LockError::Store { outcome: Outcome::NotRun, what, .. }
                if self.has_run(wish, what, before) =>
            {
                Some("it has run")
            }
            LockError::Lost { .. }
            | LockError::RateLimited { .. }
            | LockError::InvalidKey { .. }
            | LockError::InvalidOption { .. }
            | LockError::NotFenced { .. }
            | LockError::NotInstalled
            | LockError::NoRuntime
            | LockError::Unsupported { .. } => Some("it is none of a request"),
            _ => None,
        }
    }

    fn own_claims(&self, lock: &str) -> usize {
        self.shared.claims(&self.name, lock, process::now())
    }

    /// True if a server has let in this process at the lock of this text, which has asked for it with this try
    /// alone. Jobs ask for themselves.
    fn has_run(&self, wish: &Wish, what: &str, before: &Before) -> bool {
        let after = Before::of(wish).granted;
        let grown = wish.parts.iter().zip(before.granted.iter().zip(after));
        // Others may have asked during a longer call. What no replica has confirmed is taken
        // back.
        now() - before.at < KNOWN
            && wish.waits().is_zero()
            && !self.deployment.syncs()
            && wish.parts.len() == 1
            && wish.parts[0].lock != JOB
            && grown.into_iter().any(|(part, (before, after))| {
                after > *before && what.contains(part.lock) && self.own_claims(part.lock) <= 1
            })
    }

    /// Looks whether a shutdown has left no more than it says, on the servers as they are.
    pub(super) fn expect_shut_down(&self, report: &ShutdownReport) {
        let (at, mut may_kill) = (now(), false);
        process::in_network(|network, _| may_kill = network.may_kill());
        // Nobody has taken what is offered to a future that is not polled.
        let left = holders()
            .into_iter()
            .filter(|(lock, _)| !self.shared.is_neglected(&self.name, lock, at / 1_000))
            .map(|(lock, held)| held.saturating_sub(self.shared.detached(&self.name, &lock, at)));
        let left: usize = left.sum();
        // What had ended may count again, and where nobody ends connections, copies of asks arrive later. Where
        // servers vote, one of them may have what counts no more.
        let is_vote = matches!(self.deployment, Deployment::Quorum(_));
        if !may_kill || is_vote {
            return;
        }
        let wrong = (left > report.left).then(|| {
            format!("{}: a shutdown has left {left} leases and says {report:?}", self.name)
        });
        self.shared.suspect("shutdown", &self.name, (at, at), wrong);
    }
}

/// How many requests of this process hold locks, on the servers.
fn holders() -> BTreeMap<String, usize> {
    let mut holders = BTreeMap::new();
    process::in_network(|network, _| holders = network.holders(process::id()));
    holders
}

#[cfg(test)]
mod tests {
    use super::super::director::Director;
    use super::super::turn;
    use super::*;

    /// What the rules find in a process that does this.
    fn found<F: Future<Output = ()> + Send>(
        does: impl FnOnce(Worker, Wish) -> F + Send + 'static,
    ) -> Vec<String> {
        let (mut director, shared) = Director::quiet();
        director.start_with(move |worker| async move {
            let (part, ttl) = (Part::of("mutex", Kind::Mutex), Duration::from_secs(20));
            let wish = Wish::plain(part, worker.name.clone(), ttl, Duration::from_secs(1));
            does(worker, wish).await;
        });
        while director.now() < 1_000_000 {
            turn(&mut director);
        }
        shared.judge_suspected();
        let found = shared.take_verdict().wrong.into_iter();
        let rules = ["told", "shutdown", "granted"];
        found.filter(|it| rules.iter().any(|rule| it.starts_with(rule))).collect()
    }

    #[test]
    fn an_error_that_can_not_be_is_told() {
        for (error, said) in [
            (LockError::ShutDown, "told: p0: mutex: nobody has shut it down: ShutDown"),
            (LockError::NoRuntime, "told: p0: mutex: it is none of a request: NoRuntime"),
        ] {
            let found = found(move |worker, wish| async move {
                worker.expect_true(&wish, &error, &Before::of(&wish));
            });
            assert_eq!(found, [said]);
        }
    }

    #[test]
    fn a_lease_that_a_shutdown_does_not_report_is_told() {
        let found = found(|worker, wish| async move {
            let _held = worker.client.acquire(&wish).await;
            worker.expect_shut_down(&ShutdownReport::default());
        });
        let said = "shutdown: p0: a shutdown has left 1 leases and says";
        assert!(found.len() == 1 && found[0].starts_with(said), "{found:?}");
    }

    #[test]
    fn a_grant_that_has_ended_is_told() {
        let found = found(|worker, wish| async move {
            let id = worker.ask(&wish).remove(0);
            let held = worker.client.acquire(&wish).await.expect("it is free");
            let lease = held.leases().next().expect("it is one lock").handle();
            drop(held);
            worker.got_one(&lease, &id, now());
        });
        assert_eq!(found, ["granted: p0:0 has got a lease that has ended"]);
    }

    #[test]
    fn another_label_is_told() {
        let found = found(|worker, wish| async move {
            let held = worker.client.acquire(&wish).await.expect("it is free");
            let labelled = Wish { note: Some("a note"), ..wish };
            held.leases().for_each(|lease| worker.expect_label(lease, &labelled));
        });
        assert!(found.len() == 1 && found[0].ends_with("has another label"), "{found:?}");
    }
}
