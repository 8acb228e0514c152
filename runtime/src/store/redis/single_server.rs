//! One server, or one node of a cluster, and the connections to it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use super::answer::PendingAnswer;
use super::batch::Queued;
use super::batcher::Batcher;
use super::connection::Connection;
use super::encoded::{Encoded, lock_hash};
use super::transport::Transport;
use crate::core::key::LockKey;
use crate::store::{Listener, StoreFuture};

/// The batchers of one server, one for each connection. All commands of a lock take the same
/// one, and so keep their order.
#[derive(Debug)]
pub(super) struct SingleServer {
    /// At least one.
    batchers: Vec<Batcher>,
}

impl SingleServer {
    /// Starts a batcher for each connection, of which there is at least one.
    pub(super) fn start(connections: Vec<Connection>, runtime: &Handle) -> Self {
        Self { batchers: connections.into_iter().map(|it| Batcher::start(it, runtime)).collect() }
    }

    /// The connection for hints, and for questions about the server.
    pub(super) fn first_connection(&self) -> &Arc<Connection> {
        &self.batchers[0].connection
    }

    fn batcher(&self, lock: u64) -> usize {
        usize::try_from(lock % self.batchers.len() as u64).unwrap_or_default()
    }
}

impl Transport for SingleServer {
    fn send(&self, command: Encoded, limit: Duration) -> PendingAnswer {
        let batcher = &self.batchers[self.batcher(command.lock)];
        let (queued, answer) = Queued::new(command, limit);
        batcher.push([queued]);
        answer
    }

    fn connections(&self) -> StoreFuture<Vec<Arc<Connection>>> {
        let first = self.first_connection().clone();
        Box::pin(async { Ok(vec![first]) })
    }

    fn runtime(&self) -> Handle {
        self.batchers[0].runtime.clone()
    }

    fn send_renewals(
        &self,
        renewals: &mut dyn Iterator<Item = (Encoded, Duration)>,
    ) -> Vec<PendingAnswer> {
        let queued = renewals.map(|(command, limit)| Queued::new(command, limit));
        let (queued, answers): (Vec<_>, Vec<_>) = queued.unzip();
        if let [batcher] = &self.batchers[..] {
            batcher.push(queued);
            return answers;
        }
        let mut sorted: Vec<Vec<_>> = self.batchers.iter().map(|_| Vec::new()).collect();
        for queued in queued {
            sorted[self.batcher(queued.command.lock)].push(queued);
        }
        for (batcher, queued) in self.batchers.iter().zip(sorted).filter(|(_, it)| !it.is_empty()) {
            batcher.push(queued);
        }
        answers
    }

    /// Returns true if both locks take the same connection: by another, a cancel could overtake.
    fn can_share_command(&self, first: &LockKey, second: &LockKey) -> bool {
        self.batcher(lock_hash(first)) == self.batcher(lock_hash(second))
    }

    fn answers_within(&self, limit: Duration) -> Duration {
        limit
    }

    fn can_recall(&self) -> bool {
        self.gives_hints()
    }

    fn listen(&self, listener: Weak<dyn Listener>) {
        self.first_connection().server().hints.listen(listener);
    }

    /// Makes the connection for hints again if it is lost: the waiter's lock may use another.
    fn gives_hints(&self) -> bool {
        let Batcher { connection, runtime, .. } = &self.batchers[0];
        let is_open = connection.server().hints.is_open();
        if !is_open {
            connection.recover(runtime);
        }
        is_open
    }
}
