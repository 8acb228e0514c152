//! Whether a report of the slots is being asked for, and whether another one is needed.

use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
pub(super) struct Refreshing {
    is_running: AtomicBool,
    /// There was a reason since the last report was asked for: the report may be older.
    is_needed: AtomicBool,
}

impl Refreshing {
    /// Notes that a report is needed. Returns true if the caller has to begin asking.
    pub(super) fn begins(&self) -> bool {
        self.is_needed.store(true, Ordering::SeqCst);
        !self.is_running.swap(true, Ordering::SeqCst)
    }

    /// Returns true if one more report is needed. If not, the next reason begins anew.
    pub(super) fn goes_on(&self) -> bool {
        loop {
            if self.is_needed.swap(false, Ordering::SeqCst) {
                return true;
            }
            self.is_running.store(false, Ordering::SeqCst);
            let is_late = self.is_needed.load(Ordering::SeqCst);
            if !is_late || self.is_running.swap(true, Ordering::SeqCst) {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_comes_meanwhile_is_not_forgotten() {
        let refreshing = Refreshing::default();
        assert!(refreshing.begins());
        assert!(refreshing.goes_on());
        assert!(!refreshing.begins(), "it is asked for already");
        assert!(refreshing.goes_on(), "the report may be older");
        assert!(!refreshing.goes_on());
        assert!(refreshing.begins());
    }
}
