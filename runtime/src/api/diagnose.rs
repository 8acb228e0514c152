//! An operator's view: what is wrong with the servers.

use super::locks::Locks;
use crate::store::{Ask, Diagnosis};

impl Locks {
    /// Looks for what puts the locks at risk, or slows them down, on each server that keeps them:
    /// the server of a URL, the master that the sentinels name, or each master of a cluster.
    ///
    /// It checks the version, the eviction of keys, memory, persistence, replicas, the clock, the
    /// rights of the user, the round trip, scripts, connections and stored keys.
    /// The guide lists [all checks](guide/doctor/index.html) with their thresholds. In memory
    /// there is nothing to find.
    ///
    /// It needs no rights beyond those that locks need, and looks by `INFO`, `CONFIG GET` and
    /// `SCAN` where it may. What it could not check for lack of a right is a finding,
    /// `not-checked`.
    ///
    /// It never fails: a server that can't be reached, refuses the password or is no Redis
    /// server is a finding as well, and so is a client in a process that was forked off. On each
    /// server it takes `connect_timeout` and ten times `command_timeout` at most, and about
    /// thirty round trips if the server answers. It looks at all servers at the same time.
    ///
    /// It changes nothing. To learn the user's rights it sends each command in a form without an
    /// effect. A right that is missing leaves an entry in the server's `ACL LOG`.
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let locks = leasehold::Locks::in_memory();
    /// for finding in locks.diagnose().await.findings {
    ///     println!("{}: {}", finding.check, finding.found);
    ///     println!("  {}", finding.meaning);
    ///     println!("  {}", finding.remedy);
    /// }
    /// # }
    /// ```
    pub async fn diagnose(&self) -> Diagnosis {
        let client = self.client();
        // The fork may have copied locked mutexes, so nothing else is asked.
        if let Err(error) = client.keeper.check_not_forked() {
            return Diagnosis::forked(&error);
        }
        let looked = client.store.diagnose().await;
        let mut diagnosis = looked.unwrap_or_else(|error| Diagnosis::unreachable("", &error));
        diagnosis.sort();
        diagnosis
    }
}
