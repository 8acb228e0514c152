//! What is left of a rate after a part was taken.

use std::time::Duration;

use crate::core::key::LockKey;
use crate::core::rate::Rate;
use crate::store::Request;

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
    request: Request,
    rate: Rate,
    used: Duration,
}

impl RateStatus {
    /// The rate is used up for so long after this request.
    pub(super) fn new(request: Request, rate: Rate, used: Duration) -> Self {
        Self { request, rate, used }
    }

    /// The name of the rate.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        &self.request.key
    }

    /// The rate that the request asked for.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// How many more could have been taken at once.
    #[must_use]
    pub fn remaining(&self) -> u32 {
        self.rate.left(self.used)
    }

    /// After how long nothing is used up any more, if nobody takes more.
    #[must_use]
    pub fn full_after(&self) -> Duration {
        self.used
    }

    pub(super) fn into_request(self) -> Request {
        self.request
    }
}
