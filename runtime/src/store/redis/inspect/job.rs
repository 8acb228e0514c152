//! Reads what is noted of a job.

use crate::store::job_info::{DoneTick, JobNotes};
use crate::store::{AskedAgain, AskedNote, ForcedBy, JobRuns, Note, RequestId};

/// The time of the server in milliseconds, and three keys; see `lua/include/done.lua`,
/// `lua/include/runs.lua` and `lua/mutex/run_again.lua`.
pub(super) fn notes(now: u64, done: &str, runs: &str, again: &str) -> JobNotes {
    JobNotes { now, done: tick(done), runs: read_runs(runs), asked_again: asked(again) }
}

fn tick(done: &str) -> Option<DoneTick> {
    let [ends, completed] = [part(done, 0)?, part(done, 13)?];
    Some(DoneTick { began: part(done, 26)?, ends, completed, granted: part(done, 39)? })
}

fn read_runs(runs: &str) -> Option<JobRuns> {
    let id = RequestId::read(runs.as_bytes().get(52..86)?)?;
    let count = runs.get(86..)?.parse().ok()?;
    let [first, last] = [part(runs, 0)?, part(runs, 13)?];
    Some(JobRuns { first, last, tick: part(runs, 26)?, ends: part(runs, 39)?, id, count })
}

fn asked(again: &str) -> Option<AskedNote> {
    let (by, why) = again.get(26..)?.split_once('\n')?;
    let [at, tick] = [part(again, 0)?, part(again, 13)?];
    Some(AskedNote {
        at,
        tick,
        asked: AskedAgain::new(at, &Note::new(by)?, Note::new(why).as_ref()),
    })
}

/// Who took a lock by force.
pub(super) fn forced(freed: &str) -> Option<ForcedBy> {
    let (held, said) = freed.get(13..)?.split_once(' ')?;
    let (by, why) = said.split_once('\n')?;
    let (by, why) = (Note::new(by)?, Note::new(why));
    Some(ForcedBy::new(part(freed, 0)?, held.parse().ok()?, &by, why.as_ref()))
}

/// A number of 13 digits.
pub(super) fn part(text: &str, at: usize) -> Option<u64> {
    text.get(at..at + 13)?.parse().ok()
}
