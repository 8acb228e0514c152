//! Chooses what a client is called and how its keys begin, and connects it.

use std::sync::Arc;

use crate::keeper::{Keeper, Thread};
use crate::store::redis::RedisStore;
use crate::store::{ClientId, ClientInfo, Store};
use crate::{LockError, Locks};

/// A client to be, from [`Locks::builder`].
#[derive(Clone, Debug)]
#[must_use = "it does nothing until it connects"]
pub struct Builder {
    prefix: String,
    service: Option<String>,
    hands_over: bool,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self { prefix: "leasehold".to_owned(), service: None, hands_over: true }
    }

    /// How all keys on the server begin, by default `leasehold`. Clients with
    /// different prefixes have different locks. Braces are refused.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// What this service is called, for those who ask who holds a lock; by
    /// default the program's file name.
    pub fn service(mut self, name: impl Into<String>) -> Self {
        self.service = Some(name.into());
        self
    }

    /// Whether a mutex or a permit that is released goes to the next task of this process
    /// that waits for it, without a word to the server. By default it does: a lock that
    /// many tasks of a process want changes hands hundreds of times faster.
    ///
    /// It goes on for 20 ms at the most, and for 64 leases; then other processes have
    /// their turn, in the order they came. Without it each release goes to whoever
    /// waits first, in whatever process.
    pub fn hand_over_in_process(mut self, hands_over: bool) -> Self {
        self.hands_over = hands_over;
        self
    }

    /// Connects, as [`Locks::connect`] does.
    ///
    /// # Errors
    ///
    /// As of [`Locks::connect`]; [`LockError::InvalidOption`] also for a prefix
    /// that is empty, or has a brace or a control character in it.
    ///
    /// # Cancel safety
    ///
    /// Safe: the connection is closed.
    pub async fn connect(self, url: &str) -> Result<Locks, LockError> {
        let (thread, id) = (Thread::start()?, ClientId::random());
        let store = RedisStore::connect(url, &self.prefix, id, thread.runtime()).await?;
        Ok(self.keep(thread, Arc::new(store), id))
    }

    /// Connects to a cluster by the URLs of some of its nodes.
    ///
    /// # Errors
    ///
    /// As of [`connect`](Self::connect).
    ///
    /// # Cancel safety
    ///
    /// Safe: the connections are closed.
    #[cfg(feature = "cluster")]
    #[doc(hidden)]
    pub async fn connect_cluster(self, nodes: &[String]) -> Result<Locks, LockError> {
        let (thread, id) = (Thread::start()?, ClientId::random());
        let runtime = thread.runtime();
        let store = RedisStore::connect_cluster(nodes, &self.prefix, id, runtime).await?;
        Ok(self.keep(thread, Arc::new(store), id))
    }

    fn keep(self, thread: Thread, store: Arc<dyn Store>, id: ClientId) -> Locks {
        let info = ClientInfo::of_process(id, self.service);
        Locks::new(store.clone(), Keeper::on(thread, store, info), id, self.hands_over)
    }
}
