//! A waiter's subscription to the hints of its lock, in a store where each lock needs one.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use crate::store::{RESUBSCRIBE, StoreFuture, Subscription};
use crate::system;

pub(super) enum SubscriptionState {
    /// It exists, or there is no need for one.
    Done(#[expect(dead_code, reason = "it is held, not read")] Option<Subscription>),
    /// It is made once the lock is found held: a free lock costs none.
    Later(StoreFuture<Subscription>),
    /// It failed then: the request asks often instead, until it tries again.
    Failed(Instant),
}

impl SubscriptionState {
    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    pub(super) fn is_later(&self) -> bool {
        matches!(self, Self::Later(_))
    }

    /// Returns true if it failed long ago.
    pub(super) fn is_to_retry(&self) -> bool {
        let Self::Failed(at) = self else { return false };
        system::now().saturating_duration_since(*at) >= RESUBSCRIBE
    }

    /// Waits for it, and no longer than that: until it is there, the request asks often.
    pub(super) async fn settle(&mut self, patience: Duration) {
        if let Self::Later(subscription) = self
            && let Ok(answer) = timeout(patience, subscription).await
        {
            *self = answer.map_or_else(
                |_| Self::Failed(system::now()),
                |subscription| Self::Done(Some(subscription)),
            );
        }
    }
}
