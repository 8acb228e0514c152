//! Functions that block, on threads that are there for them.

use std::panic::resume_unwind;

use tokio::task::spawn_blocking;

use super::error::LockError;
use super::timers::check_timers;

/// Waits for a function on such a thread. A panic there goes on here.
pub(crate) async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LockError> + Send + 'static,
) -> Result<T, LockError> {
    check_timers()?;
    match spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => Err(LockError::NoRuntime),
        },
    }
}
