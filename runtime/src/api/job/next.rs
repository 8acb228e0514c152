//! When a job asks again.

use std::time::Duration;

use crate::store::Store;
use crate::system;

/// The pause after the store failed.
pub(super) const OUTAGE: Duration = Duration::from_secs(5);

/// The pauses while another process runs the job.
pub(super) const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(60);

/// A clock that is suspended with its machine is looked at this often.
const LOOK: Duration = Duration::from_secs(30);

/// After so many failures the pause grows no more.
const MOST_DOUBLINGS: u32 = 5;

/// The pause after a failure, which grows with each.
pub(super) struct FailurePause {
    first: Duration,
    failures: u32,
}

impl FailurePause {
    pub(super) fn of(first: Duration) -> Self {
        Self { first, failures: 0 }
    }

    pub(super) fn next(&mut self) -> Duration {
        let pause = self.first.saturating_mul(1 << self.failures.min(MOST_DOUBLINGS));
        self.failures += 1;
        pause
    }
}

/// How much longer the lock is kept than the tick lasts: what is left of that is known less exactly.
pub(super) const MARGIN: Duration = Duration::from_millis(10);

/// The longest sleep: the store's clock may be set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(4 * 60 * 60);

/// How long to sleep for a tick that ends in this time by the store's clock. Clocks run differently: for
/// a long time, it asks once more shortly before.
pub(super) fn until_tick_ends(left: Duration, jitter: Duration) -> Duration {
    if left > Duration::from_secs(10) {
        return left.saturating_sub(left / 1000).min(LONGEST_SLEEP);
    }
    // The store counts in whole milliseconds.
    left + Duration::from_millis(1) + system::full_jitter(jitter)
}

/// How long to sleep while another process has the lock for this time, unless it renews its lease; or
/// while the lock is kept from all. Not for longer than a tick: the next one may find the lock free.
pub(super) fn asks_again(held: Duration, is_kept: bool, tick: Duration) -> Duration {
    let most = if is_kept { tick } else { tick.min(LONGEST) };
    let pause = held.clamp(SHORTEST, most.max(SHORTEST));
    // Those that wait for the same moment do not ask together.
    pause + system::full_jitter(SHORTEST)
}

/// Sleeps, also through a suspension of the machine, which tokio's clock does not count.
pub(super) async fn sleep(store: &dyn Store, time: Duration) {
    let begun = store.now();
    loop {
        let left = time.saturating_sub(store.now().saturating_duration_since(begun));
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LOOK)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_after_failures_grow_to_an_end() {
        let mut pauses = FailurePause::of(Duration::from_secs(10));
        let first: Vec<_> = (0..8).map(|_| pauses.next().as_secs()).collect();
        assert_eq!(first, [10, 20, 40, 80, 160, 320, 320, 320]);
    }

    /// A day costs eight questions, and none comes too early.
    #[test]
    fn a_long_sleep_ends_shortly_before_the_tick() {
        let (mut left, mut asks) = (Duration::from_secs(24 * 3600), 0);
        while !left.is_zero() {
            let sleeps = until_tick_ends(left, Duration::ZERO);
            left = left.saturating_sub(sleeps);
            asks += 1;
        }
        assert!(asks <= 8, "{asks}");
        let pause = until_tick_ends(Duration::from_secs(1), Duration::from_secs(9));
        assert!(pause > Duration::from_secs(1) && pause <= Duration::from_millis(10_001));
    }
}
