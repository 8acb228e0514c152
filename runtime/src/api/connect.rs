//! Connecting, for who chooses nothing but a URL.

use super::builder::LocksBuilder;
use super::locks::Locks;
use super::quorum::QuorumLocks;
use crate::core::error::LockError;

impl Locks {
    /// Locks on the Redis or Valkey server of a URL, such as `redis://127.0.0.1:6379`,
    /// or by Sentinel or on a cluster: [`LocksBuilder::connect`] lists the URLs.
    ///
    /// Deadlines are those of the system's clock: do not pause tokio's, as tests
    /// do, with locks on a server.
    ///
    /// # Errors
    ///
    /// - [`LockError::Store`] if the server can't be reached within a second, or
    ///   refuses. It names host and port, and never the password.
    /// - [`LockError::InvalidOption`] if the URL makes no sense, or needs a feature that is
    ///   missing.
    ///
    /// # Cancel safety
    ///
    /// Safe: the connection is closed.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::connect("redis://127.0.0.1/").await?;
    /// locks.install();
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        Self::builder().connect(url).await
    }

    /// The same, given at once and connected in the background, for a service that is to
    /// start while the server is away: see [`LocksBuilder::connect_lazy`].
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOption`] if the URL makes no sense, or needs a feature that is
    /// missing.
    pub fn connect_lazy(url: &str) -> Result<Self, LockError> {
        Self::builder().connect_lazy(url)
    }

    /// Chooses what a client is called and how its keys begin.
    pub fn builder() -> LocksBuilder {
        LocksBuilder::new()
    }

    /// Locks on the server of the environment variable `REDIS_URL`.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOption`] if the variable is not set: each server
    /// locking for itself would be no lock. All others as of
    /// [`connect`](Self::connect).
    ///
    /// # Cancel safety
    ///
    /// Safe: the connection is closed.
    pub async fn from_env() -> Result<Self, LockError> {
        match redis_url()? {
            Some(url) => Self::connect(&url).await.map_err(of_variable),
            None => Err(LockError::InvalidOption {
                option: "REDIS_URL",
                problem: "it is not set; set it to the server's URL, such as redis://127.0.0.1/"
                    .to_owned(),
            }),
        }
    }

    /// Locks on the server of `REDIS_URL`, or in memory if that is not set: for
    /// examples and tests.
    ///
    /// # Errors
    ///
    /// As of [`connect`](Self::connect).
    ///
    /// # Cancel safety
    ///
    /// Safe: the connection is closed.
    pub async fn from_env_or_in_memory() -> Result<Self, LockError> {
        match redis_url()? {
            Some(url) => Self::connect(&url).await.map_err(of_variable),
            None => Ok(Self::in_memory()),
        }
    }

    /// Locks on a quorum of several servers that know nothing of each other: an odd number
    /// of masters without replicas, three at least, each by its URL. A minority of them
    /// may be down.
    ///
    /// A server that was started less than a minute ago does not count, since it may have
    /// forgotten locks: so new servers are of use after a minute, unless
    /// [`LocksBuilder::assume_durable`](crate::LocksBuilder::assume_durable) says that they forget nothing.
    ///
    /// # Errors
    ///
    /// As of [`LocksBuilder::connect_quorum`](crate::LocksBuilder::connect_quorum).
    ///
    /// # Cancel safety
    ///
    /// Safe: the connections are closed.
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

/// The URL is the variable's, so that is what is to be mended.
fn of_variable(error: LockError) -> LockError {
    match error {
        LockError::InvalidOption { option: "url", problem } => {
            LockError::InvalidOption { option: "REDIS_URL", problem }
        }
        error => error,
    }
}

fn redis_url() -> Result<Option<String>, LockError> {
    match std::env::var("REDIS_URL") {
        Ok(url) if url.is_empty() => Ok(None),
        Ok(url) => Ok(Some(url)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(LockError::InvalidOption {
            option: "REDIS_URL",
            problem: "it is not UTF-8".to_owned(),
        }),
    }
}
