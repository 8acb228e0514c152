//! The types, the limit and the pause that all jobs of the keeper share.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::system;

/// Work that runs once.
pub(crate) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Limits how many commands of jobs are in flight. All at once would take the server longer
/// than a command may take, and fail together. A job that pauses before a retry holds no
/// permit.
pub(super) type JobLimit = Arc<Semaphore>;

/// The pause after a failure. It is short compared with the TTL, so that several retries fit
/// into the rest of a lease. It is random, so that jobs do not come back together.
pub(super) fn retry_pause(ttl: Duration) -> Duration {
    let longest = (ttl / 20).clamp(Duration::from_millis(10), Duration::from_millis(500));
    system::equal_jitter(longest)
}
