//! Whether the caller can wait: in a Tokio runtime with timers.

use std::cell::Cell;
use std::panic::catch_unwind;
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::time::sleep;

use super::error::LockError;

thread_local! {
    /// The last runtime that this thread looked at, and if it has timers.
    static SEEN: Cell<Option<(Id, bool)>> = const { Cell::new(None) };
}

/// The runtime that the caller runs in, if that has timers.
pub(crate) fn runtime_with_timers() -> Option<Handle> {
    let runtime = Handle::try_current().ok()?;
    let id = runtime.id();
    let has_timers = match SEEN.try_with(Cell::get) {
        Ok(Some((seen, has_timers))) if seen == id => has_timers,
        _ => {
            // A runtime does not say it in another way. Once for each thread and runtime.
            let has_timers = catch_unwind(|| drop(sleep(Duration::ZERO))).is_ok();
            let _ = SEEN.try_with(|seen| seen.set(Some((id, has_timers))));
            has_timers
        }
    };
    has_timers.then_some(runtime)
}

/// Every call that may wait asks this first. So it fails on its first call, and not only once it
/// has to wait.
pub(crate) fn check_timers() -> Result<(), LockError> {
    runtime_with_timers().map(drop).ok_or(LockError::NoRuntime)
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn the_runtime_decides() {
        let has_timers = || runtime_with_timers().is_some();
        let with = Builder::new_current_thread().enable_time().build().unwrap();
        let without = Builder::new_current_thread().enable_io().build().unwrap();
        for _ in 0..2 {
            assert!(!has_timers(), "there is none");
            assert!(with.block_on(async { has_timers() }));
            assert!(!without.block_on(async { has_timers() }));
        }
        assert!(matches!(check_timers(), Err(LockError::NoRuntime)));
    }
}
