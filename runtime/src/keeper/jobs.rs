//! What all work of the keeper has in common.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

/// Work that is done once.
pub(super) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How many commands of jobs are under way at a time. All at once would take the server
/// longer than a command may take, and fail together. Who waits to try again has no turn.
pub(super) type Gate = Arc<Semaphore>;

/// The pause after a failure: short beside the TTL, so that several tries fit
/// into what is left of a lease; and random, so that not all come back at once.
pub(super) fn pause(ttl: Duration) -> Duration {
    let longest = (ttl / 20).clamp(Duration::from_millis(10), Duration::from_millis(500));
    longest.mul_f64(0.5 + 0.5 * fastrand::f64())
}
