//! At most one success in each tick, and none while work counts as done. It is judged by the arguments
//! of the calls, their answers and the server's time. What the rules of the library say of it does not
//! matter here, so a mistake that they share with the scripts is found, too.
//!
//! What may make two successes, and is no mistake:
//!
//! | what | why |
//! |---|---|
//! | `mutex/run_again` between them | somebody wanted it |
//! | the server has lost the mark, or has another one | it was flushed, or restarted, or another server had its place |
//! | the first one was to be remembered for less time than the second one asks about | a deploy has made the time much longer |
//! | the clock was set back between two answers about one grant | the run is in the tick of either answer |

use std::collections::BTreeMap;

use leasehold_history::Judged;

use super::call::{Request, Verb};
use super::change::{Change, shown};
use super::stored::{Place, Stored};

/// How a request counts for how long its work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    /// So long after the success.
    For(i64),
    /// To the end of the tick: how long a tick lasts, and when one began.
    Ticks(i64, i64),
}

impl Counts {
    /// Until when this success counts.
    fn until_ms(self, of: &Success) -> i64 {
        match self {
            Self::For(lasts) => of.completed_ms + lasts,
            Self::Ticks(lasts, offset) => began(of.granted_ms, lasts, offset) + lasts,
        }
    }
}

fn began(at_ms: i64, lasts: i64, offset: i64) -> i64 {
    at_ms - (at_ms - offset).rem_euclid(lasts.max(1))
}

/// A run that has begun.
#[derive(Clone, Debug)]
struct Run {
    id: Vec<u8>,
    token: i64,
    counts: Counts,
    /// The first and the last time, by the server's clock, at which an ask was told of the grant.
    told_ms: (i64, i64),
}

/// The last success.
#[derive(Clone, Debug)]
struct Success {
    id: Vec<u8>,
    completed_ms: i64,
    /// When its run was granted: no later than the server knows.
    granted_ms: i64,
    /// The same, as its client says it.
    said_ms: i64,
    /// Until when the server remembers it.
    stays_ms: i64,
}

/// What is known of the work under one mutex.
#[derive(Debug, Default)]
struct Work {
    run: Option<Run>,
    last: Option<Success>,
    /// The mark after the last call, and until when it is there.
    mark: Option<(Vec<u8>, i64)>,
}

/// The successes of a server's work.
#[derive(Debug, Default)]
pub(super) struct Successes {
    of: BTreeMap<Place, Work>,
    /// How many there were.
    pub(super) count: u64,
}

impl Successes {
    /// Judges a call about the work under a mutex.
    pub(super) fn problems(&mut self, change: &Change<'_>, judged: &mut Judged) -> Vec<String> {
        let verb = change.verb();
        let is_known = self.of.contains_key(change.place);
        if !is_known && !matches!(verb, Verb::AcquireOnce | Verb::Complete | Verb::RunAgain) {
            return Vec::new();
        }
        let work = self.of.entry(change.place.clone()).or_default();
        work.excuse(change.before);
        let (mut found, now_ms) = (Vec::new(), change.before.now_ms);
        let is_marked = change.before.done.as_ref() != change.after.done.as_ref();
        for request in change.requests().filter(|_| verb == Verb::Complete) {
            let id = request.id();
            if is_marked && !change.before.has(id) {
                found.push(format!("{} has not the lock, and marks the work as done", shown(id)));
            }
            let counts = |done: &[u8]| {
                let until_ms = done.get(..13).and_then(super::format::number).unwrap_or(0);
                done.ends_with(id) && i64::try_from(until_ms).is_ok_and(|until| until > now_ms)
            };
            let is_own = change.before.done.as_ref().is_some_and(|done| counts(&done.value));
            if is_own && change.answer(request) != [1] {
                found.push(format!("the success of {} is denied", shown(id)));
            }
        }
        for request in change.requests() {
            match (verb, &change.answer(request)[..]) {
                (Verb::AcquireOnce, [1, token, ..]) => work.granted(request, *token, now_ms),
                (Verb::AcquireOnce, [9, left_ms, ..]) => {
                    if let Some(last) = &mut work.last {
                        last.stays_ms = last.stays_ms.max(now_ms + left_ms);
                    }
                }
                (Verb::Complete, [1]) if work.is_new(request) => {
                    self.count += 1;
                    // Before it was another one, which the server remembers.
                    judged.add("successes of a server", u64::from(work.last.is_some()));
                    found.extend(work.succeeded(request, now_ms));
                }
                (Verb::RunAgain, _) => work.last = None,
                _ => {}
            }
        }
        work.mark = mark(change.after);
        found
    }
}

/// The mark of a lock, and the last millisecond in which it is there.
fn mark(stored: &Stored) -> Option<(Vec<u8>, i64)> {
    let done = stored.done.as_ref()?;
    Some((done.value.clone(), done.expires_ms.unwrap_or(i64::MAX)))
}

fn number(request: &Request<'_>, nth: usize) -> Option<i64> {
    request.number(nth).and_then(|it| i64::try_from(it).ok())
}

impl Work {
    /// Forgets the last success if the server need not remember it any more, or something else than a script
    /// has changed the mark.
    fn excuse(&mut self, before: &Stored) {
        self.last.take_if(|last| last.stays_ms < before.now_ms);
        let is = before.done.as_ref().map(|done| &done.value);
        let was = self.mark.as_ref().filter(|(_, until_ms)| *until_ms >= before.now_ms);
        if is != was.map(|(value, _)| value) {
            self.last = None;
        }
    }

    fn granted(&mut self, request: &Request<'_>, token: i64, now_ms: i64) {
        let Some(lasts) = number(request, 2) else { return };
        let counts = number(request, 3).map_or(Counts::For(lasts), |at| Counts::Ticks(lasts, at));
        let known = self.run.take().filter(|run| run.id == request.id() && run.token == token);
        let (first, last) = known.map_or((now_ms, now_ms), |run| run.told_ms);
        let told_ms = (first.min(now_ms), last.max(now_ms));
        self.run = Some(Run { id: request.id().to_vec(), token, counts, told_ms });
    }

    /// A repeated completion is answered as the first one. A late copy of its ask may have been granted the lock
    /// since, by another token.
    fn is_new(&self, request: &Request<'_>) -> bool {
        let token = number(request, 4).filter(|token| *token > 0);
        let is_run = |run: &Run| run.id == request.id() && token.is_none_or(|it| it == run.token);
        let runs = self.run.as_ref().is_some_and(is_run);
        runs || self.last.as_ref().is_none_or(|last| last.id != request.id())
    }

    /// The work has succeeded now.
    fn succeeded(&mut self, request: &Request<'_>, now_ms: i64) -> Vec<String> {
        let run = self.run.take_if(|run| run.id == request.id());
        let lasts = number(request, 0).unwrap_or_default();
        let tick_ms = number(request, 1).filter(|at| *at > 0);
        let said_ms = number(request, 2).filter(|at| *at > 0).unwrap_or(now_ms);
        let keep_ms = number(request, 3).unwrap_or_default();
        // Without its token, a run may be reported that is not the one that runs.
        let is_sure = number(request, 4).is_some_and(|token| token > 0);
        let mut found = Vec::new();
        if let Some(last) = &self.last {
            let granted_ms = run.as_ref().map_or(now_ms, |run| run.told_ms.1);
            let until_ms = run.as_ref().map_or(0, |run| run.counts.until_ms(last));
            if granted_ms < until_ms {
                found.push(format!(
                    "{} has succeeded, and was granted the lock at {granted_ms} ms; the success of {} \
                     counts to {until_ms} ms for it",
                    shown(request.id()),
                    shown(&last.id)
                ));
            }
            let has_tick = tick_ms.filter(|_| is_sure);
            if let Some(began_ms) = has_tick.filter(|began_ms| last.said_ms >= *began_ms) {
                found.push(format!(
                    "{} has succeeded for the tick that began at {began_ms} ms, and so has {}",
                    shown(request.id()),
                    shown(&last.id)
                ));
            }
        }
        let told_ms = run.map_or(said_ms, |run| match run.counts {
            Counts::For(_) => now_ms,
            Counts::Ticks(..) => run.told_ms.0,
        });
        self.last = Some(Success {
            id: request.id().to_vec(),
            completed_ms: now_ms,
            granted_ms: if is_sure { told_ms } else { told_ms.min(said_ms) },
            said_ms,
            stays_ms: now_ms.saturating_add(keep_ms).max(tick_ms.unwrap_or(now_ms) + lasts),
        });
        found
    }
}
