//! What all leases of a client share.

use std::sync::Arc;

use crate::state::shutdown::Shutdown;
use crate::store::Store;

/// What all leases of a client share. It is one part, because each lease copies the pointer to
/// it, and all threads of the process do.
#[derive(Debug)]
// Apart from the count of its `Arc`, which every lease changes on some core.
#[repr(align(64))]
pub(crate) struct LeaseContext {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) shutdown: Arc<Shutdown>,
}
