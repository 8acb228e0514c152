//! A lease that outlives its response, because an upgraded connection keeps it.

use super::kept::Kept;
use super::{Lease, LeaseHandle, Rest};

impl Lease {
    /// Lets its handles keep it, once it is left to them. They keep what `outer` keeps, too.
    pub(crate) fn let_handles_keep(&mut self, outer: Option<&LeaseHandle>) {
        let outer = outer.and_then(|outer| outer.kept.clone());
        self.handle.kept = Some(Kept::within(outer));
    }

    /// Leaves it to its handles: it ends with the last of them, and is completed then if that is
    /// a success. Returns the lease if there is none that can keep it.
    pub(crate) fn leave_to_handles(mut self, is_success: bool) -> Option<Self> {
        // Its own handle keeps nothing, or it would keep itself.
        let Some(kept) = self.handle.kept.take() else { return Some(self) };
        if is_success && self.may_complete() {
            self.rest = Rest::Complete;
        }
        let mut lease = *kept.keep(self)?;
        lease.rest = Rest::Release;
        Some(lease)
    }
}
