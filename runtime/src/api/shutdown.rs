//! Ending a client in order.

use std::time::Duration;

use tokio::time::timeout;

use super::locks::Locks;
use crate::state::shutdown::{DRAIN, ShutdownReport};

/// How long a shut-down lets work go on that holds a lock.
const GRACE: Duration = Duration::from_secs(5);

impl Locks {
    /// Ends the client, with all of its clones, and says what it released and what it
    /// could not: for the end of a service, when it serves no more.
    ///
    /// From now on nothing is acquired: whoever waits is refused with
    /// [`LockError::ShutDown`](crate::LockError::ShutDown), and [leaders](Self::lead) step down. What is held goes on
    /// for up to 5 seconds, so that work can come to its end. Then it is lost
    /// ([`LossReason::ShutDown`](crate::LossReason::ShutDown)), which stops what runs
    /// under it, and it is released as soon as its holder lets go of it. After another 2
    /// seconds it is left to its TTL: a lock is never taken from work that goes on.
    ///
    /// It returns as soon as nothing is left. Not calling it is no mistake: what is
    /// dropped when a process ends in order is released anyway. It tells how that went,
    /// and waits for work that would otherwise be cut off.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with timers, if something is left at first.
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped, nothing is acquired any more, and what is held
    /// goes on.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// let lease = locks.mutex("order:42").lock().await?;
    /// drop(lease);
    ///
    /// let report = locks.shutdown().await;
    /// assert_eq!(report.left, 0);
    /// assert!(locks.mutex("order:42").lock().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn shutdown(&self) -> ShutdownReport {
        let shutdown = &self.client().keeper.shutdown;
        shutdown.begin();
        let _ = timeout(GRACE, shutdown.drained()).await;
        shutdown.end();
        let _ = timeout(DRAIN, shutdown.drained()).await;
        let report = shutdown.report();
        if report.left > 0 {
            tracing::warn!(left = report.left, "not all was released; the TTLs end the rest");
        }
        report
    }
}
