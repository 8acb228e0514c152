//! A job: work that runs once in each tick, on one of the processes that offer to.

mod asked_again;
mod next;
mod one_run;

use std::fmt::Display;
use std::future::Future;
use std::time::{Duration, Instant, SystemTime};

use self::next::{FailurePause, asks_again, until_tick_ends};
use super::mutex::Mutex;
use crate::core::error::{LockError, Quiet};
use crate::core::log_rate::seldom;
use crate::core::option_rules::{DAY, Range, SHORTEST};
use crate::engine::lease::{Lease, LeaseHandle, Tick};
use crate::state::telemetry::job::succeeded;
use crate::system;

/// Work that runs once in each tick, on one of the processes that offer to: from
/// [`Mutex::job`](crate::Mutex::job).
///
/// Each process calls [`run`](Self::run). It sleeps until a tick begins by the server's clock, and then
/// tries to get the lock. Who gets it runs the work; after a success all sleep until the next tick. If the
/// work fails, one of them runs it again within the tick.
///
/// Metrics have the [label](Mutex::label) of the mutex: give each job one of its own.
///
/// The idea of a controller that starts what a calendar says, and knows when it last succeeded, is that of
/// Kubernetes' `CronJob`; here there is no controller.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::{LeaseHandle, LockError, Locks};
///
/// async fn report(lease: LeaseHandle) -> Result<(), LockError> {
///     let tick = lease.tick().expect("a job has ticks");
///     println!("the report of the hour that began at {:?}", tick.began);
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), LockError> {
/// let locks = Locks::in_memory();
/// let hourly = locks.mutex("report").once_per(Duration::from_secs(3600)).job();
/// let running = tokio::spawn(async move { hourly.run(report).await });
/// // … until the service ends:
/// # tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
/// locks.shutdown().await;
/// running.await.expect("it does not panic")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a job does nothing until it runs"]
pub struct Job {
    mutex: Mutex,
    catch_up: bool,
    jitter: Duration,
    retry: Duration,
}

/// What a process remembers of its job.
struct SoFar {
    started: Instant,
    failures: FailurePause,
    /// The tick whose run was stopped at its end.
    replaced: Option<Tick>,
    /// The last success that it has told of.
    succeeded: Option<SystemTime>,
    /// When the work was last let run again, as far as the store has said.
    asked_again: Option<SystemTime>,
}

/// How long the pause after a failure may be.
const RETRY: Range = Range { least: SHORTEST, most: DAY };

impl Mutex {
    /// The work under this mutex as a job, which this process runs when it is due. It needs ticks:
    /// [`once_per`](Self::once_per) or `schedule`. All options apply, except [`wait`](Self::wait).
    pub fn job(&self) -> Job {
        Job {
            mutex: self.clone(),
            catch_up: true,
            jitter: Duration::from_secs(1),
            retry: Duration::from_secs(10),
        }
    }
}

impl Job {
    /// Whether a tick that began before this process was there is run, if it has no success yet. The
    /// default is `true`, so that a restart loses no tick. With `false` the first run is in the next
    /// tick.
    ///
    /// Earlier ticks are never run: [`Tick::missed`](crate::Tick::missed) says how many there were.
    pub fn catch_up(mut self, catch_up: bool) -> Self {
        self.catch_up = catch_up;
        self
    }

    /// The longest time after the beginning of a tick at which this process asks for it: each time
    /// another, by chance. The default is 1 s. It spreads the jobs that are due at the same time. More
    /// than a tenth of a tick counts as a tenth.
    pub fn jitter(mut self, most: Duration) -> Self {
        self.jitter = most;
        self
    }

    /// How long nobody runs the work after it has failed: at first this long, then twice as long each
    /// time that it fails in this process, up to 32 times as long, but not longer than the tick. From 100
    /// ms to 24 h; the default is 10 s.
    pub fn retry(mut self, pause: Duration) -> Self {
        self.retry = pause;
        self
    }

    /// Runs the work in each tick, until the client is [shut down](crate::Locks::shutdown).
    ///
    /// - The work gets its lease's handle, which names the [tick](LeaseHandle::tick). If the lease is
    ///   lost, its future is dropped.
    /// - After `Ok` the tick is done, in all processes.
    /// - After an error or a panic it is not. Nobody gets the lock for the pause that
    ///   [`retry`](Self::retry) says, and then one of the processes runs the work again. This is logged.
    ///   After a loss of the lease another process may run it at once.
    /// - A run that outlasts its tick goes on. The next tick is run when it has ended. With
    ///   [`replace`](Mutex::replace) it is stopped at the end of its tick, and its tick has no success.
    /// - If the lock store fails, the process asks again until it answers. This is logged, too.
    ///
    /// While it sleeps it sends nothing, but for a question every four hours: the server's clock may be set.
    /// A tick costs each process about three commands, and one for each `ttl` during which another process
    /// runs the work, or for each minute if that is less. If a process dies in the middle, its lock ends
    /// with its `ttl`, and another one runs the work a minute later at most.
    ///
    /// When a shutdown begins, work that runs has the time that the shutdown gives it. To hand it over at
    /// once, drop this future.
    ///
    /// # Errors
    ///
    /// The job has ended, and no tick is run here any more. This is logged as an error, since the future's
    /// result is often looked at only when the service ends.
    ///
    /// - [`LockError::InvalidOption`] if the mutex has no ticks, or an option is out of its range.
    /// - [`LockError::Unsupported`] on a quorum.
    /// - [`LockError::NoRuntime`] outside of a Tokio runtime with timers.
    /// - [`LockError::WrongKind`] if the name is in use by another kind of lock, or by something that is
    ///   not a lock.
    /// - [`LockError::InvalidKey`] if no lock can have this name.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping this future drops the work, and the lock is released in the background.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::{LockError, Locks};
    ///
    /// # async fn clean_up() -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn example(locks: Locks) {
    /// let minutely = locks.mutex("clean-up").once_per(std::time::Duration::from_secs(60)).job();
    /// let running = tokio::spawn(async move { minutely.run(|_lease| clean_up()).await });
    /// # drop(running);
    /// # }
    /// ```
    pub async fn run<W, E>(&self, mut work: impl FnMut(LeaseHandle) -> W) -> Result<(), LockError>
    where
        W: Future<Output = Result<(), E>>,
        E: Display,
    {
        let ended = self.run_until_shutdown(&mut work).await;
        if let Err(error) = &ended {
            let (lock, error) = (self.mutex.spec().label(), Quiet(error));
            tracing::error!(lock, %error, "a job has ended: no tick of it is run here any more");
        }
        ended
    }

    async fn run_until_shutdown<W, E>(
        &self,
        work: &mut impl FnMut(LeaseHandle) -> W,
    ) -> Result<(), LockError>
    where
        W: Future<Output = Result<(), E>>,
        E: Display,
    {
        if !self.mutex.has_ticks() {
            return Err(LockError::InvalidOption {
                option: "once_per",
                problem: "a job is due once in each tick: set `once_per` or `schedule`".to_owned(),
            });
        }
        if !RETRY.has(self.retry) {
            let problem = format!("{:?} is out of range: it must be {RETRY}", self.retry);
            return Err(LockError::InvalidOption { option: "retry", problem });
        }
        let shared = self.mutex.spec().shared.clone();
        let (shutdown, store) = (&shared.client.keeper.shutdown, &*shared.client.store);
        let route = shared.client.hints.job(&self.mutex.spec().key()?);
        let failures = FailurePause::of(self.retry);
        let mut so_far = SoFar {
            started: self.now(),
            failures,
            replaced: None,
            succeeded: None,
            asked_again: None,
        };
        while !shutdown.has_begun() {
            route.watch(store).await;
            // Boxed, as whoever spawns it would otherwise need room for a run while it sleeps.
            let due = Box::pin(self.ask(work, &mut so_far)).await;
            let due = match due {
                Err(LockError::ShutDown) => return Ok(()),
                due => due?,
            };
            tokio::select! {
                biased;
                () = shutdown.begun() => {}
                () = next::sleep(store, due) => {}
                () = self.until_asked_again(&route, &mut so_far) => {}
            }
        }
        Ok(())
    }

    /// Asks for the present tick, and runs it if this process gets it. Returns how long to wait before
    /// it asks again.
    async fn ask<W, E>(
        &self,
        work: &mut impl FnMut(LeaseHandle) -> W,
        so_far: &mut SoFar,
    ) -> Result<Duration, LockError>
    where
        W: Future<Output = Result<(), E>>,
        E: Display,
    {
        let (lock, begun) = (self.mutex.spec().label(), self.now());
        match self.mutex.try_lock().await {
            Ok(lease) => {
                // Before the first success it is told when this process began to wait for one.
                let begun_here = || {
                    let since = self.now().saturating_duration_since(so_far.started);
                    SystemTime::UNIX_EPOCH + system::wall_clock().saturating_sub(since)
                };
                let last = lease.last_success().unwrap_or_else(begun_here);
                self.note_success(so_far, last);
                let here = self.now().saturating_duration_since(so_far.started);
                let is_older = lease.tick_age_at_grant() > here;
                // Clocks run differently: a tick whose run was stopped may have a moment left.
                let is_of = |tick: Tick| lease.tick().is_some_and(|it| it.began == tick.began);
                let replaced = so_far.replaced.filter(|tick| is_of(*tick));
                let is_wanted = if (self.catch_up || !is_older) && replaced.is_none() {
                    Ok(true)
                } else {
                    let since = replaced.map(|it| it.granted).or(lease.tick().map(|it| it.began));
                    self.asked_again(so_far).await.map(|at| at.is_some() && at >= since)
                };
                if is_wanted.as_ref().is_ok_and(|is_wanted| *is_wanted) {
                    return self.run_once((lease, begun), work, so_far).await;
                }
                let left = self.tick_left(&lease, begun);
                let _ = lease.release().await;
                let due = until_tick_ends(left, self.spread());
                Ok(if is_wanted.is_err() {
                    due.min(system::equal_jitter(next::OUTAGE))
                } else {
                    due
                })
            }
            Err(LockError::Done { completed, retry_after, .. }) => {
                so_far.failures = FailurePause::of(self.retry);
                self.note_success(so_far, completed);
                Ok(until_tick_ends(retry_after, self.spread()))
            }
            Err(LockError::Busy { retry_after, kept, .. }) => {
                Ok(asks_again(retry_after, kept, self.mutex.tick_lasts()))
            }
            Err(error) if error.is_store_failure() => {
                if let Some(left_out) = seldom("job", lock) {
                    let error = Quiet(&error);
                    tracing::warn!(lock, left_out, %error, "a job: lock store unavailable; retrying");
                }
                Ok(system::equal_jitter(next::OUTAGE))
            }
            Err(error) => Err(error),
        }
    }

    /// Notes when the work last succeeded.
    ///
    /// The store may know less of it: when that run began, or nothing since the work may run again.
    fn note_success(&self, so_far: &mut SoFar, at: SystemTime) {
        let now = SystemTime::UNIX_EPOCH + system::wall_clock();
        // One that lies ahead was told by a clock that was wrong.
        let known = so_far.succeeded.filter(|known| *known <= now);
        let last = known.map_or(at, |known| known.max(at));
        so_far.succeeded = Some(last);
        succeeded(self.mutex.spec().label(), last, self.mutex.tick_lasts());
    }

    /// The jitter, which short ticks have no room for.
    fn spread(&self) -> Duration {
        self.jitter.min(self.mutex.tick_lasts() / 10)
    }

    fn now(&self) -> Instant {
        self.mutex.spec().shared.client.store.now()
    }

    /// How much of its tick is left to a lease that was asked for at `begun`.
    fn tick_left(&self, lease: &Lease, begun: Instant) -> Duration {
        lease.tick_left_at_grant().saturating_sub(self.now().saturating_duration_since(begun))
    }
}
