//! A lease on its way to another process, as the store knows it.

use super::request::RequestId;

/// A lease on its way to another process.
#[derive(Clone, Copy, Debug)]
pub struct Detached {
    /// The request that holds it.
    pub id: RequestId,
    /// The greatest fencing token that the record of a mutex can have, unless that was granted
    /// anew.
    pub most: u64,
}

impl From<RequestId> for Detached {
    /// The lease of a request of which no token is known.
    fn from(id: RequestId) -> Self {
        Self { id, most: u64::MAX }
    }
}
