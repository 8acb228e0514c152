//! Where an upgraded connection's lease is, which its handles keep together.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use crate::core::sync::lock;

/// A lease, of which a handle need not know more than that its drop releases it.
type AnyLease = Box<dyn Any + Send>;

/// What all clones of a handle share that can keep a lease.
#[derive(Default)]
pub(super) struct Kept {
    // Dropped in this order: an inner layer's lease ends before an outer one's.
    lease: Mutex<Option<AnyLease>>,
    #[expect(dead_code, reason = "it is held, not read")]
    outer: Option<Arc<Self>>,
}

impl Kept {
    /// Keeps nothing yet, but whatever `outer` keeps.
    pub(super) fn within(outer: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { lease: Mutex::default(), outer })
    }

    /// Keeps the lease until the last handle is dropped. Returns it if there is no other handle.
    pub(super) fn keep<L: Send + 'static>(self: Arc<Self>, lease: L) -> Option<Box<L>> {
        *lock(&self.lease) = Some(Box::new(lease));
        // If handles are dropped meanwhile, exactly one is the last: this one, or another, whose
        // drop then releases the lease.
        let alone = Arc::into_inner(self)?;
        let lease = alone.lease.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        lease.downcast().ok()
    }
}
