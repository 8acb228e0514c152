//! Code of the program that background tasks call, and that may panic: recorders of metrics, and
//! subscribers of logs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt;

/// Runs work to its end, or until it panics. Returns true if it did not.
pub(crate) async fn caught(work: impl Future<Output = ()>) -> bool {
    let is_done = AssertUnwindSafe(work).catch_unwind().await.is_ok();
    if !is_done {
        // The subscriber may be what panics.
        let _ = catch_unwind(|| {
            tracing::error!("a background task of the lock client has panicked");
        });
    }
    is_done
}
