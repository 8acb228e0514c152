//! Which locks were recalled lately, and so do not linger for a while.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::spec::QueueName;

/// The first pause after a recall, and the longest.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(60);

/// How many entries there may be before the old ones are removed.
const FEW: usize = 64;

/// The recalled locks.
#[derive(Default)]
pub(super) struct Recalls {
    by_name: HashMap<QueueName, Pause>,
    /// How many entries there may be before the old ones are removed.
    sweep_above: usize,
}

/// A lock does not linger before `until`.
struct Pause {
    until: Instant,
    length: Duration,
}

impl Pause {
    /// A recall soon after a pause makes the next one longer.
    fn is_forgotten(&self, now: Instant) -> bool {
        now > self.until + self.length * 4
    }
}

impl Recalls {
    pub(super) fn is_paused(&self, name: &QueueName, now: Instant) -> bool {
        self.by_name.get(name).is_some_and(|pause| now < pause.until)
    }

    /// Notes a recall.
    pub(super) fn note(&mut self, name: &QueueName, now: Instant) {
        if self.by_name.len() > self.sweep_above {
            self.by_name.retain(|_, pause| !pause.is_forgotten(now));
            self.sweep_above = (self.by_name.len() * 2).max(FEW);
        }
        let before = self.by_name.get(name).filter(|pause| !pause.is_forgotten(now));
        let length = before.map_or(SHORTEST, |pause| (pause.length * 2).min(LONGEST));
        self.by_name.insert(name.clone(), Pause { until: now + length, length });
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::name;
    use super::*;
    use crate::core::key::LockKey;
    use crate::store::Kind;

    #[test]
    fn pauses_grow_with_repeated_recalls_and_begin_anew_when_they_stop() {
        let name = |lock: &str| name(&LockKey::new(lock).unwrap(), Kind::Mutex, None);
        let (mut recalls, mut now) = (Recalls::default(), Instant::now());
        let mut lengths = Vec::new();
        for _ in 0..12 {
            recalls.note(&name("a"), now);
            assert!(recalls.is_paused(&name("a"), now) && !recalls.is_paused(&name("b"), now));
            let length = recalls.by_name[&name("a")].length;
            lengths.push(length.as_millis());
            now += length;
            assert!(!recalls.is_paused(&name("a"), now));
        }
        assert_eq!(lengths[..5], [100, 200, 400, 800, 1600]);
        assert_eq!(lengths[11], 60_000);
        now += LONGEST * 5;
        recalls.note(&name("a"), now);
        assert_eq!(recalls.by_name[&name("a")].length, SHORTEST);
    }

    #[test]
    fn recalls_of_a_million_locks_are_forgotten() {
        let (mut recalls, mut now) = (Recalls::default(), Instant::now());
        for nth in 0..100_000 {
            let lock = LockKey::new(format!("lock:{nth}")).unwrap();
            recalls.note(&name(&lock, Kind::Mutex, None), now);
            now += Duration::from_millis(10);
        }
        assert!(recalls.by_name.len() < 300, "{}", recalls.by_name.len());
    }
}
