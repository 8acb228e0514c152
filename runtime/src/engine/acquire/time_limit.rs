//! A bound by the caller's own timers. Answers, and their time-outs, are the work of the
//! client's thread, which something may block: a caller does not wait longer for that.

use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::core::error::Outcome;
use crate::store::StoreError;

/// Asks the store, for `most` at most, if that is bounded. Nothing if there was no answer.
/// It is pinned by the caller: by value it would be kept twice.
pub(super) async fn within<T>(
    limit: Option<Duration>,
    work: Pin<&mut impl Future<Output = T>>,
) -> Result<T, StoreError> {
    let over = async {
        match limit {
            // Outside of a runtime there are no timers.
            Some(limit) if Handle::try_current().is_ok() => sleep(limit).await,
            _ => pending().await,
        }
    };
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = over => Err(no_answer()),
    }
}

/// Why there was no answer. Whoever gives up leaves what it asked to the keeper.
fn no_answer() -> StoreError {
    let source = "no answer in time from the lock client's own thread, `leasehold`: \
                  something blocks it, as a `tracing` subscriber that waits may do";
    StoreError {
        outcome: Outcome::Unknown,
        is_passing: true,
        is_shut_down: false,
        source: source.into(),
    }
}
