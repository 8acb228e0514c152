//! A client of a quorum: its settings, and how it connects.

use std::sync::Arc;
use std::time::Duration;

use super::LocksBuilder;
use crate::api::locks::Locks;
use crate::api::quorum::{QuorumLocks, connect_quorum, connect_quorum_lazy};
use crate::core::error::LockError;
use crate::core::timers::check_timers;
use crate::keeper::Thread;
use crate::store::ClientId;
use crate::store::redis::Settings;

impl Locks {
    /// Connects to a quorum of independent servers with default settings: an odd number, at
    /// least three, of masters without replicas. A minority of them may be down.
    ///
    /// A server that started less than a minute ago does not count yet, because it may have
    /// forgotten locks. So a new quorum is usable after a minute, unless
    /// [`LocksBuilder::assume_durable`](crate::LocksBuilder::assume_durable) is set.
    ///
    /// # Errors
    ///
    /// - [`LockError::Quorum`] if no majority of the servers can be reached, with the
    ///   answer of each.
    /// - [`LockError::InvalidOption`] if a URL is malformed or needs a missing feature, if
    ///   the number of servers is even or below three, or if one is given twice or is not a
    ///   single server.
    /// - [`LockError::Store`] if the system refuses the client's thread.
    /// - [`LockError::NoRuntime`] outside of a Tokio runtime with timers.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future closes the connections.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::LockError> {
    /// let servers = ["redis://lock-1/", "redis://lock-2/", "redis://lock-3/"];
    /// let locks = leasehold::Locks::quorum(servers).await?;
    /// let lease = locks.mutex("invoice:42").lock().await?;
    /// lease.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn quorum<U: AsRef<str>>(
        urls: impl IntoIterator<Item = U>,
    ) -> Result<QuorumLocks, LockError> {
        Self::builder().connect_quorum(urls).await
    }
}

impl LocksBuilder {
    /// Quorum only: the longest `ttl` and `hold_at_least` that this quorum accepts, 100 ms
    /// to 24 h. The default is 60 s.
    ///
    /// A server that started less than this time ago may have forgotten locks, so it does
    /// not count in a majority yet.
    ///
    /// All clients of the same servers must use the same value. A client with a shorter one
    /// counts a server while another client's leases still last, and can let in a second
    /// holder.
    pub fn longest_ttl(mut self, ttl: Duration) -> Self {
        self.quorum.longest_ttl = ttl;
        self
    }

    /// Quorum only: lets a restarted server count at once, because it has kept all grants.
    /// The default is `false`: a restarted server is assumed to have lost everything.
    ///
    /// Set it to `true` only in these cases:
    ///
    /// - The servers run with `appendonly yes` *and* `appendfsync always`.
    /// - The whole quorum is new, such as in a test.
    ///
    /// Never set it when a new server replaces another: the others may have granted locks
    /// together with the old one. As with [`longest_ttl`](Self::longest_ttl), all clients
    /// must use the same value.
    pub fn assume_durable(mut self, is_durable: bool) -> Self {
        self.quorum.is_durable = is_durable;
        self
    }

    /// Connects to a quorum of independent servers, and waits for a majority of them. Give
    /// one URL for each server. The servers are an odd number of masters without replicas,
    /// at least three.
    ///
    /// A minority of the servers may be down, now or later.
    ///
    /// # Errors
    ///
    /// - [`LockError::Quorum`] if no majority of the servers can be reached, with the
    ///   answer of each.
    /// - [`LockError::InvalidOption`] if a URL is malformed or needs a missing feature, if
    ///   the number of servers is even or below three, if one is given twice or is not a
    ///   single server, if `sync_replicas` is set, or if another setting is out of its
    ///   range.
    /// - [`LockError::Store`] if the system refuses the client's thread.
    /// - [`LockError::NoRuntime`] outside of a Tokio runtime with timers.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future closes the connections.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use leasehold::Locks;
    ///
    /// # async fn example() -> Result<(), leasehold::LockError> {
    /// let servers = ["redis://lock-1/", "redis://lock-2/", "redis://lock-3/"];
    /// let builder = Locks::builder().longest_ttl(Duration::from_secs(30));
    /// let locks = builder.connect_quorum(servers).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_quorum<U: AsRef<str>>(
        self,
        urls: impl IntoIterator<Item = U>,
    ) -> Result<QuorumLocks, LockError> {
        check_timers()?;
        let urls: Vec<U> = urls.into_iter().collect();
        let (thread, id) = (Thread::start()?, ClientId::random());
        let settings = self.settings_of_quorum();
        let store = connect_quorum(&urls, &settings, self.quorum.longest_ttl, id, thread.runtime());
        let store = store.await?;
        Ok(QuorumLocks::new(self.keep(thread, Arc::new(store), id)))
    }

    /// Returns the client of a quorum at once and connects in the background, as
    /// [`connect_lazy`](Self::connect_lazy) does for one server. Locks work as soon as a
    /// majority of the servers is there. Until then, an acquisition without a wait fails at
    /// once with [`LockError::Quorum`].
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidOption`] if a URL is malformed or needs a missing feature, if
    ///   the number of servers is even or below three, if one is given twice or is not a
    ///   single server, if `sync_replicas` is set, or if another setting is out of its
    ///   range.
    /// - [`LockError::Store`] if the system refuses the client's thread.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), leasehold::LockError> {
    /// use leasehold::Locks;
    ///
    /// let servers = ["redis://lock-1/", "redis://lock-2/", "redis://lock-3/"];
    /// let locks = Locks::builder().connect_quorum_lazy(servers)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_quorum_lazy<U: AsRef<str>>(
        self,
        urls: impl IntoIterator<Item = U>,
    ) -> Result<QuorumLocks, LockError> {
        let urls = urls.into_iter().map(|url| url.as_ref().to_owned()).collect();
        let (thread, id) = (Thread::start()?, ClientId::random());
        let settings = self.settings_of_quorum();
        let store =
            connect_quorum_lazy(urls, settings, self.quorum.longest_ttl, id, thread.runtime())?;
        Ok(QuorumLocks::new(self.keep(thread, Arc::new(store), id)))
    }

    fn settings_of_quorum(&self) -> Settings {
        let counts_after = (!self.quorum.is_durable).then_some(self.quorum.longest_ttl);
        Settings { counts_after, ..self.settings(Duration::from_millis(50)) }
    }
}
