//! What the keeper cancels: a request for a lock, or a take of a rate.

use std::time::Duration;

use crate::core::key::LockKey;
use crate::store::{Ask, LIVE_MOST, Reply, Request, Store, Take};

/// A request, or a take, that the store may know and that nobody wants any more.
#[derive(Debug)]
pub(crate) enum ToCancel {
    Request(Request),
    /// The request of a lease that was released here, and that nobody has taken up.
    Idle(Request),
    Take(Take),
}

impl ToCancel {
    pub(crate) fn key(&self) -> &LockKey {
        match self {
            Self::Request(request) | Self::Idle(request) => &request.key,
            Self::Take(take) => &take.key,
        }
    }

    /// How long the store may have it.
    pub(super) fn lasts(&self) -> Duration {
        match self {
            Self::Request(request) | Self::Idle(request) => request.ttl,
            Self::Take(_) => LIVE_MOST,
        }
    }

    pub(crate) fn send(&self, store: &dyn Store) -> Reply<bool> {
        match self {
            Self::Request(request) | Self::Idle(request) => store.cancel(request),
            Self::Take(take) => store.give_back(take),
        }
    }
}

impl From<Request> for ToCancel {
    fn from(request: Request) -> Self {
        Self::Request(request)
    }
}

impl From<Take> for ToCancel {
    fn from(take: Take) -> Self {
        Self::Take(take)
    }
}
