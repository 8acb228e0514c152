//! Jobs: a task offers to run one for some time, with the period of its version. Runs succeed, fail, or are
//! dropped with it; their processes die. What must hold at the end is in `last_jobs`.

use std::time::Duration;

use fastrand::Rng;
use leasehold::{Job, LeaseHandle, Locks};
use leasehold_history::{Kind, Line, Nanos};
use tokio::time::{sleep, timeout};

use super::job_runs::JobRun;
use super::metrics::series;
use super::turns::{LOOK, Worker, millis, now};
use super::wishes::{Part, Wish};

pub(super) const JOB: &str = "job";

/// The pause after the first failure.
pub(super) const RETRY: Duration = Duration::from_millis(100);

/// A grant is heard of this much later, where nothing is wrong. Clocks drift meanwhile.
const TOLD: Duration = Duration::from_millis(500);

/// The longest that a process waits after a tick has begun.
pub(super) const JITTER: Duration = Duration::from_millis(20);

/// A run of a job, until its future ends or is dropped.
struct Run<'a> {
    worker: &'a Worker,
    id: String,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let (id, at) = (self.id.clone(), now());
        self.worker.shared.with_job_runs(|runs| runs.ends(&id, at / 1_000));
        self.worker.note(Line::End { id: id.clone(), at });
        self.worker.note(Line::Freed { id, at, how: "dropped".to_owned() });
    }
}

impl Worker {
    pub(super) fn job(&self, locks: &Locks, ttl: Duration, period: Duration) -> Job {
        self.calls.others([series(Kind::Once, false)]);
        let job = locks.mutex(JOB).ttl(ttl).once_per(period).owner(&*self.name).job();
        job.jitter(JITTER).retry(RETRY)
    }

    pub(super) fn wish_of_a_job(&self, ttl: Duration) -> Wish {
        Wish::plain(Part::of(JOB, Kind::Mutex), self.name.clone(), ttl, Duration::ZERO)
    }

    /// A task offers to run the job.
    pub(super) async fn turn_at_a_job(&self, locks: &Locks, rng: &mut Rng) {
        let (ttl, period) = (self.version.ttl(rng), self.version.tick);
        let wish = self.wish_of_a_job(ttl);
        let catches_up = rng.bool();
        let (job, since) = (self.job(locks, ttl, period).catch_up(catches_up), now());
        let patience = millis(rng, 0..6_000);
        let (wish, mut rng) = (&wish, rng.fork());
        let running = job.run(|lease| {
            if !catches_up {
                self.expect_new_tick(&lease, since);
            }
            let time = millis(&mut rng, 0..400);
            self.run_of_a_job(lease, wish, time, rng.u8(..4) > 0)
        });
        let ended = tokio::select! {
            biased;
            ended = timeout(patience, running) => ended.ok(),
            () = self.shared.ending(&self.name) => None,
        };
        if let Some(Err(error)) = ended {
            self.shared.violation(format!("job: {error}"));
        }
    }

    /// A job that does not catch up runs no tick that began before it was there, unless somebody has let it run
    /// again.
    fn expect_new_tick(&self, lease: &LeaseHandle, since: Nanos) {
        let tick = lease.tick().expect("a job has ticks");
        let ran_for = Duration::from_nanos(now() - since);
        let was_there = tick.granted.checked_sub(ran_for).expect("after 1970");
        let is_old = tick.began + TOLD < was_there;
        if self.shared.excuse("catches up", &self.name, (now(), now()))
            || self.shared.may_run_again(since)
        {
            return;
        }
        let wrong = is_old
            .then(|| format!("{} runs {tick:?}, and is there since {was_there:?}", self.name));
        self.shared.judge("catches up", wrong);
    }

    /// A run, which takes this long.
    pub(super) async fn run_of_a_job(
        &self,
        lease: LeaseHandle,
        wish: &Wish,
        time: Duration,
        succeeds: bool,
    ) -> Result<(), &'static str> {
        let id = self.ask(wish).remove(0);
        let token = lease.fence().ok().map(u64::from);
        self.note(Line::Got { id: id.clone(), at: now(), token });
        let granted = lease.tick().expect("a job has ticks").granted;
        let run = JobRun::begins(&self.name, id.clone(), granted, now() / 1_000);
        self.shared.with_job_runs(|runs| runs.add(run));
        let run = Run { worker: self, id };
        let until = tokio::time::Instant::now() + time;
        loop {
            let (id, at, left) = (run.id.clone(), now(), lease.remaining());
            if left.is_zero() {
                self.note(Line::Lost { id, at });
            } else {
                self.held(id, at, wish.ttl, left);
            }
            let rest = until.saturating_duration_since(tokio::time::Instant::now());
            if rest.is_zero() {
                self.shared.with_job_runs(|runs| runs.says(&run.id, succeeds));
                return if succeeds { Ok(()) } else { Err("it fails") };
            }
            sleep(rest.min(LOOK)).await;
        }
    }
}
