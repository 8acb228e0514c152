//! Hints that an operator has changed a limit.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

/// Reads the limits that operators set.
pub(crate) trait LimitListener: Send + Sync {
    /// One may have changed.
    fn limits_changed(self: Arc<Self>);
}

/// Whoever reads the client's limits.
#[derive(Default)]
pub(super) struct LimitReader(OnceLock<Weak<dyn LimitListener>>);

impl LimitReader {
    pub(super) fn set(&self, listener: Weak<dyn LimitListener>) {
        let _ = self.0.set(listener);
    }

    pub(super) fn tell(&self) {
        if let Some(listener) = self.0.get().and_then(Weak::upgrade) {
            listener.limits_changed();
        }
    }
}

impl fmt::Debug for LimitReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LimitReader")
    }
}
