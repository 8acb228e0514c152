//! How a call ends what it holds.

use crate::core::error::{LockError, Quiet};
use crate::engine::lease::Lease;

/// The fate of the body when its lease is lost.
#[derive(Clone, Copy, Debug)]
pub(super) enum OnLost {
    Cancel,
    Finish,
}

/// Releases or completes the lease.
pub(super) async fn end(lease: Lease, is_success: bool) {
    let lock = lease.key().log_label();
    let ended = if is_success && lease.may_complete() {
        // Boxed: seldom, and the others have no room for it.
        Box::pin(lease.complete()).await
    } else {
        lease.release().await.map(drop)
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
