//! What callers are told, and after how long.
//!
//! A call ends by its wait and a bound, whatever fails, and sooner if nothing does. No call fails because of
//! its servers while nothing is wrong with them, nor with its process: a client that has lost its way and
//! finds none back is seen by that.

use std::time::Duration;

use leasehold::{Lease, LockError};
use leasehold_history::Nanos;

use super::shared::Shared;
use super::turns::{Worker, nanos, now};

/// A command and its answer travel for so long, with others before them.
const TRAVELS: Duration = Duration::from_millis(60);

/// How long a call may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// It may wait for others, by the clock of its process.
    wait: Duration,
    /// What it may take beyond its wait if something is wrong, and if nothing is.
    troubled: Duration,
    well: Duration,
    /// Its future is left alone for some time, which is part of its wait.
    is_neglected: bool,
}

impl Bound {
    /// That of a call whose future is left alone for so long.
    pub(super) fn neglected(self, time: Duration) -> Self {
        Self { wait: self.wait + time, is_neglected: true, ..self }
    }

    /// That of a call which also waits for others.
    pub(super) fn after(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }
}

const fn bound(troubled: u64, well: u64) -> Bound {
    let wait = Duration::ZERO;
    let (troubled, well) = (Duration::from_millis(troubled), Duration::from_millis(well));
    Bound { wait, troubled, well, is_neglected: false }
}

/// A request waits for what its own client has under way, for a second, and then asks once more.
pub(super) const ACQUIRES: Bound = bound(3_000, 1_500);

/// It may have to listen first, so that the lease can linger. It asks three times, each time for as long as a
/// cluster may take.
pub(super) const RELEASES: Bound = bound(4_500, 500);

/// Late copies of what it has sent must have arrived before a lease travels: a third of its TTL, at most.
pub(super) const TRAVELS_ON: Bound = bound(12_000, 500);

pub(super) const RENEWS: Bound = bound(4_500, 200);

/// Nothing is held any more when a client is shut down: what remains is to end what was given up.
pub(super) const SHUTS_DOWN: Bound = bound(7_500, 100);

/// A request at a front door also releases what it has acquired.
pub(super) const PASSES: Bound = bound(7_500, 2_000);

/// A change by an operator is a look, a command and a message.
pub(super) const CHANGES: Bound = bound(9_000, 500);

/// Holders have five seconds to finish, and two to let go.
pub(super) const SHUTS_DOWN_AMID: Bound = bound(7_500, 7_100);

/// A call that has ended.
#[derive(Debug)]
pub(super) struct Answer {
    process: String,
    /// What was called, in words.
    call: String,
    begun: Nanos,
    ended: Nanos,
    bound: Bound,
    /// Its server has failed it.
    is_failed: bool,
}

impl Worker {
    /// Calls the client, and notes how long that took.
    pub(super) async fn asked<T>(
        &self,
        call: String,
        bound: Bound,
        asked: impl Future<Output = Result<T, LockError>>,
    ) -> Result<T, LockError> {
        let begun = now();
        let answer = asked.await;
        let is_failed = answer.as_ref().is_err_and(LockError::is_store_failure);
        if let Some(error) = answer.as_ref().err().filter(|_| is_failed) {
            self.expect_lasting(&call, begun, error);
        }
        self.was_answered(call, begun, bound, is_failed);
        answer
    }

    /// Only what a server refuses lasts; and that is what an error says, so that nobody tries on in vain.
    fn expect_lasting(&self, call: &str, begun: Nanos, error: &LockError) {
        let (LockError::Store { is_passing, .. } | LockError::Quorum { is_passing, .. }) = error
        else {
            return;
        };
        let (lasts, lacks_a_right) = (!is_passing, format!("{error:?}").contains("NOPERM"));
        let wrong = (lasts || lacks_a_right).then(|| format!("{}: {call}: {error:?}", self.name));
        if lacks_a_right {
            self.shared.judge("lasting", wrong.filter(|_| !lasts));
        } else {
            self.shared.suspect("lasting", &self.name, (begun, now()), wrong);
        }
    }

    /// Notes that a call has ended which began then.
    pub(super) fn was_answered(&self, call: String, begun: Nanos, bound: Bound, is_failed: bool) {
        let (process, ended) = (self.name.clone(), now());
        let wait = self.clocks.longest(bound.wait);
        let bound = Bound { wait, ..bound };
        self.shared.note_answer(Answer { process, call, begun, ended, bound, is_failed });
    }

    /// A lease is renewed each third of its TTL. Looks at one that its holder has had since then.
    pub(super) fn expect_renewed(&self, lease: &Lease, since: Nanos, ttl: Duration) {
        let (left, at) = (lease.remaining(), now());
        // What was offered, or left alone before it was taken, is renewed at first.
        if left.is_zero() || at - since < nanos(TRAVELS) {
            return;
        }
        let wrong = (left < (ttl / 2).saturating_sub(TRAVELS)).then(|| {
            let (lock, name) = (lease.key().as_ref(), &self.name);
            format!(
                "{name} does not renew `{lock}`, which lasts for {left:?} of {ttl:?}, at {at} ns"
            )
        });
        let time = (at.saturating_sub(nanos(ttl)), at);
        self.shared.suspect("renewed", &self.name, time, wrong);
    }
}

/// Looks at all calls that were answered, when all that went wrong is known.
pub(super) fn look(shared: &Shared) {
    for Answer { process, call, begun, ended, bound, is_failed } in shared.take_answers() {
        let time = (begun, ended);
        let is_well = !bound.is_neglected && !shared.excuse("in time", &process, time);
        let most = bound.wait + if is_well { bound.well } else { bound.troubled };
        let took = ended - begun - shared.stood_still(&process, time).min(ended - begun);
        let wrong = (took > nanos(most)).then(|| {
            let so = if is_well { ", and nothing was wrong" } else { "" };
            format!("{process}: {call} took {} ms of {}{so}", took / 1_000_000, most.as_millis())
        });
        shared.judge("in time", wrong);
        if !bound.is_neglected && !shared.excuse("store", &process, time) {
            let wrong =
                is_failed.then(|| format!("{process}: {call} failed, and nothing was wrong"));
            shared.judge("store", wrong);
        }
    }
}

#[cfg(test)]
mod tests {
    use leasehold::{Fault, Locks};
    use tokio::time::sleep;

    use super::super::director::Director;
    use super::super::turn;
    use super::*;

    /// What the rules find in a process that does this call.
    fn found<F>(call: impl FnOnce() -> F + Send + 'static) -> Vec<String>
    where
        F: Future<Output = Result<(), LockError>> + Send,
    {
        let (mut director, shared) = Director::quiet();
        director.start_with(move |worker| async move {
            sleep(Duration::from_secs(2)).await;
            let _ = worker.asked("a call".to_owned(), RENEWS, call()).await;
        });
        while director.now() < 10_000_000 {
            turn(&mut director);
        }
        look(&shared);
        shared.judge_suspected();
        shared.take_verdict().wrong
    }

    /// A call takes so long, and fails or not. Returns what was found.
    fn with_a_call(takes: u64, error: Option<LockError>) -> Vec<String> {
        found(move || async move {
            sleep(Duration::from_millis(takes)).await;
            error.map_or(Ok(()), Err)
        })
    }

    #[test]
    fn a_refusal_that_no_fault_explains_is_told() {
        let with = |fault| {
            found(move || async move {
                let (locks, faults) = Locks::in_memory_with_faults();
                faults.always(fault);
                locks.mutex("a").try_lock().await.map(drop)
            })
        };
        let lasts = with(Fault::Refuse);
        assert!(lasts.iter().any(|it| it.starts_with("lasting: p0: a call: Store {")), "{lasts:?}");
        let passes = with(Fault::Unreachable);
        assert!(passes.iter().all(|it| !it.starts_with("lasting")), "{passes:?}");
        assert!(passes.contains(&"store: p0: a call failed, and nothing was wrong".to_owned()));
    }

    #[test]
    fn a_call_that_takes_too_long_is_told() {
        assert_eq!(with_a_call(190, None), [""; 0]);
        assert_eq!(with_a_call(190, Some(LockError::ShutDown)), [""; 0]);
        let found = with_a_call(300, None);
        assert_eq!(found, ["in time: p0: a call took 300 ms of 200, and nothing was wrong"]);
    }
}
