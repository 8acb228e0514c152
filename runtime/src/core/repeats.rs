//! How often jobs repeat commands that failed.
//!
//! Each pause of a job is twice as long as the one before, so a new failure is repeated soon, and an old
//! one seldom. All jobs of a client together, or of a quorum's member, repeat only so many commands a second,
//! however many there are.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::core::store_error::StoreError;
use crate::system;

/// The pause after a failure. It is short compared with the TTL, so that several retries fit
/// into the rest of a lease. It is random, so that jobs do not come back together.
pub(crate) fn retry_pause(ttl: Duration) -> Duration {
    system::equal_jitter(longest_pause(ttl))
}

fn longest_pause(ttl: Duration) -> Duration {
    (ttl / 20).clamp(Duration::from_millis(10), Duration::from_millis(500))
}

/// Why a command is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The same command may succeed a little later.
    Passing,
    /// The server answered that it refuses the command. An operator may be changing permissions.
    Refused,
}

impl Why {
    pub(crate) fn of(error: &StoreError) -> Self {
        if error.is_passing { Self::Passing } else { Self::Refused }
    }

    /// The first pause, and the longest.
    fn pauses(self, ttl: Duration) -> (Duration, Duration) {
        match self {
            Self::Passing => (longest_pause(ttl), Duration::from_secs(2)),
            Self::Refused => (Duration::from_millis(500), Duration::from_secs(8)),
        }
    }

    /// How many commands a client repeats in a second.
    fn most_in_a_second(self) -> f64 {
        match self {
            Self::Passing => 1_000.0,
            Self::Refused => 2.0,
        }
    }
}

/// The jobs that repeat.
#[derive(Debug, Default)]
pub(crate) struct Repeating {
    passing: AtomicU32,
    refused: AtomicU32,
    hurry: watch::Sender<()>,
}

impl Repeating {
    /// Lets all jobs that pause repeat now: soon it is too late.
    pub(crate) fn hurry(&self) {
        self.hurry.send_replace(());
    }

    fn count(&self, why: Why) -> &AtomicU32 {
        match why {
            Why::Passing => &self.passing,
            Why::Refused => &self.refused,
        }
    }
}

/// The repeats of one job.
pub(crate) struct Repeats<'a> {
    all: &'a Repeating,
    hurry: watch::Receiver<()>,
    /// Why it repeats, and how long it pauses next.
    next: Option<(Why, Duration)>,
}

impl<'a> Repeats<'a> {
    pub(crate) fn new(all: &'a Repeating) -> Self {
        Self { all, hurry: all.hurry.subscribe(), next: None }
    }

    /// Waits until the command is to be repeated.
    pub(crate) async fn pause(&mut self, why: Why, ttl: Duration) {
        let pause = self.next(why, ttl);
        tokio::select! {
            biased;
            Ok(()) = self.hurry.changed() => self.next = Some((why, why.pauses(ttl).0)),
            () = sleep(pause) => {}
        }
    }

    fn next(&mut self, why: Why, ttl: Duration) -> Duration {
        let (first, longest) = why.pauses(ttl);
        let alone = match self.next {
            Some((before, pause)) if before == why => pause,
            _ => {
                self.count_out();
                self.all.count(why).fetch_add(1, Ordering::Relaxed);
                first
            }
        };
        self.next = Some((why, (alone * 2).min(longest)));
        let count = f64::from(self.all.count(why).load(Ordering::Relaxed));
        // Jitter takes away a quarter of it on average.
        let together = Duration::from_secs_f64(count / why.most_in_a_second() / 0.75);
        system::equal_jitter(alone.max(together))
    }

    fn count_out(&mut self) {
        if let Some((why, _)) = self.next.take() {
            self.all.count(why).fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Repeats<'_> {
    fn drop(&mut self) {
        self.count_out();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    #[test]
    fn pauses_double_and_a_new_reason_begins_anew() {
        let all = Repeating::default();
        let mut repeats = Repeats::new(&all);
        let mut pause = |why, most: u64| {
            let (pause, most) = (repeats.next(why, TTL), Duration::from_millis(most));
            assert!(pause >= most / 2 && pause <= most, "{pause:?}, at most {most:?}");
        };
        for most in [500, 1_000, 2_000, 2_000] {
            pause(Why::Passing, most);
        }
        // Alone it may send two a second: so its first pause is longer than half a second.
        for most in [667, 1_000, 2_000, 4_000, 8_000, 8_000] {
            pause(Why::Refused, most);
        }
        pause(Why::Passing, 500);
    }

    #[test]
    fn many_jobs_repeat_only_so_often_together() {
        let all = Repeating::default();
        for (why, in_a_second) in [(Why::Passing, 1_000.0), (Why::Refused, 2.0)] {
            let mut jobs: Vec<_> = (0..10_000).map(|_| Repeats::new(&all)).collect();
            for job in &mut jobs {
                job.next(why, TTL);
            }
            let pauses = jobs.iter_mut().map(|job| job.next(why, TTL).as_secs_f64());
            let rate: f64 = pauses.map(f64::recip).sum();
            assert!(rate < in_a_second * 1.2, "{rate} of {in_a_second}");
        }
        let left = [Why::Passing, Why::Refused].map(|why| all.count(why).load(Ordering::Relaxed));
        assert_eq!(left, [0, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_pauses_is_hurried() {
        let all = Repeating::default();
        let mut repeats = Repeats::new(&all);
        for _ in 0..10 {
            repeats.next(Why::Refused, TTL);
        }
        let begun = tokio::time::Instant::now();
        tokio::join!(repeats.pause(Why::Refused, TTL), async { all.hurry() });
        assert_eq!(begun.elapsed(), Duration::ZERO);
        repeats.pause(Why::Refused, TTL).await;
        assert!(begun.elapsed() < Duration::from_secs(1), "the pauses begin anew");
    }
}
