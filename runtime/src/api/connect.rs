//! Shortcuts that connect with default settings.

use super::builder::LocksBuilder;
use super::locks::Locks;
use crate::core::error::LockError;

impl Locks {
    /// Connects to a Redis or Valkey server, such as `redis://127.0.0.1:6379`, and waits
    /// for the connection. [`LocksBuilder::connect`] lists the URLs, also those for
    /// sentinels and for a cluster.
    ///
    /// Deadlines follow the system's clock: do not pause Tokio's clock, as tests do, with
    /// locks on a server.
    ///
    /// # Errors
    ///
    /// - [`LockError::Store`] if the server can't be reached within a second, or refuses.
    ///   The text contains host and port, and never the password.
    /// - [`LockError::InvalidOption`] if the URL is malformed or needs a missing feature.
    /// - [`LockError::NoRuntime`] outside of a Tokio runtime with timers.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future closes the connection.
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

    /// Returns a client at once and connects in the background, so that a service can start
    /// while its server is down: see [`LocksBuilder::connect_lazy`].
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidOption`] if the URL is malformed or needs a missing feature.
    /// - [`LockError::Store`] if the system refuses the client's thread.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::connect_lazy("redis://127.0.0.1/")?;
    /// locks.install();
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_lazy(url: &str) -> Result<Self, LockError> {
        Self::builder().connect_lazy(url)
    }

    /// Returns a builder for a client with settings of your own, such as its prefix, its
    /// name or its time-outs.
    pub fn builder() -> LocksBuilder {
        LocksBuilder::new()
    }

    /// Connects to the server in the environment variable `REDIS_URL`, and fails if it is
    /// not set.
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidOption`] if the variable is not set, is malformed, or needs a
    ///   missing feature. There is no fallback to memory: locks that each process keeps for
    ///   itself protect nothing.
    /// - [`LockError::Store`] if the server can't be reached within a second, or refuses.
    /// - [`LockError::NoRuntime`] outside of a Tokio runtime with timers.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future closes the connection.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::LockError> {
    /// leasehold::Locks::from_env().await?.install();
    /// # Ok(())
    /// # }
    /// ```
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

    /// Connects to the server in `REDIS_URL`, or keeps locks in memory if that is not set:
    /// for examples and tests.
    ///
    /// # Errors
    ///
    /// - [`LockError::Store`] if the server can't be reached within a second, or refuses.
    ///   The text contains host and port, and never the password.
    /// - [`LockError::InvalidOption`] if the variable is malformed or needs a missing
    ///   feature.
    /// - [`LockError::NoRuntime`] outside of a Tokio runtime with timers, if the variable is
    ///   set.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future closes the connection.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::LockError> {
    /// leasehold::Locks::from_env_or_in_memory().await?.install();
    /// # Ok(())
    /// # }
    /// ```
    pub async fn from_env_or_in_memory() -> Result<Self, LockError> {
        match redis_url()? {
            Some(url) => Self::connect(&url).await.map_err(of_variable),
            None => Ok(Self::in_memory()),
        }
    }
}

/// The URL came from the variable, so the error names the variable.
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
