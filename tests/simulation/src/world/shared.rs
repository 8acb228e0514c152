//! What the processes of a world share beside the servers: the history, the tickets that travel, and
//! the end. All of it is on one thread; the locks are for the compiler.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use leasehold_history::{History, Line, Nanos, Request, Verdict};
use tokio::sync::watch;

use super::answers::Answer;
use super::claims::Claims;
use super::job_runs::JobRuns;
use super::jobs::JOB;
use super::rates::RateCall;
use super::wishes::Travelling;
use crate::network::Micros;
use crate::trace::{Trace, time};

pub(super) struct Shared {
    state: Mutex<State>,
    /// The processes that are to end.
    ending: watch::Sender<BTreeSet<String>>,
}

struct State {
    history: History,
    claims: Claims,
    /// All calls that were answered.
    answers: Vec<Answer>,
    /// What is wrong, unless something excuses it.
    suspected: Vec<Suspicion>,
    trace: Trace,
    /// The locks whose limits an operator changes.
    operated: BTreeSet<&'static str>,
    /// Since when locks are closed.
    closed: BTreeMap<&'static str, Nanos>,
    tickets: Vec<Travelling>,
    ended: BTreeSet<String>,
    /// Until when processes may come late to their turn at a lock: they have futures that nobody polls.
    neglected: BTreeMap<(String, &'static str), Micros>,
    verdict: Verdict,
    /// How often something of a rate was used.
    used_rates: u64,
    rate_calls: Vec<RateCall>,
    job_runs: JobRuns,
    /// When an operator last let a job run again.
    asked_again: Option<Micros>,
}

/// Something that is wrong with a process, unless something excuses it.
struct Suspicion {
    rule: &'static str,
    process: String,
    time: (Nanos, Nanos),
    wrong: String,
}

impl Shared {
    pub(super) fn new(trace: Trace) -> Self {
        let state = State {
            history: History::default(),
            claims: Claims::default(),
            answers: Vec::new(),
            suspected: Vec::new(),
            trace,
            operated: BTreeSet::new(),
            closed: BTreeMap::new(),
            tickets: Vec::new(),
            ended: BTreeSet::new(),
            neglected: BTreeMap::new(),
            verdict: Verdict::default(),
            used_rates: 0,
            rate_calls: Vec::new(),
            job_runs: JobRuns::default(),
            asked_again: None,
        };
        Self { state: Mutex::new(state), ending: watch::Sender::new(BTreeSet::new()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line to the history.
    pub(super) fn note(&self, at: Micros, line: Line) {
        let mut state = self.state();
        state.trace.say(at, &line.to_string());
        state.claims.note(&line);
        state.history.add(line);
    }

    pub(super) fn violation(&self, text: String) {
        self.state().verdict.wrong.push(text);
    }

    /// A rule has judged something, and this is wrong with it.
    pub(super) fn judge(&self, rule: &'static str, wrong: Option<String>) {
        self.state().verdict.note(rule, wrong);
    }

    /// True if an operator may have let a job run again since then.
    pub(super) fn may_run_again(&self, since: Nanos) -> bool {
        self.state().history.may_run_again(JOB, since, Nanos::MAX)
    }

    /// Something of so many rates is used.
    pub(super) fn used_rates(&self, count: u64) {
        self.state().used_rates += count;
    }

    pub(super) fn all_used_rates(&self) -> u64 {
        self.state().used_rates
    }

    /// Looks at the calls of rates, or adds one.
    pub(super) fn with_rate_calls<T>(&self, use_them: impl FnOnce(&mut Vec<RateCall>) -> T) -> T {
        use_them(&mut self.state().rate_calls)
    }

    /// Looks at the runs of jobs, or changes them.
    pub(super) fn with_job_runs<T>(&self, use_them: impl FnOnce(&mut JobRuns) -> T) -> T {
        use_them(&mut self.state().job_runs)
    }

    /// An operator has let a job run again.
    pub(super) fn note_asked_again(&self, at: Micros) {
        self.state().asked_again = Some(at);
    }

    pub(super) fn asked_again(&self) -> Option<Micros> {
        self.state().asked_again
    }

    pub(super) fn note_answer(&self, answer: Answer) {
        self.state().answers.push(answer);
    }

    /// Takes out the calls that were answered.
    pub(super) fn take_answers(&self) -> Vec<Answer> {
        std::mem::take(&mut self.state().answers)
    }

    /// The same as `judge`, of a process at this time; unless something excuses it. A failover says in the end
    /// what it has lost.
    pub(super) fn suspect(
        &self,
        rule: &'static str,
        process: &str,
        time: (Nanos, Nanos),
        wrong: Option<String>,
    ) {
        match wrong {
            None if self.excuse(rule, process, time) => {}
            None => self.judge(rule, None),
            Some(wrong) => {
                let process = process.to_owned();
                self.state().suspected.push(Suspicion { rule, process, time, wrong });
            }
        }
    }

    /// Judges what is suspected, when all that went wrong is known.
    pub(super) fn judge_suspected(&self) {
        let state = &mut *self.state();
        for Suspicion { rule, process, time, wrong } in std::mem::take(&mut state.suspected) {
            if !state.history.troubles.excuse(rule, &process, time) {
                state.verdict.note(rule, Some(wrong));
            }
        }
    }

    /// For how long a process stood still in this time.
    pub(super) fn stood_still(&self, process: &str, time: (Nanos, Nanos)) -> Nanos {
        self.state().history.troubles.stood_still(process, time)
    }

    /// True if a rule says nothing of what happened to a process in this time.
    pub(super) fn excuse(&self, rule: &str, process: &str, time: (Nanos, Nanos)) -> bool {
        self.state().history.troubles.excuse(rule, process, time)
    }

    /// Lets an operator change the limit of a lock, unless another does.
    pub(super) fn begins_as_operator(&self, lock: &'static str) -> bool {
        self.state().operated.insert(lock)
    }

    pub(super) fn ends_as_operator(&self, lock: &str) {
        self.state().operated.remove(lock);
    }

    /// Notes since when a lock is closed, if it is.
    pub(super) fn note_closed(&self, lock: &'static str, since: Option<Nanos>) {
        let mut state = self.state();
        match since {
            Some(since) => drop(state.closed.insert(lock, since)),
            None => drop(state.closed.remove(lock)),
        }
    }

    pub(super) fn closed(&self, lock: &str) -> Option<Nanos> {
        self.state().closed.get(lock).copied()
    }

    pub(super) fn put_ticket(&self, travelling: Travelling) {
        self.state().tickets.push(travelling);
    }

    /// One of the tickets. It may stay for another process, which then asks for the same lease.
    pub(super) fn take_ticket(&self, rng: &mut Rng) -> Option<Travelling> {
        let tickets = &mut self.state().tickets;
        if tickets.is_empty() {
            return None;
        }
        let at = rng.usize(..tickets.len());
        Some(if rng.bool() { tickets.swap_remove(at) } else { tickets[at].clone() })
    }

    /// Tells a process to end.
    pub(super) fn end(&self, process: &str) {
        self.ending.send_modify(|ending| {
            ending.insert(process.to_owned());
        });
    }

    pub(super) fn is_ending(&self, process: &str) -> bool {
        self.ending.borrow().contains(process)
    }

    /// Waits until a process is to end.
    pub(super) async fn ending(&self, process: &str) {
        let mut ending = self.ending.subscribe();
        let _ = ending.wait_for(|ending| ending.contains(process)).await;
    }

    /// A process has a future for a lock that nobody polls until then.
    pub(super) fn neglect(&self, process: &str, lock: &'static str, until: Micros) {
        let neglected = &mut self.state().neglected;
        let known = neglected.entry((process.to_owned(), lock)).or_default();
        *known = until.max(*known);
    }

    /// True if a process may come late to its turn at a lock, as it is stored.
    pub(super) fn is_neglected(&self, process: &str, stored: &str, at: Micros) -> bool {
        let is = |lock: &str| stored == lock || stored == format!("{{{lock}}}");
        let neglected = &self.state().neglected;
        neglected.iter().any(|((name, lock), until)| name == process && is(lock) && at < *until)
    }

    /// The requests of a process that have not ended, in words.
    pub(super) fn open_requests(&self, process: &str) -> Vec<String> {
        let state = self.state();
        let own = state.history.requests.iter().filter(|it| it.worker() == process);
        own.filter(|it| it.refused.is_none() && it.freed.is_none()).map(told).collect()
    }

    /// Returns true if this request was made after a point in time, and a lease of its process for the lock was
    /// idle then: nobody in the process had the lock, and a lease had been left to linger.
    pub(super) fn was_idle(&self, request: &str, after: Micros) -> bool {
        let state = self.state();
        let mut requests = state.history.requests.iter().rev();
        let own = requests.find(|it| it.id == request);
        let Some(own) = own.filter(|it| it.asked > after * 1_000) else { return false };
        let mut others = state.history.requests.iter().filter(|it| {
            let is_other = it.id != own.id && it.worker() == own.worker();
            is_other && it.lock == own.lock && it.granted.is_some()
        });
        let mut any_lingers = false;
        others.all(|it| {
            any_lingers |= it.freed.as_ref().is_some_and(|(_, how)| how == "lingers");
            it.freed.as_ref().is_some_and(|(at, _)| *at < own.asked)
        }) && any_lingers
    }

    /// How many requests of a process for a lock its server may have.
    pub(super) fn claims(&self, process: &str, lock: &str, now: Micros) -> usize {
        self.state().claims.count(process, lock, now * 1_000)
    }

    /// True if a process may use a lock: it holds it, or asks for it, or has let it go to another process.
    pub(super) fn uses(&self, process: &str, lock: &str, now: Micros) -> bool {
        self.state().claims.uses(process, lock, now * 1_000)
    }

    /// How many leases of a process for a lock have gone to others, and may last.
    pub(super) fn detached(&self, process: &str, lock: &str, now: Nanos) -> usize {
        self.state().claims.detached(process, lock, now)
    }

    /// A process has ended in order.
    pub(super) fn ended(&self, process: &str) {
        self.state().ended.insert(process.to_owned());
    }

    pub(super) fn has_ended(&self, process: &str) -> bool {
        self.state().ended.contains(process)
    }

    /// The history, and the hash of its lines.
    pub(super) fn take_history(&self) -> (History, u64) {
        let mut state = self.state();
        let hash = state.trace.hash();
        (std::mem::take(&mut state.history), hash)
    }

    /// What the other rules have found.
    pub(super) fn take_verdict(&self) -> Verdict {
        std::mem::take(&mut self.state().verdict)
    }
}

/// How far a request has come.
fn told(request: &Request) -> String {
    let Request { id, owner, units, limit, lock, kind, asked, granted, ended, .. } = request;
    let (does, since) = match (granted, ended) {
        (_, Some(ended)) => ("releases", ended),
        (Some(granted), None) => ("holds", granted),
        (None, None) => ("waits for", asked),
    };
    let of = if *limit > 1 { format!(", {units} of {limit}") } else { String::new() };
    format!("{owner} {does} `{lock}` ({kind:?}{of}) since {}: {id}", time(since / 1_000).trim())
}
