//! What is left of a rate after a part was taken.

use std::time::Duration;

use crate::core::key::LockKey;
use crate::core::rate::Rate;
use crate::store::Take;

/// How a rate stood when a part of it was taken, from [`RateLimit`](crate::RateLimit) and
/// [`LeaseSet::rates`](crate::LeaseSet::rates).
///
/// # Examples
///
/// ```
/// use leasehold::{Locks, Rate};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// let mails = Locks::in_memory().rate("mails", Rate::per_second(10));
/// let status = mails.acquire().await?;
/// assert_eq!(status.remaining(), 9);
/// assert!(status.full_after().as_millis() <= 100);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RateStatus {
    take: Take,
    used: Duration,
    /// No copy of the take can arrive any more.
    is_settled: bool,
}

impl RateStatus {
    /// The rate is used up for so long after this request.
    pub(super) fn new(take: Take, used: Duration, is_settled: bool) -> Self {
        Self { take: Take { settled: Vec::new(), ..take }, used, is_settled }
    }

    /// The name of the rate.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        &self.take.key
    }

    /// The rate that the request asked for.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.take.rate
    }

    /// How many more could have been taken at once.
    #[must_use]
    pub fn remaining(&self) -> u32 {
        self.take.rate.left(self.used)
    }

    /// After how long nothing is used up any more, if nobody takes more.
    #[must_use]
    pub fn full_after(&self) -> Duration {
        self.used
    }

    /// The take, if no copy of it can arrive any more.
    pub(super) fn settled(&self) -> Option<&Take> {
        self.is_settled.then_some(&self.take)
    }

    pub(super) fn into_take(self) -> Take {
        self.take
    }
}
