//! Whether the store answers.

use std::time::Duration;

use tokio::time::timeout;

use super::locks::Locks;
use crate::core::error::{LockError, Outcome, Step};
use crate::core::key::LockKey;
use crate::core::timers::check_timers;
use crate::store::{Ask, Kind, Request, StoreError};

/// As long as a try takes to fail.
const LONGEST: Duration = Duration::from_secs(1);

/// The lock that it asks about, for users of a server with rights for some names alone.
const NAME: &str = "leasehold-ping";

impl Locks {
    /// Asks the store for an answer, and returns how long it took: for a page about the service's
    /// health, a test of a new configuration, or the start of a service with
    /// [`connect_lazy`](crate::LocksBuilder::connect_lazy).
    ///
    /// It takes no lock, and waits for at most a second. It sends what the keeper sends to take an
    /// acquisition back, of a request that nobody has made. So it runs one of the scripts and writes: a
    /// server that is read-only or loading fails it, as it fails the locks. One that is full answers it,
    /// since releases work there, and grants no lock. On a cluster it asks the node that has the name
    /// `leasehold-ping`; on a quorum, a majority has to answer.
    ///
    /// **Not for a readiness probe, if all instances share the store.** An outage of a minute would
    /// take them all out of service, with all their routes that need no lock. [More in the
    /// guide](crate::guide::operating).
    ///
    /// # Errors
    ///
    /// - [`LockError::Store`] if the store does not answer within a second, or refuses the client.
    /// - [`LockError::Quorum`] on a quorum, if too few servers answered.
    /// - [`LockError::ShutDown`] once the client was [shut down](Self::shutdown).
    /// - [`LockError::NoRuntime`] outside of a Tokio runtime with timers.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is held.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// println!("the lock store answers in {:?}", locks.ping().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ping(&self) -> Result<Duration, LockError> {
        check_timers()?;
        let client = self.client();
        let key = LockKey::new(NAME)?;
        client.check_not_forked(Step::Ping, &key)?;
        if client.keeper.shutdown.has_begun() {
            return Err(LockError::ShutDown);
        }
        let begun = client.store.now();
        let (id, kind, ttl) = (client.next_request(), Kind::Mutex, LONGEST);
        let request = Request { key, id, kind, owner: None, note: None, ttl };
        let answer = timeout(LONGEST, client.store.cancel(&request)).await;
        let answer = answer.unwrap_or_else(|_| {
            let source = "no answer within a second; is the server overloaded, or cut off?".into();
            let outcome = Outcome::Unknown;
            Err(StoreError { outcome, is_passing: true, is_shut_down: false, source })
        });
        let what = "the client".to_owned();
        answer.map_err(|error| LockError::of_store(Step::Ping, what, None, error))?;
        Ok(client.elapsed(begun))
    }
}
