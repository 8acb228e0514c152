//! What a client does with a lease that it may keep.

/// What a client does with a lease of which it asks if it may keep it without using it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Nobody uses it any more: it is released if others wait.
    Ended,
    /// A task uses it, so it stays.
    InUse,
    /// A message said that others want the lock. Everybody who may publish can send that message,
    /// so the store says if it is true: also of others that do not wait.
    Recalled {
        /// A task uses it, so it stays.
        in_use: bool,
    },
}

impl Usage {
    /// Returns true if a task uses the lease.
    #[must_use]
    pub fn is_in_use(self) -> bool {
        matches!(self, Self::InUse | Self::Recalled { in_use: true })
    }

    /// Returns true if the client has heard that others want the lock.
    #[must_use]
    pub fn is_recalled(self) -> bool {
        matches!(self, Self::Recalled { .. })
    }
}
