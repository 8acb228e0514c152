//! Since when the oldest hold and the longest wait of each label go on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use crate::core::sync::lock;
use crate::system;

/// A kind and a label. Both are constants of the code, so there are few.
type Series = (&'static str, &'static str);

/// When the holds, or the waits, of this process began, if they last for a while. In nanoseconds
/// since the Unix epoch; no two of a series are equal.
pub(super) struct Since(Mutex<BTreeMap<Series, BTreeSet<u64>>>);

impl Since {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Adds one that has lasted for this time. Returns its beginning, which removes it again.
    ///
    /// If it is the oldest one, its beginning is shown, in seconds. That is done under the lock:
    /// otherwise an older value could be shown last.
    pub(super) fn add(&self, series: Series, lasted: Duration, show: impl FnOnce(f64)) -> u64 {
        let mut began = nanos(system::wall_clock().saturating_sub(lasted)).max(1);
        let mut all = lock(&self.0);
        let of_series = all.entry(series).or_default();
        while !of_series.insert(began) {
            began += 1;
        }
        if of_series.first() == Some(&began) {
            show(seconds(began));
        }
        began
    }

    /// Removes one. If it was the oldest, the next one is shown, or 0 without one.
    pub(super) fn remove(&self, series: Series, began: u64, show: impl FnOnce(f64)) {
        let mut all = lock(&self.0);
        let Some(of_series) = all.get_mut(&series) else { return };
        let was_oldest = of_series.first() == Some(&began);
        of_series.remove(&began);
        if was_oldest {
            show(of_series.first().copied().map_or(0.0, seconds));
        }
    }
}

#[cfg(test)]
impl Since {
    pub(super) fn assert_empty(&self, series: Series) {
        let all = lock(&self.0);
        assert!(all.get(&series).is_none_or(BTreeSet::is_empty), "{series:?}: {all:?}");
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn seconds(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Series = ("mutex", "a");
    const MINUTE: Duration = Duration::from_secs(60);

    /// What is shown after each step; `None` if nothing is.
    fn shown(step: impl FnOnce(&mut dyn FnMut(f64))) -> Option<f64> {
        let mut last = None;
        step(&mut |seconds| last = Some(seconds));
        last
    }

    #[test]
    fn the_oldest_is_shown_and_then_the_next_oldest() {
        let since = Since::new();
        let add =
            |lasted, names: &mut Vec<u64>| shown(|show| names.push(since.add(A, lasted, show)));
        let mut names = Vec::new();
        let middle = add(MINUTE * 2, &mut names);
        assert!(middle.is_some());
        let oldest = add(MINUTE * 3, &mut names);
        assert!(oldest < middle);
        assert_eq!(add(MINUTE, &mut names), None, "it is not the oldest");
        // Another label has its own.
        assert!(
            shown(|show| {
                let _ = since.add(("mutex", "b"), MINUTE, show);
            })
            .is_some()
        );

        let [of_middle, of_oldest, of_newest] = names[..] else { panic!("{names:?}") };
        assert_eq!(shown(|show| since.remove(A, of_oldest, show)), middle);
        assert_eq!(shown(|show| since.remove(A, of_newest, show)), None);
        assert_eq!(shown(|show| since.remove(A, of_middle, show)), Some(0.0));
        assert_eq!(shown(|show| since.remove(A, of_middle, show)), None);
    }

    /// However coarse the clock is, each has a beginning of its own.
    #[test]
    fn those_that_began_together_are_told_apart() {
        let since = Since::new();
        let all: BTreeSet<_> = (0..100).map(|_| since.add(A, Duration::MAX, drop)).collect();
        assert_eq!(all.len(), 100);
        for began in all {
            since.remove(A, began, drop);
        }
        since.assert_empty(A);
    }
}
