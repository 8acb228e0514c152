//! Shortcuts that connect with default settings.

use super::builder::LocksBuilder;
use super::locks::Locks;
use crate::core::error::LockError;

/// The tool reads both, too.
const URL: &str = "REDIS_URL";
const PREFIX: &str = "LEASEHOLD_PREFIX";

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
    /// not set. The prefix is that in `LEASEHOLD_PREFIX`, or else `leasehold`: the command
    /// `leasehold` takes both from there, too. [`connect`](Self::connect) and a
    /// [`builder`](Self::builder) read no variable.
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidOption`] if `REDIS_URL` is not set, if one of them is malformed, or
    ///   if the URL needs a missing feature. There is no fallback to memory: locks that each process keeps for
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
        connect_by_variables().await?.ok_or_else(|| LockError::InvalidOption {
            option: URL,
            problem: "it is not set; set it to the server's URL, such as redis://127.0.0.1/"
                .to_owned(),
        })
    }

    /// Connects as [`from_env`](Self::from_env), or keeps locks in memory if `REDIS_URL` is not
    /// set: for examples and tests.
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
        Ok(connect_by_variables().await?.unwrap_or_else(Self::in_memory))
    }
}

/// Connects as the variables say. `None` if there is no server.
async fn connect_by_variables() -> Result<Option<Locks>, LockError> {
    let [url, prefix] = [variable(URL)?, variable(PREFIX)?];
    let Some(url) = url else { return Ok(None) };
    let mut builder = LocksBuilder::new();
    if let Some(prefix) = prefix {
        builder = builder.prefix(prefix);
    }
    builder.connect(&url).await.map(Some).map_err(of_variable)
}

/// An option came from its variable, so the error names the variable.
fn of_variable(error: LockError) -> LockError {
    match error {
        LockError::InvalidOption { option: "url", problem } => {
            LockError::InvalidOption { option: URL, problem }
        }
        LockError::InvalidOption { option: "prefix", problem } => {
            LockError::InvalidOption { option: PREFIX, problem }
        }
        error => error,
    }
}

/// An environment variable. One that is empty counts as not set.
fn variable(name: &'static str) -> Result<Option<String>, LockError> {
    match std::env::var(name) {
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => Ok(Some(text)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(LockError::InvalidOption { option: name, problem: "it is not UTF-8".to_owned() })
        }
    }
}
