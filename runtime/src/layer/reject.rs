//! Refusals: why the layer answers a request itself, and with what.

use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{Response, StatusCode};

use super::key::KeyError;
use super::problem::{Problem, problem};
use super::rate_fields;
use crate::core::error::{LockError, LossReason};
use crate::core::key::LockKey;

/// When to try again if nobody can tell: the shortest time that `Retry-After` can say.
const SOON: Duration = Duration::from_secs(1);

/// The reason for which the layer answers a request itself.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use http::StatusCode;
/// use leasehold::layer::{KeyError, Refusal};
///
/// let refusal = Refusal::NoKey(KeyError::new("the header x-tenant is missing"));
/// assert_eq!(refusal.status(), StatusCode::BAD_REQUEST);
/// assert_eq!(refusal.retry_after(), None);
/// assert!(refusal.to_response().body().starts_with(b"{"));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// The request does not say what to lock. If no client can, because a route or a layer is
    /// wrong, it is answered like [`Misconfigured`](Self::Misconfigured).
    NoKey(KeyError),
    /// The request does not say how much of the semaphore it takes, or asks for none of it,
    /// or for more than its limit.
    NoWeight(KeyError),
    /// The request does not say which limit holds for it: [`limit_by`](super::LockLayer::limit_by).
    NoLimit(KeyError),
    /// The owner that the request gives is no name.
    NoOwner(KeyError),
    /// Another request holds the mutex, or holds the read-write lock in a mode that
    /// excludes this one.
    Held(LockError),
    /// The request holds the lock itself, so it would wait for itself: two layers on its way, or a
    /// layer and its handler, take the same lock.
    HeldByItself(LockError),
    /// A request with the same key has succeeded before:
    /// [`LockLayer::once`](super::LockLayer::once).
    Done(LockError),
    /// The semaphore has too few free permits.
    Full(LockError),
    /// The rate is used up, and does not allow the request in time.
    RateLimited(LockError),
    /// An operator has set a limit of the semaphore that leaves no room for the request, such as 0.
    Closed(LockError),
    /// As many requests wait for this lock as [`max_waiters`] allows.
    ///
    /// [`max_waiters`]: super::LockLayer::max_waiters
    #[non_exhaustive]
    Crowded {
        /// The name of the lock.
        key: LockKey,
        /// The status of the built-in response: 429 for a semaphore, otherwise 503.
        status: StatusCode,
    },
    /// The lock store failed.
    Unavailable(LockError),
    /// The lock was lost while the request ran, and the handler was dropped.
    Lost(LossReason),
    /// The handler took longer than the layer's [`timeout`](super::LockLayer::timeout), and was
    /// dropped. The lock is free.
    TookTooLong,
    /// An option is out of its range, or the name is in use by another kind of lock.
    Misconfigured(LockError),
}

/// The last part of the type of a problem that no client can correct, and what the type means.
pub(super) const MISCONFIGURED: (&str, &str) = ("misconfigured", "Lock misconfigured");
/// What its client may read.
pub(super) const MISCONFIGURED_DETAIL: &str =
    "The server's lock for this request is misconfigured.";

/// What logs call the lock of an error, if it is about one: also that it has no label.
pub(super) fn log_label(error: &LockError) -> Option<&'static str> {
    error.key().map(LockKey::log_label).or_else(|| error.label())
}

impl Refusal {
    /// The refusal of a request that finds too many waiters.
    pub(super) fn crowded(key: LockKey, is_semaphore: bool) -> Self {
        let status = if is_semaphore {
            StatusCode::TOO_MANY_REQUESTS
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        Self::Crowded { key, status }
    }

    /// The status of the built-in response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::NoKey(error) if error.is_of_server => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NoKey(_) | Self::NoWeight(_) | Self::NoLimit(_) | Self::NoOwner(_) => {
                StatusCode::BAD_REQUEST
            }
            Self::Held(_) | Self::Done(_) => StatusCode::CONFLICT,
            Self::Full(_) | Self::RateLimited(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Crowded { status, .. } => *status,
            Self::Unavailable(_) | Self::Lost(_) | Self::Closed(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::TookTooLong => StatusCode::GATEWAY_TIMEOUT,
            Self::HeldByItself(_) | Self::Misconfigured(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// When the HTTP client may try again, in whole seconds: the `Retry-After` of the
    /// built-in response.
    ///
    /// A rate says when it allows the request, rounded up. Otherwise it is one second. If only `hold_at_least` keeps a mutex, and the layer has no `wait`, it is the
    /// rest of that time, rounded up. It does not say when a lease ends, because the holder renews it,
    /// or releases it long before.
    ///
    /// `None` if the same request would fail again, while an operator has closed the semaphore, and after a handler was stopped, because
    /// part of the work may be done.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Held(LockError::Busy { retry_after, kept: true, .. })
            | Self::RateLimited(LockError::RateLimited { retry_after, .. }) => {
                Some(whole_seconds(*retry_after))
            }
            Self::Held(_)
            | Self::Full(_)
            | Self::RateLimited(_)
            | Self::Crowded { .. }
            | Self::Unavailable(_) => Some(SOON),
            Self::NoKey(_)
            | Self::NoWeight(_)
            | Self::NoLimit(_)
            | Self::NoOwner(_)
            | Self::Done(_)
            | Self::Closed(_)
            | Self::Lost(_)
            | Self::TookTooLong
            | Self::HeldByItself(_)
            | Self::Misconfigured(_) => None,
        }
    }

    /// The built-in response: a problem body after RFC 9457, which does not name the lock. It has the
    /// lock's label as `lock`, if that is not its name. Its `type` is one for each variant.
    #[must_use]
    pub fn to_response(&self) -> Response<Bytes> {
        let (kind, title) = self.kind();
        let detail = &self.detail();
        let (lock, retry_after) = (self.shown_label(), self.exact_retry_after());
        let details = Problem { kind, title, detail, lock, retry_after };
        let mut response = problem(self.status(), &details, self.retry_after());
        if let Self::RateLimited(LockError::RateLimited { key, rate, retry_after }) = self {
            rate_fields::add_used_up(response.headers_mut(), key, *rate, *retry_after);
        }
        if let Some(time) = self.retry_after() {
            response.headers_mut().insert(RETRY_AFTER, time.as_secs().into());
        }
        response
    }

    /// The last part of the problem's type, and what the type means.
    fn kind(&self) -> (&'static str, &'static str) {
        match self {
            Self::NoKey(error) if error.is_of_server => MISCONFIGURED,
            Self::NoKey(_) => ("no-key", "No usable key"),
            Self::NoWeight(_) => ("no-weight", "No usable weight"),
            Self::NoLimit(_) => ("no-limit", "No usable limit"),
            Self::NoOwner(_) => ("no-owner", "No usable owner"),
            Self::Held(_) => ("held", "Lock held by another request"),
            Self::HeldByItself(_) => ("held-by-itself", "Lock held by the request itself"),
            Self::Done(_) => ("done", "Done before"),
            Self::Full(_) => ("full", "Too many requests at a time"),
            Self::Closed(_) => ("closed", "Closed by an operator"),
            Self::RateLimited(_) => ("rate-limited", "Too many requests"),
            Self::Crowded { .. } => ("crowded", "Too many requests wait"),
            Self::Unavailable(_) => ("unavailable", "Lock store not available"),
            Self::Lost(_) => ("lost", "Lock lost"),
            Self::TookTooLong => ("timeout", "Request took too long"),
            Self::Misconfigured(_) => MISCONFIGURED,
        }
    }

    /// What the client may read.
    pub(super) fn detail(&self) -> String {
        let text = match self {
            Self::NoKey(error) if !error.is_of_server => {
                return format!("The request has no usable key for its limit or lock: {error}.");
            }
            Self::NoWeight(error) => {
                return format!("The request does not say how much it takes: {error}.");
            }
            Self::NoLimit(error) => {
                return format!("The request does not say which limit holds for it: {error}.");
            }
            Self::NoOwner(error) => {
                return format!("The request gives no name that can own a lock: {error}.");
            }
            Self::Done(_) => "The work of this request was done before.",
            Self::HeldByItself(_) => "The request holds the lock already that it asks for again.",
            Self::Held(_) => "Another request holds the lock that this one needs.",
            Self::Full(_) => "As many requests as are allowed at a time are running.",
            Self::RateLimited(_) => "More requests have come in this time than are allowed.",
            Self::Closed(LockError::Closed { set, .. }) if set.limit > 0 => {
                "An operator has lowered the limit for such requests, and this one takes more."
            }
            Self::Closed(_) => "An operator has closed this to all requests for now.",
            Self::Crowded { .. } => "Too many requests wait for the lock that this one needs.",
            Self::Unavailable(_) => {
                "The lock that the request needs could not be acquired: the lock store failed."
            }
            Self::Lost(_) => {
                "The lock was lost while the request ran. It was stopped; part of its work may \
                 have been done."
            }
            Self::TookTooLong => {
                "The request took too long. It was stopped; part of its work may have been done."
            }
            Self::NoKey(_) | Self::Misconfigured(_) => MISCONFIGURED_DETAIL,
        };
        text.to_owned()
    }

    /// What metrics and logs call the lock that refused, if it has a label: of several locks, the one
    /// that is not free. The built-in response says it as `lock`, unless it is the lock's name.
    #[must_use]
    pub fn label(&self) -> Option<&'static str> {
        match self {
            Self::Crowded { key, .. } => key.label(),
            refusal => refusal.error()?.label(),
        }
    }

    /// What logs call the lock that refused, if it is one: of several, not always the first.
    pub(super) fn log_label(&self) -> Option<&'static str> {
        match self {
            Self::Crowded { key, .. } => Some(key.log_label()),
            refusal => log_label(refusal.error()?),
        }
    }

    /// The label that the client may read.
    fn shown_label(&self) -> Option<&'static str> {
        let key = match self {
            Self::Crowded { key, .. } => key,
            refusal => refusal.error()?.key()?,
        };
        key.label().filter(|label| *label != key.name())
    }

    /// When the HTTP client may try again, if that is known more exactly than in seconds.
    pub(super) fn exact_retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited(LockError::RateLimited { retry_after, .. }) => Some(*retry_after),
            _ => None,
        }
    }

    fn error(&self) -> Option<&LockError> {
        match self {
            Self::Held(error)
            | Self::HeldByItself(error)
            | Self::Done(error)
            | Self::Full(error)
            | Self::RateLimited(error)
            | Self::Closed(error)
            | Self::Unavailable(error)
            | Self::Misconfigured(error) => Some(error),
            Self::Crowded { .. }
            | Self::NoKey(_)
            | Self::NoWeight(_)
            | Self::NoLimit(_)
            | Self::NoOwner(_)
            | Self::Lost(_)
            | Self::TookTooLong => None,
        }
    }
}

/// For a handler that acquires a lock itself.
impl From<LockError> for Refusal {
    fn from(error: LockError) -> Self {
        match error {
            error if error.is_held_by_caller() => Self::HeldByItself(error),
            LockError::Busy { is_semaphore: true, .. }
            | LockError::TimedOut { is_semaphore: true, .. } => Self::Full(error),
            LockError::Busy { .. } | LockError::TimedOut { .. } => Self::Held(error),
            LockError::Done { .. } => Self::Done(error),
            LockError::Closed { .. } => Self::Closed(error),
            LockError::RateLimited { .. } => Self::RateLimited(error),
            LockError::Lost { reason, .. } => Self::Lost(reason),
            LockError::ShutDown => Self::Unavailable(error),
            error if error.is_store_failure() => Self::Unavailable(error),
            LockError::InvalidKey { .. } => Self::NoKey(KeyError::new(error)),
            error => Self::Misconfigured(error),
        }
    }
}

/// At least one second, because 0 would ask for a retry at once.
fn whole_seconds(time: Duration) -> Duration {
    let begun = u64::from(time.subsec_nanos() > 0);
    Duration::from_secs(time.as_secs().saturating_add(begun)).max(SOON)
}

#[cfg(test)]
mod tests;
