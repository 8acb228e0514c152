//! How work that runs under a lease ends it.

use super::Lease;
use crate::core::error::{LockError, Quiet};

impl Lease {
    /// Releases or completes the lease of work that has ended. An error never replaces the result
    /// of the work.
    pub(crate) async fn finish(self, is_success: bool) {
        let lock = self.key().log_label();
        let ended = if is_success && self.may_complete() {
            // Boxed: seldom, and the others have no room for it.
            Box::pin(self.complete()).await
        } else {
            self.release().await.map(drop)
        };
        match ended {
            Ok(()) => {}
            Err(LockError::Lost { reason, .. }) => {
                tracing::warn!(
                    lock,
                    reason = reason.name(),
                    "a function finished after its lock was lost"
                );
            }
            Err(error) => {
                tracing::warn!(lock, error = %Quiet(&error), "a lock could not be released; its TTL ends it");
            }
        }
    }
}
