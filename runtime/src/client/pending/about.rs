//! What is known of a request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::PendingRequest;
use crate::client::Client;
use crate::core::key::LockKey;

impl PendingRequest {
    /// Returns true if it may ask again with this TTL. An unanswered ask could still set its own
    /// TTL at any time.
    pub(crate) fn can_use_ttl(&self, ttl: Duration) -> bool {
        ttl == self.request.ttl || self.in_flight.unanswered_since().is_none()
    }

    /// The same request for another acquisition, with its label and its TTL.
    pub(crate) fn continued(mut self, key: &LockKey, ttl: Duration) -> Self {
        self.request.key.label_as(key);
        self.request.ttl = ttl;
        self
    }

    pub(crate) fn key(&self) -> &LockKey {
        &self.request.key
    }

    pub(crate) fn now(&self) -> Instant {
        self.client().store.now()
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.client().keeper.shutdown.has_begun()
    }

    pub(super) fn client(&self) -> &Arc<Client> {
        &self.in_flight.client
    }

    /// Returns true if hints can arrive.
    pub(crate) fn hears_hints(&self) -> bool {
        self.in_flight.client.store.gives_hints() && self.subscription.is_done()
    }

    /// Returns true if the request must be cancelled, or left to another acquisition.
    pub(crate) fn is_begun(&self) -> bool {
        self.in_flight.is_begun()
    }
}
