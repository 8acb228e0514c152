//! Shutting a client down.

use std::time::Duration;

use super::locks::Locks;
use crate::state::shutdown::{DRAIN, ShutdownReport};

/// How long a shutdown lets work under a lock go on.
const GRACE: Duration = Duration::from_secs(5);

/// How long of that it waits for acquisitions to end. Each ends as soon as its task is polled: later,
/// nobody polls it.
const UNPOLLED: Duration = Duration::from_millis(500);

impl Locks {
    /// Shuts the client and all its clones down, and reports what it released and what is
    /// left: for the end of a service, when it serves no more requests.
    ///
    /// 1. Nothing new is acquired. Waiters get
    ///    [`LockError::ShutDown`](crate::LockError::ShutDown), and [leaders](Self::lead)
    ///    step down.
    /// 2. Held leases go on for up to 5 seconds, so that work can finish.
    /// 3. Leases that are still held are lost
    ///    ([`LossReason::ShutDown`](crate::LossReason::ShutDown)), which stops the work
    ///    under them. Each is released as soon as its holder drops it.
    /// 4. After another 2 seconds, what is left ends with its TTL. A lock is never taken
    ///    from work that goes on.
    ///
    /// Tickets are not counted, and their locks are not freed: a
    /// [detached](crate::Lease::detach) lease is no longer this client's.
    ///
    /// It returns as soon as nothing is left. On Windows, and in programs that are linked with
    /// musl, always call it: there, an ending process waits for nothing. Elsewhere dropped leases
    /// are released at the orderly end of a process anyway; this adds the report, and it waits for
    /// work that would otherwise be cut off.
    ///
    /// Outside of a Tokio runtime with timers, a client in memory waits for nothing: what is still
    /// held is reported as left.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, nothing new is acquired, and held leases go on.
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
        let keeper = &self.client().keeper;
        // The leases of a copy are the parent's.
        if keeper.is_forked() {
            return ShutdownReport::default();
        }
        let shutdown = &keeper.shutdown;
        keeper.begin_shutdown();
        self.shared().queues.stop_all_lingering();
        keeper.within(UNPOLLED, shutdown.idle()).await;
        keeper.within(GRACE.saturating_sub(UNPOLLED), shutdown.drained()).await;
        keeper.end_grace();
        keeper.within(DRAIN, shutdown.drained()).await;
        let report = keeper.report();
        if report.left > 0 && shutdown.is_first_report() {
            let (left, locks) = (report.left, report.labels_text());
            tracing::warn!(left, locks, "shut down with leases left; their TTLs end them");
        }
        report
    }

    /// Resolves when [`shutdown`](Self::shutdown) has begun, of this client or of a clone; at once if
    /// it has. For what has no end of its own, such as a stream of events to a browser.
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let locks = leasehold::Locks::in_memory();
    /// tokio::join!(locks.shutdown_begun(), locks.shutdown());
    /// # }
    /// ```
    pub async fn shutdown_begun(&self) {
        self.client().keeper.shutdown.begun().await;
    }
}
