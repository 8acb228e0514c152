//! The answer of a store that looks at a job: its last success, and the runs since then.

use std::time::{Duration, SystemTime};

use super::holder::Holder;
use super::note::Note;
use super::request::RequestId;
#[cfg(feature = "serde")]
use super::serialize::{rfc3339, seconds, some_rfc3339};
use crate::core::system_time::system_time;

/// A job as operators see it: work with [`once_per`](crate::Mutex::once_per) or a schedule, from
/// [`Locks::jobs`](crate::Locks::jobs) and in [`LockInfo::job`](crate::LockInfo).
///
/// All times are by the server's clock.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let locks = leasehold::Locks::in_memory();
/// let hourly = locks.mutex("report").once_per(Duration::from_secs(60 * 60));
/// hourly.lock().await?.release().await?; // a run that fails
///
/// let report = locks.inspect("report").await?.job.expect("it has run");
/// assert_eq!((report.failed_runs, report.missed), (1, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct JobInfo {
    /// The name of its lock.
    pub name: String,
    /// Its last success, if the store remembers one: for 32 ticks, and at least for a day.
    pub last_success: Option<LastSuccess>,
    /// How long its tick lasts: that of the last run, or of the last success. Ticks of a calendar have
    /// different lengths. Zero if the store does not know it.
    #[cfg_attr(feature = "serde", serde(rename = "tick_seconds", serialize_with = "seconds"))]
    pub tick: Duration,
    /// How many whole ticks have ended without a success since the last one, or since the first run if
    /// there was none. They are counted in ticks of the length `tick`, at least 1 if the job is overdue.
    pub missed: u64,
    /// How far the tick of its last success is ahead of the server's clock, which was set back: until
    /// then no run begins, unless [`run_again`](crate::Locks::run_again) lets it. Zero otherwise.
    #[cfg_attr(feature = "serde", serde(rename = "ahead_seconds", serialize_with = "seconds"))]
    pub ahead: Duration,
    /// How many runs have begun since the last success, and have ended without one: they failed, lost
    /// their lease, or their process died. Each grant of the lock counts as a run, also one that was given
    /// back at once: by a job with `catch_up(false)` that began in the middle of a tick, and by a schedule
    /// on a machine whose clock is in another tick.
    pub failed_runs: u64,
    /// When the first of them began.
    #[cfg_attr(feature = "serde", serde(serialize_with = "some_rfc3339"))]
    pub failing_since: Option<SystemTime>,
    /// Who runs it now.
    pub running: Option<Holder>,
    /// Who last asked for another run, for a day.
    pub asked_again: Option<AskedAgain>,
}

impl JobInfo {
    /// Returns true if a whole tick has ended without a success: the first one in which a run began after
    /// the last success. If there was no run since, the store takes that tick to be as long as the one
    /// that had the success; after [`run_again`](crate::Locks::run_again), it counts from there. A job that
    /// no process runs any more is overdue, too, until the store forgets it.
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        self.missed > 0
    }
}

/// The last success of work that is to succeed once, in
/// [`LockInfo::last_success`](crate::LockInfo::last_success).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let locks = leasehold::Locks::in_memory();
/// let mail = locks.mutex("mail:42").once(Duration::from_secs(60 * 60));
/// mail.lock().await?.complete().await?;
///
/// let success = locks.inspect("mail:42").await?.last_success.expect("it has succeeded");
/// assert!(success.counts_for > Duration::from_secs(59 * 60));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LastSuccess {
    /// When the work succeeded, by the server's clock.
    #[cfg_attr(feature = "serde", serde(serialize_with = "rfc3339"))]
    pub completed: SystemTime,
    /// Until when it counts as done, by the server's clock.
    #[cfg_attr(feature = "serde", serde(serialize_with = "rfc3339"))]
    pub until: SystemTime,
    /// How long it counts as done from now. Zero if it does no longer.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "counts_for_seconds", serialize_with = "seconds")
    )]
    pub counts_for: Duration,
    /// When the tick of that run began, if the lock had
    /// [`once_per`](crate::Mutex::once_per).
    #[cfg_attr(feature = "serde", serde(serialize_with = "some_rfc3339"))]
    pub tick: Option<SystemTime>,
}

impl LastSuccess {
    /// All times are in milliseconds since the Unix epoch. No tick is 0.
    pub(super) fn new(until: u64, completed: u64, tick: u64, now: u64) -> Self {
        Self {
            completed: system_time(completed),
            until: system_time(until),
            counts_for: Duration::from_millis(until.saturating_sub(now)),
            tick: (tick > 0).then(|| system_time(tick)),
        }
    }
}

/// Who asked for another run of work that was done, and why; see
/// [`Locks::run_again`](crate::Locks::run_again).
///
/// # Examples
///
/// ```
/// use leasehold::AskedAgain;
///
/// fn show(asked: &AskedAgain) -> String {
///     format!("{} asked for it: {}", asked.by, asked.why.as_deref().unwrap_or("no reason given"))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct AskedAgain {
    /// When.
    #[cfg_attr(feature = "serde", serde(serialize_with = "rfc3339"))]
    pub at: SystemTime,
    /// Who.
    pub by: String,
    /// Why, if that was said.
    pub why: Option<String>,
}

impl AskedAgain {
    /// At this time, in milliseconds since the Unix epoch.
    #[doc(hidden)]
    #[must_use]
    pub fn new(at: u64, by: &Note, why: Option<&Note>) -> Self {
        let text = |note: &Note| note.text().to_owned();
        Self { at: system_time(at), by: text(by), why: why.map(text) }
    }
}

/// The result of [`Locks::run_again`](crate::Locks::run_again).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let locks = leasehold::Locks::in_memory();
/// let again = locks.run_again("nightly", "ann", "TICKET-7").await?;
/// if again.is_running {
///     println!("it runs now, and is done when that run succeeds");
/// } else if again.completed.is_none() {
///     println!("it was not done");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "it says whether the work was done at all, and whether it runs now"]
pub struct RunAgain {
    /// When the work had succeeded; `None` if it did not count as done.
    pub completed: Option<SystemTime>,
    /// A run is under way. When it succeeds, the work is done.
    pub is_running: bool,
}

impl RunAgain {
    /// The success was at this time, in milliseconds since the Unix epoch; 0 if there was none.
    pub(super) fn new(completed: u64, is_running: bool) -> Self {
        Self { completed: (completed > 0).then(|| system_time(completed)), is_running }
    }
}

/// The runs of a job since its last success. All times are in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobRuns {
    /// When the first of them began.
    pub first: u64,
    /// When the last of them began.
    pub last: u64,
    /// How long the tick of the last one lasts.
    pub tick: u64,
    /// When the tick of the first one ends.
    pub ends: u64,
    /// The request of the last one.
    pub id: RequestId,
    /// How many there were.
    pub count: u64,
}

/// Who asked for another run, as a store has noted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedNote {
    /// Who, when and why.
    pub asked: AskedAgain,
    /// When, in milliseconds since the Unix epoch.
    pub at: u64,
    /// How long a tick lasted, in milliseconds; 0 without ticks.
    pub tick: u64,
}

/// What a store has noted of a job. All times are in milliseconds since the Unix epoch.
#[derive(Debug, Default)]
pub(super) struct JobNotes {
    pub(super) now: u64,
    pub(super) done: Option<DoneTick>,
    pub(super) runs: Option<JobRuns>,
    pub(super) asked_again: Option<AskedNote>,
}

/// The tick of a job's last success.
#[derive(Clone, Copy, Debug)]
pub(super) struct DoneTick {
    pub(super) began: u64,
    pub(super) ends: u64,
    pub(super) completed: u64,
    /// When its run began.
    pub(super) granted: u64,
}

impl JobNotes {
    /// The job, with this holder of its lock; `None` if nothing is noted. Its caller knows the name.
    pub(super) fn info(self, holder: Option<(RequestId, &Holder)>) -> Option<Box<JobInfo>> {
        let Self { now, done, runs, asked_again } = self;
        let done = done.filter(|done| done.began > 0);
        // Runs that an older version has completed stay noted.
        let runs = runs.filter(|runs| done.is_none_or(|done| runs.last > done.granted));
        if done.is_none() && runs.is_none() && asked_again.is_none() {
            return None;
        }
        let of_done = done.map(|done| done.ends.saturating_sub(done.began));
        let of_asked = asked_again.as_ref().map(|asked| asked.tick);
        let tick = runs.map(|runs| runs.tick).or(of_done).or(of_asked).unwrap_or(0);
        let of_asked = asked_again.as_ref().map(|asked| asked.at);
        let since = done.map(|done| done.ends).or(runs.map(|runs| runs.first)).or(of_asked);
        let since = since.unwrap_or(now);
        // The tick of the first run says best when the first one without a success has ended.
        let overdue = runs.map_or(since.saturating_add(tick), |runs| runs.ends);
        let is_overdue = tick > 0 && now >= overdue;
        let missed = now.saturating_sub(since).checked_div(tick).unwrap_or(0);
        let running = holder.filter(|(id, _)| runs.is_some_and(|runs| runs.id == *id));
        let begun = runs.map_or(0, |runs| runs.count);
        let failed_runs = begun.saturating_sub(u64::from(running.is_some()));
        let first = runs.filter(|_| failed_runs > 0).map(|runs| system_time(runs.first));
        Some(Box::new(JobInfo {
            name: String::new(),
            last_success: done
                .map(|done| LastSuccess::new(done.ends, done.completed, done.began, now)),
            tick: Duration::from_millis(tick),
            ahead: Duration::from_millis(done.map_or(0, |done| done.began.saturating_sub(now))),
            missed: if is_overdue { missed.max(1) } else { 0 },
            failed_runs,
            failing_since: first,
            running: running.map(|(_, holder)| holder.clone()),
            asked_again: asked_again.map(|asked| asked.asked),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(of: u8) -> RequestId {
        RequestId::read(&[of; 34]).unwrap()
    }

    fn done(granted: u64) -> DoneTick {
        DoneTick { began: 10_000, ends: 20_000, completed: 12_000, granted }
    }

    fn runs(first: u64, last: u64, count: u64) -> JobRuns {
        let ends = first / 10_000 * 10_000 + 10_000;
        JobRuns { first, last, tick: 10_000, ends, id: id(b'a'), count }
    }

    #[test]
    fn ticks_are_missed_after_the_one_that_had_a_success() {
        let missed = |now, done, runs| {
            JobNotes { now, done, runs, ..JobNotes::default() }.info(None).unwrap().missed
        };
        let ticks = [11_000, 29_999, 30_000, 39_999, 40_000]
            .map(|now| missed(now, Some(done(11_000)), None));
        assert_eq!(ticks, [0, 0, 1, 1, 2]);
        let ahead = |now| {
            let notes = JobNotes { now, done: Some(done(11_000)), ..JobNotes::default() };
            notes.info(None).unwrap().ahead.as_millis()
        };
        assert_eq!([9_999, 10_000, 11_000].map(ahead), [1, 0, 0]);
        // Without a success, from the end of the tick of the first run.
        let ticks =
            [15_000, 19_999, 20_000].map(|now| missed(now, None, Some(runs(15_000, 15_000, 1))));
        assert_eq!(ticks, [0, 0, 1]);
        // The tick of a deploy with shorter ones.
        let shorter = JobRuns { tick: 1_000, ends: 32_000, ..runs(31_000, 31_000, 1) };
        assert_eq!(missed(32_000, Some(done(11_000)), Some(shorter)), 12);
        // The tick of a later run is longer than all before it.
        let longer = JobRuns { tick: 90_000, ..runs(21_000, 41_000, 3) };
        let ticks =
            [29_999, 30_000, 50_000].map(|now| missed(now, Some(done(11_000)), Some(longer)));
        assert_eq!(ticks, [0, 1, 1]);
    }

    #[test]
    fn runs_before_the_last_success_are_not_counted() {
        let failed = |runs| {
            let done = Some(done(11_000));
            let notes = JobNotes { now: 21_000, done, runs, ..JobNotes::default() };
            notes.info(None).map(|job| (job.failed_runs, job.failing_since.is_some()))
        };
        assert_eq!(failed(Some(runs(20_500, 20_900, 3))), Some((3, true)));
        assert_eq!(failed(Some(runs(10_500, 11_000, 3))), Some((0, false)));
        assert_eq!(failed(None), Some((0, false)));
    }

    #[test]
    fn a_mark_without_ticks_is_no_job() {
        let done = Some(DoneTick { began: 0, ..done(11_000) });
        assert!(JobNotes { now: 1, done, ..JobNotes::default() }.info(None).is_none());
        assert!(JobNotes::default().info(None).is_none());
    }
}
