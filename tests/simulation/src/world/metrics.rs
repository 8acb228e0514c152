//! What the metrics of a process say once it has shut down in order, as `docs/guide/operating.md` promises it:
//! nothing is held and nobody waits; each call has ended in one way; each lease that a caller got was held and
//! has ended; and each loss is in the log, too.
//!
//! The guide does not say how often a set counts, and an election, a job and the layer make calls of
//! their own. Where those have a part, less is said.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold::{LeaseState, LockError, LossReason};
use leasehold_history::Kind;

use super::told::LABEL;
use super::turns::Worker;
use super::wishes::{Guard, Wish};
use crate::process;
use crate::telemetry::Telemetry;

/// What metrics and logs call a lock without a label.
pub(super) const NO_LABEL: &str = "(no label)";

/// A kind and a label, as metrics show them.
type Series = (&'static str, &'static str);

pub(super) fn series(kind: Kind, has_label: bool) -> Series {
    let kind = match kind {
        Kind::Mutex | Kind::Once => "mutex",
        Kind::Reentrant => "reentrant_mutex",
        Kind::Permits => "semaphore",
        Kind::Read => "read",
        Kind::Write => "write",
    };
    (kind, if has_label { LABEL } else { NO_LABEL })
}

/// The calls for one lock at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    made: i64,
    granted: i64,
    /// The leases whose end the client has confirmed.
    ended: i64,
    /// The leases that their holders have seen to be lost.
    lost: i64,
}

#[derive(Debug, Default)]
struct Made {
    alone: BTreeMap<Series, Count>,
    /// Where others than these calls count.
    others: BTreeSet<Series>,
    /// The takes from one rate.
    takes: i64,
}

/// The calls that the tasks of a process have made.
#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<Made>);

impl Calls {
    fn made(&self) -> MutexGuard<'_, Made> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls of another form are made for such locks.
    pub(super) fn others(&self, of: impl IntoIterator<Item = Series>) {
        self.made().others.extend(of);
    }

    /// Something is taken from one rate.
    pub(super) fn takes(&self) {
        self.made().takes += 1;
    }

    fn count(&self, wish: &Wish, count: impl FnOnce(&mut Count)) {
        match wish.all_series()[..] {
            [alone] => count(self.made().alone.entry(alone).or_default()),
            ref all => self.others(all.iter().copied()),
        }
    }

    /// A holder lets go of its leases.
    pub(super) fn lets_go(&self, guard: &Guard, wish: &Wish) {
        let is_lost = guard.leases().any(|lease| matches!(lease.state(), LeaseState::Lost(_)));
        self.count(wish, |count| count.lost += i64::from(is_lost));
    }

    /// The client has said how a lease has ended.
    pub(super) fn let_go(&self, wish: &Wish, how: &str) {
        let is_confirmed = ["free", "still", "kept", "lingers", "detached"].contains(&how);
        self.count(wish, |count| count.ended += i64::from(is_confirmed));
    }
}

impl Wish {
    /// What metrics call its locks.
    pub(super) fn all_series(&self) -> Vec<Series> {
        let has_label = match &self.ticket {
            Some(travelling) => travelling.ticket.key().label().is_some(),
            None => self.note.is_some(),
        };
        self.parts.iter().map(|part| series(part.kind, has_label)).collect()
    }
}

impl Worker {
    /// Makes a call for locks.
    pub(super) async fn called(&self, wish: &Wish) -> Result<Guard, LockError> {
        self.calls.count(wish, |count| count.made += 1);
        let acquired = self.client.acquire(wish).await;
        // The guide does not say whether a ticket counts that is refused because of its own time, without the
        // store. It does not.
        let is_own =
            matches!(acquired, Err(LockError::TicketEnded { reason: LossReason::MaxHold, .. }));
        self.calls.count(wish, |count| {
            count.granted += i64::from(acquired.is_ok());
            count.made -= i64::from(is_own);
        });
        acquired
    }

    /// Looks at the metrics of a process that has shut down, and has dropped all that it had.
    pub(super) fn expect_figures(&self) {
        let Some(telemetry) = process::telemetry() else { return };
        let made = self.calls.made();
        let runs = self.shared.with_job_runs(|runs| runs.begun_by(&self.name));
        let mut wrong = of_process(&telemetry, &made, i64::try_from(runs).unwrap_or(i64::MAX));
        for (kind, lock) in telemetry.series() {
            wrong.extend(of_series(&telemetry, &made, &kind, &lock));
            let told = (!wrong.is_empty())
                .then(|| format!("{}: {kind} {lock}: {}", self.name, wrong.join("; ")));
            self.shared.judge("metrics", told);
            wrong.clear();
        }
    }
}

/// What is wrong with the figures of all locks.
fn of_process(telemetry: &Telemetry, made: &Made, runs: i64) -> Vec<String> {
    let mut wrong: Vec<_> =
        telemetry.below_zero().iter().map(|it| format!("{it} was below zero")).collect();
    let rates = telemetry.sum("leasehold_acquisitions_total", &[("kind", "rate")]);
    if rates < made.takes {
        wrong.push(format!("{} takes of one rate, and {rates} are counted", made.takes));
    }
    let counted = telemetry.sum("leasehold_job_runs_total", &[]);
    if counted > runs {
        wrong.push(format!("{runs} runs of jobs, and {counted} are counted"));
    }
    if telemetry.sum("leasehold_job_running_since_seconds", &[]) != 0 {
        wrong.push("a run of a job is under way".to_owned());
    }
    wrong
}

/// What is wrong with the figures of a kind and a label.
fn of_series(telemetry: &Telemetry, made: &Made, kind: &str, lock: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let sum = |name: &str| telemetry.sum(name, &[("kind", kind), ("lock", lock)]);
    for gauge in ["leasehold_held", "leasehold_waiting", "leasehold_permits_held"] {
        if sum(gauge) != 0 {
            wrong.push(format!("{gauge} is {}", sum(gauge)));
        }
    }
    let total = sum("leasehold_acquisitions_total");
    let outcome = [("kind", kind), ("lock", lock), ("outcome", "acquired")];
    let acquired = telemetry.sum("leasehold_acquisitions_total", &outcome);
    let (waited, held) = (sum("leasehold_wait_seconds"), sum("leasehold_hold_seconds"));
    if waited != acquired {
        wrong.push(format!("{acquired} were acquired, and {waited} have waited"));
    }
    // A shutdown may come between a grant and its future, if nobody polls that.
    let failed = [("kind", kind), ("lock", lock), ("outcome", "failed")];
    let most = acquired + telemetry.sum("leasehold_acquisitions_total", &failed);
    if kind != "rate" && !(acquired..=most).contains(&held) {
        wrong.push(format!("{acquired} were acquired, and {held} were held"));
    }
    let local = sum("leasehold_local_grants_total");
    if local > acquired {
        wrong.push(format!("{acquired} were acquired, {local} of them here"));
    }
    let (renewals, answers) = (sum("leasehold_renewals_total"), sum("leasehold_renewal_seconds"));
    if renewals != answers || sum("leasehold_late_renewals_total") > renewals {
        wrong.push(format!("{renewals} renewals have taken {answers} times"));
    }
    let lost = sum("leasehold_lost_total");
    for (reason, logged) in telemetry.losses(kind, lock) {
        let of_reason = [("kind", kind), ("lock", lock), ("reason", &*reason)];
        let counted = telemetry.sum("leasehold_lost_total", &of_reason);
        if counted != logged {
            wrong.push(format!("{counted} were lost ({reason}), and the log has {logged}"));
        }
    }
    if lost > held || lost != telemetry.losses(kind, lock).values().sum::<i64>() {
        wrong.push(format!("{lost} of {held} were lost"));
    }
    let alone = made.alone.iter().find(|((of, label), _)| *of == kind && *label == lock);
    let count = alone.map_or_else(Count::default, |(_, count)| *count);
    let is_all =
        kind != "rate" && !made.others.iter().any(|(of, label)| *of == kind && *label == lock);
    if total < count.made || is_all && total > count.made {
        wrong.push(format!("{} calls, and {total} are counted", count.made));
    }
    if acquired < count.granted || is_all && acquired > count.granted {
        wrong.push(format!("{} were granted, and {acquired} were acquired", count.granted));
    }
    if lost < count.lost || is_all && lost > count.granted - count.ended {
        let Count { granted, ended, lost: seen, .. } = count;
        wrong.push(format!(
            "{lost} were lost; of {granted}, {ended} have ended well, and {seen} were seen to be lost"
        ));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::super::director::Director;
    use super::super::turn;
    use super::super::wishes::Part;
    use super::*;

    /// What the rule finds in a process that does this, and then shuts down.
    fn found<F: Future<Output = ()> + Send>(
        does: impl FnOnce(&'static Worker, Wish) -> F + Send + 'static,
    ) -> Vec<String> {
        let (mut director, shared) = Director::quiet();
        director.start_with(move |worker| async move {
            let (part, ttl) = (Part::of("rw", Kind::Read), Duration::from_secs(20));
            let wish = Wish::plain(part, worker.name.clone(), ttl, Duration::from_secs(1));
            let worker: &'static Worker = Box::leak(Box::new(worker));
            does(worker, wish).await;
            worker.ends().await;
        });
        while director.now() < 9_000_000 {
            turn(&mut director);
        }
        let verdict = shared.take_verdict();
        assert!(verdict.judged.get("metrics") > 0);
        verdict.wrong.into_iter().filter(|it| it.starts_with("metrics")).collect()
    }

    #[test]
    fn what_adds_up_is_right() {
        let found = found(|worker, wish| async move {
            let _held = worker.called(&wish).await.expect("it is free");
        });
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn a_call_that_still_waits_is_told() {
        let found = found(|worker, wish| async move {
            let _held = worker.called(&wish).await.expect("it is free");
            let other = Wish { parts: vec![Part::of("rw", Kind::Write)], ..wish };
            let mut waits = Box::pin(async move { worker.called(&other).await.is_ok() });
            assert!(timeout(Duration::from_millis(100), &mut waits).await.is_err());
            std::mem::forget(waits);
        });
        assert!(found.len() == 1 && found[0].contains("leasehold_waiting is 1"), "{found:?}");
    }

    #[test]
    fn a_call_that_is_not_counted_is_told() {
        let found = found(|worker, wish| async move {
            drop(worker.client.acquire(&wish).await);
        });
        assert_eq!(
            found,
            [
                "metrics: p0: read (no label): 0 calls, and 1 are counted; 0 were granted, and 1 were acquired"
            ]
        );
    }
}
