//! A cluster: sends each command to the node of its slot, which works like a single server.

mod hint_link;
#[cfg(test)]
mod hostile;
mod map;
mod node;
mod refreshing;
mod slots;
mod subscriptions;
mod topology;

use std::borrow::Cow;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::future::join_all;
use redis::{ConnectionInfo, Value};
use tokio::runtime::Handle;
use tokio::time::sleep;

use self::node::Common;
use self::subscriptions::Subscriptions;
use self::topology::{Next, REPORT_LIMIT, Topology, no_slots};
use super::answer::PendingAnswer;
use super::connection::Connection;
use super::encoded::Encoded;
use super::errors;
use super::hints::HintReceiver;
use super::secret::Secret;
use super::settings::Settings;
use super::transport::Transport;
use crate::core::key::LockKey;
use crate::store::{ClientId, Listener, StoreError, StoreFuture, Subscription};
use crate::system;

/// How long a command is retried while its slot migrates: a multiple of its limit, and at most.
const RETRY: (u32, Duration) = (4, Duration::from_secs(2));

/// The pause between these attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The nodes of a cluster.
#[derive(Debug)]
pub(super) struct Cluster {
    topology: Arc<Topology>,
    subscriptions: Arc<Subscriptions>,
}

impl Cluster {
    /// Connects to all nodes that can be reached.
    pub(super) async fn open(
        nodes: Vec<ConnectionInfo>,
        client: ClientId,
        settings: Settings,
        runtime: Handle,
        secret: Secret,
    ) -> Result<Self, StoreError> {
        let (hints, limit) =
            (HintReceiver::on_cluster(client, &settings.prefix, secret), settings.connect_timeout);
        let common = Common::new(nodes[0].clone(), settings, hints.clone(), runtime);
        let topology = Arc::new(Topology::new(&nodes, common));
        // The nodes have to connect first.
        topology.ask(limit + REPORT_LIMIT).await?;
        // A master that can't be reached now may come back, or be replaced.
        join_all(topology.nodes().iter().map(|node| node.connect(limit))).await;
        Ok(Self { subscriptions: Subscriptions::start(&topology, hints), topology })
    }

    /// Sends a command to the node of its slot. Each attempt may take `limit`; while the slot
    /// migrates, there are attempts for as long as `patience`.
    fn start(&self, command: Encoded, limit: Duration, patience: Duration) -> PendingAnswer {
        let running = run(self.topology.clone(), command, limit, patience);
        PendingAnswer::InTask(self.topology.common.runtime.spawn(running.boxed()))
    }
}

impl Transport for Cluster {
    fn send(&self, command: Encoded, limit: Duration) -> PendingAnswer {
        self.start(command, limit, patience(limit))
    }

    fn servers(&self) -> usize {
        self.topology.masters().len()
    }

    fn send_to(&self, server: usize, command: Encoded, limit: Duration) -> Option<PendingAnswer> {
        let master = self.topology.masters().into_iter().nth(server)?;
        Some(master.send(command, limit))
    }

    /// Asks for the slots first: there may be other masters by now.
    fn connections(&self) -> StoreFuture<Vec<Arc<Connection>>> {
        let topology = self.topology.clone();
        Box::pin(async move {
            let _ = topology.ask(REPORT_LIMIT).await; // the former masters may say why
            let masters = topology.masters();
            // Where no node has a slot, each of them may say why.
            let nodes = if masters.is_empty() { topology.nodes() } else { masters };
            Ok(nodes.iter().map(|node| node.connection()).collect())
        })
    }

    fn runtime(&self) -> Handle {
        self.topology.common.runtime.clone()
    }

    /// The leases are on several nodes, so each is sent alone. One whose slot migrates is not
    /// retried: it would hold up the others, and its next renewal is due soon.
    fn send_renewals(
        &self,
        renewals: &mut dyn Iterator<Item = (Encoded, Duration)>,
    ) -> Vec<PendingAnswer> {
        renewals.map(|(command, limit)| self.start(command, limit, Duration::ZERO)).collect()
    }

    fn can_share_command(&self, first: &LockKey, second: &LockKey) -> bool {
        first.shares_slot(second)
    }

    fn answers_within(&self, limit: Duration) -> Duration {
        patience(limit)
    }

    fn listen(&self, listener: Weak<dyn Listener>) {
        self.subscriptions.hints.listen(listener);
    }

    fn gives_hints(&self) -> bool {
        self.subscriptions.is_open()
    }

    fn can_recall(&self) -> bool {
        self.subscriptions.is_open()
    }

    fn watch(&self, channel: String) -> BoxFuture<'_, ()> {
        Box::pin(self.subscriptions.clone().watch(channel))
    }

    fn subscribe(&self, channel: Cow<'_, str>) -> Option<StoreFuture<Subscription>> {
        Some(Box::pin(self.subscriptions.clone().subscribe(channel.into_owned())))
    }
}

/// How long a command with this limit is retried while its slot migrates.
fn patience(limit: Duration) -> Duration {
    let (times, most) = RETRY;
    (limit * times).min(most)
}

/// See [`Cluster::start`].
async fn run(
    topology: Arc<Topology>,
    command: Encoded,
    limit: Duration,
    patience: Duration,
) -> Result<Value, StoreError> {
    let first_key = command.keys().next().unwrap_or_default();
    let (start, slot) = (system::now(), slots::of(first_key));
    debug_assert!(command.keys().all(|key| slots::of(key) == slot), "keys in several slots");
    let (mut next, mut attempts) = (Next::Master, 0_u32);
    loop {
        // One or two redirections lead to the right node; else the migration takes a moment.
        if matches!(next, Next::Later) || attempts > 2 {
            sleep(RETRY_PAUSE).await;
        }
        let is_late = system::since(start) >= patience;
        let (node, is_asking) = match std::mem::replace(&mut next, Next::Later) {
            Next::Asking(node) => (Some(node), true),
            Next::Master | Next::Later => (topology.master_of(slot), false),
        };
        let Some(node) = node else {
            topology.refresh();
            if is_late {
                return Err(no_slots());
            }
            continue;
        };
        let error = match node.send(command.route(slot, is_asking), limit).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let redirected =
            errors::redis_error(&error).and_then(|refusal| topology.redirect(slot, &node, refusal));
        let Some(redirected) = redirected else {
            if error.is_passing {
                // Another node may have its slots by now.
                topology.refresh();
            }
            return Err(errors::on_cluster(error));
        };
        if is_late && attempts >= 2 {
            return Err(errors::on_cluster(error));
        }
        (next, attempts) = (redirected, attempts + 1);
    }
}
