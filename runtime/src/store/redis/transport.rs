//! Carries commands: to one server, or to a cluster.

use std::borrow::Cow;
use std::fmt;
use std::future::ready;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

use super::answer::PendingAnswer;
use super::connection::Connection;
use super::encoded::Encoded;
use crate::core::key::LockKey;
use crate::store::{Listener, StoreFuture, Subscription};

/// Carries commands to the servers that keep their locks.
pub(super) trait Transport: fmt::Debug + Send + Sync {
    /// Sends a command that may take `limit`. It is sent by this call, not by the first poll of
    /// the answer.
    fn send(&self, command: Encoded, limit: Duration) -> PendingAnswer;

    /// How many servers keep locks, as far as the client knows.
    fn servers(&self) -> usize {
        1
    }

    /// Sends a command without keys to one of them, by its number. `None` if there is none of
    /// this number.
    fn send_to(&self, server: usize, command: Encoded, limit: Duration) -> Option<PendingAnswer> {
        (server == 0).then(|| self.send(command, limit))
    }

    /// A connection to each of them, for questions about the server. Poll it on
    /// [`runtime`](Self::runtime).
    fn connections(&self) -> StoreFuture<Vec<Arc<Connection>>>;

    /// The runtime that drives the connections.
    fn runtime(&self) -> Handle;

    /// Sends renewals that are due at the same time, each with its limit.
    fn send_renewals(
        &self,
        renewals: &mut dyn Iterator<Item = (Encoded, Duration)>,
    ) -> Vec<PendingAnswer>;

    /// Returns true if one command can take both locks, and another of either lock can't
    /// overtake it.
    fn can_share_command(&self, first: &LockKey, second: &LockKey) -> bool;

    /// The longest that an answer may take, retries included.
    fn answers_within(&self, limit: Duration) -> Duration;

    /// Hands hints to `listener` from now on.
    fn listen(&self, listener: Weak<dyn Listener>);

    /// Returns true if a waiter can expect hints.
    fn gives_hints(&self) -> bool;

    /// Returns true if the server can tell this client at any time that others want a lock.
    fn can_recall(&self) -> bool {
        false
    }

    /// Subscribes the client to a channel for all clients, where it is not subscribed from its first
    /// command on.
    fn watch(&self, channel: String) -> BoxFuture<'_, ()> {
        let _ = channel;
        Box::pin(ready(()))
    }

    /// Subscribes a waiter to its lock's channel, where each lock has one of its own.
    fn subscribe(&self, channel: Cow<'_, str>) -> Option<StoreFuture<Subscription>> {
        let _ = channel;
        None
    }
}
