//! Jobs: a task offers to run one for some time. Runs succeed, fail, or are dropped with it. At the end,
//! when nothing is in the way, ticks are run.

use std::time::Duration;

use fastrand::Rng;
use leasehold::{Job, LeaseHandle, Locks};
use leasehold_history::{Kind, Line};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::turns::{LOOK, Worker, millis, now};
use super::wishes::{Part, Wish};

const JOB: &str = "job";

const TICK: Duration = Duration::from_millis(1_500);

/// A run of a job, until its future ends or is dropped.
struct Run<'a> {
    worker: &'a Worker,
    id: String,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let (id, at) = (self.id.clone(), now());
        self.worker.note(Line::End { id: id.clone(), at });
        self.worker.note(Line::Freed { id, at, how: "dropped".to_owned() });
    }
}

impl Worker {
    fn job(&self, locks: &Locks, ttl: Duration) -> Job {
        let job = locks.mutex(JOB).ttl(ttl).once_per(TICK).owner(&*self.name).job();
        job.jitter(Duration::from_millis(20)).retry(Duration::from_millis(100))
    }

    /// A task offers to run the job.
    pub(super) async fn turn_at_a_job(&self, locks: &Locks, rng: &mut Rng) {
        let ttl = self.version.ttl(rng);
        let wish = Wish::plain(Part::of(JOB, Kind::Mutex), self.name.clone(), ttl, Duration::ZERO);
        let (job, patience) = (self.job(locks, ttl).catch_up(rng.bool()), millis(rng, 0..6_000));
        let (wish, mut rng) = (&wish, rng.fork());
        let running = job.run(|lease| {
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

    async fn run_of_a_job(
        &self,
        lease: LeaseHandle,
        wish: &Wish,
        time: Duration,
        succeeds: bool,
    ) -> Result<(), &'static str> {
        let id = self.ask(wish).remove(0);
        let token = lease.fence().ok().map(u64::from);
        self.note(Line::Got { id: id.clone(), at: now(), token });
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
                return if succeeds { Ok(()) } else { Err("it fails") };
            }
            sleep(rest.min(LOOK)).await;
        }
    }

    /// Nothing is in the way: within this time two ticks have a success.
    pub(super) async fn last_ticks(&self, locks: &Locks, within: Duration) {
        let ran = watch::Sender::new(0);
        let job = self.job(locks, Duration::from_secs(5));
        let running = job.run(|_| {
            ran.send_modify(|count| *count += 1);
            std::future::ready(Ok::<_, &str>(()))
        });
        let mut seen = ran.subscribe();
        let both = async { seen.wait_for(|count| *count >= 2).await.is_ok() };
        let ended = tokio::select! {
            _ = timeout(within, running) => false,
            both = both => both,
        };
        // What counts as done may lie ahead of a clock that was set back.
        if !ended && !self.shared.was_forgotten() {
            self.shared.violation("at the end a job does not run".to_owned());
        }
    }
}
