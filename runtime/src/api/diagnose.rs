//! An operator's view: what is wrong with the servers.

use super::locks::Locks;
use crate::store::Diagnosis;

impl Locks {
    /// Looks for what puts the locks at risk, or slows them down.
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing.
    pub async fn diagnose(&self) -> Diagnosis {
        self.client().store.diagnose().await.unwrap_or_default()
    }
}
