//! The rate limit: how often something may happen, across all processes.

use std::sync::Arc;

use tokio::task::consume_budget;

use super::lock_options::{LockOptions, setters};
use super::lock_spec::Key;
use crate::core::error::LockError;
use crate::core::key::{IntoLockKey, LockKey};
use crate::core::options::Options;
use crate::core::rate::Rate;
use crate::engine::acquire::acquire_rates;
use crate::engine::rate_status::RateStatus;
use crate::engine::shared::Shared;
use crate::store::TakeSpec;

/// A limit on how often something happens in all processes together: a cheap handle, from
/// [`Locks::rate`](crate::Locks::rate).
///
/// What is taken is not released: time gives it back. It is counted by the server's clock. A server
/// that loses its data, or a failover, may forget what was taken: then a burst may happen once more.
///
/// The algorithm is GCRA, the generic cell rate algorithm of ATM networks, as in `redis-cell`.
///
/// # Examples
///
/// ```
/// use leasehold::{LockError, Locks, Rate};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// let locks = Locks::in_memory();
/// let mails = locks.rate("mails:acme", Rate::per_minute(100).burst(2));
/// mails.acquire().await?; // waits for its turn, for 10 s at most
/// mails.try_acquire().await?;
/// match mails.try_acquire().await {
///     Err(LockError::RateLimited { retry_after, .. }) => println!("later: in {retry_after:?}"),
///     other => panic!("{other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is taken until it is acquired"]
pub struct RateLimit {
    shared: Arc<Shared>,
    key: Key,
    rate: Rate,
    given: LockOptions,
}

impl RateLimit {
    pub(crate) fn new(shared: &Arc<Shared>, key: impl IntoLockKey, rate: Rate) -> Self {
        Self { shared: shared.clone(), key: Key::new(key), rate, given: LockOptions::default() }
    }

    setters! {
        (given):
        /// How long [`acquire`](Self::acquire) waits: a duration, or [`Wait::Forever`](crate::Wait::Forever).
        /// The default is 10 s. A request that the rate can't allow in that time is refused at once.
        wait;
        /// What metrics, logs and traces call this rate and others like it, such as `"mails"`. By
        /// default it is the template of [`lock_key!`](macro.lock_key.html), or nothing if the name was
        /// made otherwise.
        label;
    }

    /// Takes one from the rate. While it is used up, waits for at most [`wait`](Self::wait).
    ///
    /// Callers are served in the order in which they came, in all processes. The store tells each when its
    /// turn is. A caller that is not polled by then, or within 250 ms of it, gets a later turn.
    ///
    /// # Errors
    ///
    /// - [`LockError::RateLimited`] if the rate does not allow it in time. It says when it does.
    #[doc = include_str!("errors/rate.md")]
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, what it took is given back in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{Locks, Rate};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let mails = Locks::in_memory().rate("mails", Rate::per_second(10).burst(1));
    /// let begun = tokio::time::Instant::now();
    /// for _ in 0..3 {
    ///     mails.acquire().await?;
    /// }
    /// assert_eq!(begun.elapsed().as_millis(), 200);
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> impl Future<Output = Result<RateStatus, LockError>> + Send + use<> {
        self.acquire_many(1)
    }

    /// Takes `weight` from the rate at once, from 1 to its burst: what a request costs. Otherwise as
    /// [`acquire`](Self::acquire).
    ///
    /// A heavy request has its turn like any other, and later ones wait behind it.
    ///
    /// # Errors
    ///
    /// - [`LockError::RateLimited`] if the rate does not allow it in time. It says when it does.
    #[doc = include_str!("errors/rate.md")]
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, what it took is given back in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{Locks, Rate};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let tokens = Locks::in_memory().rate("model:large", Rate::per_minute(100_000));
    /// let status = tokens.acquire_many(1200).await?;
    /// assert_eq!(status.remaining(), 98_800);
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire_many(
        &self,
        weight: u32,
    ) -> impl Future<Output = Result<RateStatus, LockError>> + Send + use<> {
        self.take(weight, self.given.options)
    }

    /// Takes one from the rate if it is not used up, and never waits.
    ///
    /// # Errors
    ///
    /// - [`LockError::RateLimited`] if the rate is used up. It says when it is not.
    #[doc = include_str!("errors/rate.md")]
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, what it took is given back in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{Locks, Rate};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let mails = Locks::in_memory().rate("mails", Rate::per_hour(1));
    /// assert!(mails.try_acquire().await.is_ok());
    /// assert!(mails.try_acquire().await.unwrap_err().is_rate_limited());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire(
        &self,
    ) -> impl Future<Output = Result<RateStatus, LockError>> + Send + use<> {
        self.try_acquire_many(1)
    }

    /// Takes `weight` from the rate at once, from 1 to its burst, if so much is left, and never waits.
    ///
    /// # Errors
    ///
    /// - [`LockError::RateLimited`] if too little is left. It says when it is enough.
    #[doc = include_str!("errors/rate.md")]
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, what it took is given back in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{Locks, Rate};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let tokens = Locks::in_memory().rate("model:large", Rate::per_minute(1000));
    /// tokens.try_acquire_many(800).await?;
    /// assert!(tokens.try_acquire_many(800).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire_many(
        &self,
        weight: u32,
    ) -> impl Future<Output = Result<RateStatus, LockError>> + Send + use<> {
        self.take(weight, self.given.options.at_once())
    }

    fn take(
        &self,
        weight: u32,
        options: Options,
    ) -> impl Future<Output = Result<RateStatus, LockError>> + Send + use<> {
        let key = self.key.get().map(|key| self.given.labelled(key));
        let (shared, spec) =
            (self.shared.clone(), key.and_then(|key| take(key, self.rate, weight)));
        async move {
            // Some are refused without the store.
            consume_budget().await;
            let mut taken = acquire_rates(&shared, &[spec?], options).await?;
            Ok(taken.pop().expect("it was asked for one"))
        }
    }
}

/// A take of a rate, if there can be one.
pub(in crate::api) fn take(key: LockKey, rate: Rate, weight: u32) -> Result<TakeSpec, LockError> {
    let refuse = |problem| LockError::InvalidOption { option: "rate", problem };
    rate.check(weight).map_err(refuse)?;
    Ok(TakeSpec { key, rate, weight })
}
