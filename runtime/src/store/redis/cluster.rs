//! A cluster: sends each command to the node of its slot, which works like a single server.
//!
//! The driver's own connection to a cluster carries only hints. When a slot migrates while some
//! dozens of commands are in flight, it stops for good. And of several commands that a node
//! redirects at the same time, it follows one (decision 66).

#[cfg(test)]
mod hostile;
mod map;
mod node;
mod refreshing;
mod slots;
mod subscriptions;

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use redis::{ConnectionInfo, RedisError, Value};
use tokio::runtime::Handle;
use tokio::time::sleep;

use self::map::SlotMap;
use self::node::{Common, Node};
use self::refreshing::Refreshing;
use self::slots::Range;
use self::subscriptions::Subscriptions;
use super::answer::PendingAnswer;
use super::connection::Connection;
use super::encoded::Encoded;
use super::errors;
use super::hints::HintReceiver;
use super::secret::Secret;
use super::settings::Settings;
use super::sync::lock;
use super::transport::Transport;
use crate::core::key::LockKey;
use crate::store::{ClientId, Listener, StoreError, StoreFuture, Subscription};
use crate::system;

/// The shortest time between two refreshes of the slot map.
const REFRESH_PAUSE: Duration = Duration::from_millis(100);

/// How long a command is retried while its slot migrates: a multiple of its limit, and at most.
const RETRY: (u32, Duration) = (4, Duration::from_secs(2));

/// The pause between these attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// How long a node has to report the slots.
const REPORT_LIMIT: Duration = Duration::from_millis(500);

/// The nodes of a cluster.
pub(super) struct Cluster {
    common: Common,
    map: Mutex<SlotMap>,
    refreshing: Refreshing,
    /// They have a connection of their own. When a slot migrates, the server ends the
    /// subscriptions in it unasked. The driver takes that for the answer to a command in
    /// flight, and from then on gives each answer to the wrong command.
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
        let hints = HintReceiver::on_cluster(client, &settings.prefix, secret);
        let subscriptions =
            Subscriptions::new(nodes.clone(), hints.clone(), settings.clone(), runtime.clone());
        let common = Common::new(nodes[0].clone(), settings, hints, runtime);
        let seed = |(nth, info)| Arc::new(Node::named(info, &common, nth == 0));
        let seeds = nodes.iter().enumerate().map(seed).collect();
        let cluster = Self {
            map: Mutex::new(SlotMap::new(seeds)),
            common,
            refreshing: Refreshing::default(),
            subscriptions: Arc::new(subscriptions),
        };
        // The nodes have to connect first.
        let limit = cluster.common.settings.connect_timeout + REPORT_LIMIT;
        cluster.assign(&cluster.slots(limit).await?);
        // A master that can't be reached now may come back, or be replaced.
        let masters = lock(&cluster.map).nodes().to_vec();
        join_all(masters.iter().map(|node| node.connect(cluster.common.settings.connect_timeout)))
            .await;
        Ok(cluster)
    }

    fn master_of(&self, slot: u16) -> Option<Arc<Node>> {
        lock(&self.map).master_of(slot).cloned()
    }

    /// Asks all known nodes for the slots, and returns the most frequent report: a node that
    /// is cut off from the others may be out of date.
    async fn slots(&self, limit: Duration) -> Result<Vec<Range>, StoreError> {
        let nodes = lock(&self.map).nodes().to_vec();
        let mut answers: FuturesUnordered<_> = nodes.iter().map(|node| node.slots(limit)).collect();
        // Each different report, in the order of the answers, and how many nodes gave it.
        let (mut reports, mut failed) = (Vec::<(Vec<Range>, usize)>::new(), None);
        while let Some(answer) = answers.next().await {
            let ranges = match answer {
                Ok(Some(ranges)) => ranges,
                Ok(None) => continue,
                Err(error) => {
                    failed = Some(error);
                    continue;
                }
            };
            let at = reports.iter().position(|(known, _)| *known == ranges).unwrap_or_else(|| {
                reports.push((ranges, 0));
                reports.len() - 1
            });
            reports[at].1 += 1;
            if reports[at].1 * 2 > nodes.len() {
                break;
            }
        }
        // Of several that are equally frequent, the first.
        let most = reports.into_iter().rev().max_by_key(|(_, count)| *count);
        most.map(|(ranges, _)| ranges).ok_or_else(|| failed.unwrap_or_else(no_slots))
    }

    /// Takes over the reported slots.
    fn assign(&self, ranges: &[Range]) {
        let is_replaced = lock(&self.map).assign(ranges, &self.common);
        let mut masters: Vec<_> = ranges.iter().map(|range| (&*range.host, range.port)).collect();
        masters.sort_unstable();
        masters.dedup();
        let masters = masters.into_iter().map(|(host, port)| self.common.at(host, port));
        self.subscriptions.set_masters(masters.collect());
        if is_replaced {
            // The subscriptions on that master are gone, and the driver would wait for it.
            self.subscriptions.renew();
        }
    }

    /// Refreshes the slot map in the background: once more, after a pause, if there is another reason
    /// meanwhile.
    fn refresh(self: &Arc<Self>) {
        if !self.refreshing.begins() {
            return;
        }
        let cluster = self.clone();
        let refreshing = async move {
            while cluster.refreshing.goes_on() {
                match cluster.slots(REPORT_LIMIT).await {
                    Ok(ranges) => cluster.assign(&ranges),
                    Err(error) => {
                        tracing::debug!(error = %error.source, "no node of the lock store's cluster reports the slots");
                    }
                }
                sleep(REFRESH_PAUSE).await;
            }
        };
        self.common.runtime.spawn(refreshing.boxed());
    }

    /// Where a command goes after `node` refused it. `None` if its slot is not the reason.
    fn redirect(self: &Arc<Self>, slot: u16, node: &Node, refusal: &RedisError) -> Option<Next> {
        let other = |map: &mut SlotMap| {
            let (host, port) = node.redirection(refusal)?;
            Some(map.node_at(&self.common.at(host, port), &self.common))
        };
        match refusal.code()? {
            "MOVED" => {
                {
                    let mut map = lock(&self.map);
                    let other = other(&mut map)?;
                    map.move_slot(slot, other);
                }
                // Its former master may have been replaced, and subscriptions follow reports alone.
                self.refresh();
            }
            "ASK" => return Some(Next::Asking(other(&mut lock(&self.map))?)),
            "TRYAGAIN" => return Some(Next::Later),
            "CLUSTERDOWN" => {
                self.refresh();
                return Some(Next::Later);
            }
            _ => return None,
        }
        Some(Next::Master)
    }

    /// Sends a command to the node of its slot. Each attempt may take `limit`; while the slot
    /// migrates, there are attempts for as long as `patience`.
    fn start(
        self: &Arc<Self>,
        command: Encoded,
        limit: Duration,
        patience: Duration,
    ) -> PendingAnswer {
        let running = run(self.clone(), command, limit, patience);
        PendingAnswer::InTask(self.common.runtime.spawn(running.boxed()))
    }
}

/// Where a command goes next.
enum Next {
    /// To the master of its slot.
    Master,
    /// The same, after a pause.
    Later,
    /// To the node that the slot is migrating to.
    Asking(Arc<Node>),
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let map = lock(&self.map);
        let nodes: Vec<_> = map.nodes().iter().map(|node| &node.address).collect();
        f.debug_struct("Cluster").field("nodes", &nodes).finish_non_exhaustive()
    }
}

impl Transport for Arc<Cluster> {
    fn send(&self, command: Encoded, limit: Duration) -> PendingAnswer {
        self.start(command, limit, patience(limit))
    }

    fn servers(&self) -> usize {
        lock(&self.map).masters().len()
    }

    fn send_to(&self, server: usize, command: Encoded, limit: Duration) -> Option<PendingAnswer> {
        let master = lock(&self.map).masters().into_iter().nth(server)?;
        Some(master.send(command, limit))
    }

    /// Asks for the slots first: there may be other masters by now.
    fn connections(&self) -> StoreFuture<Vec<Arc<Connection>>> {
        let cluster = self.clone();
        Box::pin(async move {
            if let Ok(ranges) = cluster.slots(REPORT_LIMIT).await {
                cluster.assign(&ranges);
            }
            let map = lock(&cluster.map);
            let masters = map.masters();
            // Where no node has a slot, each of them may say why.
            let nodes = if masters.is_empty() { map.nodes().to_vec() } else { masters };
            Ok(nodes.iter().map(|node| node.connection()).collect())
        })
    }

    fn runtime(&self) -> Handle {
        self.common.runtime.clone()
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
    cluster: Arc<Cluster>,
    command: Encoded,
    limit: Duration,
    patience: Duration,
) -> Result<Value, StoreError> {
    let first_key = command.keys().next().unwrap_or_default();
    let (start, slot) = (system::now(), slots::of(first_key));
    let (mut next, mut attempts) = (Next::Master, 0_u32);
    loop {
        // One or two redirections lead to the right node; else the migration takes a moment.
        if matches!(next, Next::Later) || attempts > 2 {
            sleep(RETRY_PAUSE).await;
        }
        let is_late = system::since(start) >= patience;
        let (node, is_asking) = match std::mem::replace(&mut next, Next::Later) {
            Next::Asking(node) => (Some(node), true),
            Next::Master | Next::Later => (cluster.master_of(slot), false),
        };
        let Some(node) = node else {
            cluster.refresh();
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
            errors::redis_error(&error).and_then(|refusal| cluster.redirect(slot, &node, refusal));
        let Some(redirected) = redirected else {
            if error.is_passing {
                // Another node may have its slots by now.
                cluster.refresh();
            }
            return Err(errors::on_cluster(error));
        };
        if is_late && attempts >= 2 {
            return Err(errors::on_cluster(error));
        }
        (next, attempts) = (redirected, attempts + 1);
    }
}

fn no_slots() -> StoreError {
    errors::not_sent("no node of the cluster has the lock's slot; see CLUSTER INFO")
}
