//! Why the lock store can't be looked at, as pages say it.

use std::time::Duration;

use askama::Template;
use axum::http::StatusCode;

use super::text::{render, short, shown};
use super::time::Time;
use leasehold::LockError;

/// Why the store can't be looked at.
#[derive(Clone, Debug)]
pub(super) struct Down {
    pub(super) status: StatusCode,
    /// Fit for a page.
    pub(super) error: String,
    /// What to do about it.
    pub(super) advice: &'static str,
}

#[derive(Template)]
#[template(path = "store_down.html")]
struct Notice<'a> {
    error: &'a str,
    advice: &'a str,
    /// The age of what follows; `None` if nothing does.
    age: Option<Time>,
}

impl Down {
    pub(super) fn of(error: &LockError) -> Self {
        Self { status: status(error), error: shown(&error.to_string()), advice: advice(error) }
    }

    /// A store that has not answered for this long.
    pub(super) fn silent(time: Duration) -> Self {
        let error = format!("no answer within {}", short(time));
        Self { status: StatusCode::SERVICE_UNAVAILABLE, error, advice: CHECK }
    }

    /// The box that says so, above what the store said so long ago.
    pub(super) fn notice(&self, age: Option<Duration>) -> String {
        let age = age.map(Time::since);
        render(&Notice { error: &self.error, advice: self.advice, age })
    }
}

/// The status of a page that can't be shown.
pub(super) fn status(error: &LockError) -> StatusCode {
    match error {
        LockError::InvalidKey { .. } => StatusCode::BAD_REQUEST,
        LockError::Unsupported { .. } => StatusCode::NOT_IMPLEMENTED,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

const CHECK: &str = "Check that the server runs, that this process reaches it, and that its user \
                     has the rights. The page tries again by itself; without JavaScript, reload it.";

/// What to do about an error.
pub(super) fn advice(error: &LockError) -> &'static str {
    match error {
        LockError::ShutDown => "This process shuts down. Use the console of another one.",
        LockError::InvalidKey { .. } => "Look for the lock in the list.",
        LockError::Unsupported { .. } => "Look at the servers one by one.",
        _ => CHECK,
    }
}
