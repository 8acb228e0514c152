//! Why an ask was not granted.

use std::time::Duration;

use crate::core::error::LockError;
use crate::core::key::LockKey;
use crate::store::StoreError;

/// Why an ask was not granted.
pub(crate) enum NotGranted {
    /// The request waits in the store's queue, and asks again after this time.
    Queued(Duration),
    /// Others hold the lock, or it is kept, for this much longer. The request is in no queue.
    Held { left: Duration, kept: bool },
    /// Others hold the lock for this much longer, perhaps without using it. Their client was
    /// asked to release it. The request is in no queue; if it is of another kind, it can wait in
    /// none.
    Recalled { left: Duration, other_kind: bool },
    /// The work has succeeded, and counts as done.
    Done(DoneWork),
    /// Its owner holds the lock, and would wait for itself.
    HeldByOwner,
    /// The name is in use by another kind of lock, or by no lock at all.
    WrongKind,
    /// Nobody gets it while an operator's limit is set.
    Closed(Box<LockError>),
    /// The lease had ended when its grant arrived. The request asks again.
    TooLate,
    /// The store failed.
    Fault(StoreError),
}

/// When work succeeded, and until when it counts as done, in milliseconds since the Unix epoch; and how
/// long that is from now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DoneWork {
    pub(crate) completed: u64,
    pub(crate) until: u64,
    pub(crate) left: Duration,
}

impl NotGranted {
    /// Returns true if the request would be in the queue if it had asked to wait.
    pub(super) fn may_be_queued(&self) -> bool {
        matches!(self, Self::Held { .. } | Self::Recalled { other_kind: false, .. })
    }

    /// Returns true if another lease was in the way of a request that is in no queue. Not after a
    /// recall: the store says that once, and the request asks again soon all the same.
    pub(crate) fn is_refusal(&self) -> bool {
        use NotGranted::{Held, HeldByOwner, WrongKind};
        matches!(self, Held { .. } | HeldByOwner | WrongKind)
    }
}

/// Logs that the store gave a key an expiry.
pub(super) fn warn_of_missing_expiry(key: &LockKey) {
    let lock = key.log_label();
    tracing::warn!(
        lock,
        "a lock's key had no expiry, so the lock would have been held for ever; it now expires after the TTL"
    );
    tracing::debug!(lock, key = %key, "the lock whose key had no expiry");
}
