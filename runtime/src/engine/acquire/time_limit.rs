//! A time limit by the caller's own timers. Answers and their time-outs run on the client's
//! thread. If something blocks that thread, a caller still gives up in time.

use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use tokio::time::sleep;

use crate::core::error::Outcome;
use crate::store::StoreError;

/// Runs `work` for at most `limit`, and fails if there was no answer by then. The caller pins
/// `work`, because by value the future would contain it twice.
pub(super) async fn within<T>(
    limit: Option<Duration>,
    work: Pin<&mut impl Future<Output = T>>,
) -> Result<T, StoreError> {
    let over = async {
        match limit {
            Some(limit) => sleep(limit).await,
            None => pending().await,
        }
    };
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = over => Err(no_answer()),
    }
}

/// The error for a missing answer. The keeper cancels what was asked.
fn no_answer() -> StoreError {
    let source = "no answer in time from the lock client's own thread, `leasehold`: \
                  the process was paused, or something blocks the thread, perhaps a `tracing` \
                  subscriber";
    StoreError {
        outcome: Outcome::Unknown,
        is_passing: true,
        is_shut_down: false,
        source: source.into(),
    }
}
