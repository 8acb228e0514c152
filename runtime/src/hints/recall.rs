//! Hints for leases that the client keeps without using them.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use crate::core::key::LockKey;
use crate::store::RequestId;

/// Asks the store about leases that the client keeps without using them.
pub(crate) trait RecallListener: Send + Sync {
    /// Another client may want the lock.
    fn recalled(self: Arc<Self>, key: &LockKey);

    /// The store may have forgotten leases, or messages were lost.
    fn missed(self: Arc<Self>);

    /// Operators have changed the limits of these semaphores: under one, no permit stays idle.
    fn limits_changed(self: Arc<Self>, is_meant: &dyn Fn(&LockKey) -> bool);

    /// The lease of this request may have been taken by force.
    fn forced(self: Arc<Self>, id: RequestId);
}

/// Whoever keeps the client's idle leases.
#[derive(Default)]
pub(super) struct IdleLeases(OnceLock<Weak<dyn RecallListener>>);

impl IdleLeases {
    pub(super) fn set(&self, listener: Weak<dyn RecallListener>) {
        let _ = self.0.set(listener);
    }

    pub(super) fn tell(&self, hint: impl FnOnce(Arc<dyn RecallListener>)) {
        if let Some(listener) = self.0.get().and_then(Weak::upgrade) {
            hint(listener);
        }
    }
}

impl fmt::Debug for IdleLeases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdleLeases")
    }
}
