//! A cluster: each slot has its node, which is spoken to like a single server.
//!
//! The driver's own connection to a cluster is used for hints alone: with some dozens of
//! commands under way it stands still for good when a slot moves, and of several that a
//! node sends on to another at once it leads one there (decision 66).

mod map;
mod node;
mod slots;
mod subscriptions;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use redis::{ConnectionInfo, RedisError, Value};
use tokio::runtime::Handle;
use tokio::time::sleep;

use self::map::Map;
use self::node::{Common, Node};
use self::slots::Range;
use self::subscriptions::Hub;
use super::command::Command;
use super::hints::Ears;
use super::settings::Settings;
use super::{errors, lock};
use crate::store::{ClientId, StoreError};

/// The least time from asking the nodes who has the slots to asking them again.
const REST: Duration = Duration::from_millis(100);

/// How many times as long as a command may take, it is sent again while its slot moves;
/// and how long at the most.
const MOVING: (u32, Duration) = (4, Duration::from_secs(2));

/// The pauses between these tries.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a node has to say who has the slots.
const ANSWER: Duration = Duration::from_millis(500);

/// The nodes of a cluster.
pub(super) struct Cluster {
    common: Common,
    map: Mutex<Map>,
    is_looking: AtomicBool,
    /// Subscriptions have a connection of their own: when a slot moves, a server
    /// ends those of its channels unasked, which the driver takes for the answer
    /// to a command that is under way, and gives all later ones to the wrong ones.
    pub(super) hub: Arc<Hub>,
}

impl Cluster {
    /// Connects to the nodes that are there.
    pub(super) async fn open(
        nodes: Vec<ConnectionInfo>,
        client: ClientId,
        settings: Settings,
        runtime: Handle,
    ) -> Result<Self, StoreError> {
        let ears = Arc::new(Ears::new(client, String::new()));
        let hub = Hub::new(nodes.clone(), ears.clone(), settings.clone(), runtime.clone());
        let common = Common::new(nodes[0].clone(), settings, ears, runtime);
        let seed = |(nth, info)| Arc::new(Node::named(info, &common, nth == 0));
        let seeds = nodes.iter().enumerate().map(seed).collect();
        let cluster = Self {
            map: Mutex::new(Map::new(seeds)),
            common,
            is_looking: AtomicBool::new(false),
            hub: Arc::new(hub),
        };
        // They have to be connected to first.
        cluster.assign(&cluster.ask(cluster.common.settings.connect_timeout + ANSWER).await?);
        // A master that is not there now may be there later, or another in its place.
        let masters = lock(&cluster.map).nodes().to_vec();
        join_all(masters.iter().map(|node| node.connect(cluster.common.settings.connect_timeout)))
            .await;
        Ok(cluster)
    }

    fn master_of(&self, slot: u16) -> Option<Arc<Node>> {
        lock(&self.map).master_of(slot).cloned()
    }

    /// Asks all nodes that are known who has the slots, and goes by what most say: one
    /// that is cut off from the others may know less.
    async fn ask(&self, limit: Duration) -> Result<Vec<Range>, StoreError> {
        let nodes = lock(&self.map).nodes().to_vec();
        let mut answers: FuturesUnordered<_> = nodes.iter().map(|node| node.slots(limit)).collect();
        // In the order of the answers.
        let (mut said, mut failed) = (Vec::<(Vec<Range>, usize)>::new(), None);
        while let Some(answer) = answers.next().await {
            let ranges = match answer {
                Ok(Some(ranges)) => ranges,
                Ok(None) => continue,
                Err(error) => {
                    failed = Some(error);
                    continue;
                }
            };
            let place = said.iter().position(|(known, _)| *known == ranges).unwrap_or_else(|| {
                said.push((ranges, 0));
                said.len() - 1
            });
            said[place].1 += 1;
            if said[place].1 * 2 > nodes.len() {
                break;
            }
        }
        // Of several that are as many, who answered first.
        let most = said.into_iter().rev().max_by_key(|(_, count)| *count);
        most.map(|(ranges, _)| ranges).ok_or_else(|| failed.unwrap_or_else(no_slots))
    }

    /// Goes by what the nodes say.
    fn assign(&self, ranges: &[Range]) {
        let is_replaced = lock(&self.map).assign(ranges, &self.common);
        if is_replaced {
            // Its subscriptions are gone with it; the driver would wait for it.
            self.hub.renew();
        }
    }

    /// Asks the nodes again who has what, unless that was done just now.
    fn look(self: &Arc<Self>) {
        if self.is_looking.swap(true, Ordering::Relaxed) {
            return;
        }
        let cluster = self.clone();
        self.common.runtime.spawn(async move {
            match cluster.ask(ANSWER).await {
                Ok(ranges) => cluster.assign(&ranges),
                Err(error) => {
                    tracing::debug!(error = %error.source, "no node of the lock store's cluster says who has what");
                }
            }
            sleep(REST).await;
            cluster.is_looking.store(false, Ordering::Relaxed);
        });
    }

    /// Where the command goes next that `node` refused so; nowhere, if it was for another
    /// reason.
    fn follow(self: &Arc<Self>, slot: u16, node: &Node, refusal: &RedisError) -> Option<Next> {
        let other = |map: &mut Map| {
            let (host, port) = node.other(refusal)?;
            Some(map.node_at(&self.common.at(host, port), &self.common))
        };
        match refusal.code()? {
            "MOVED" => {
                let mut map = lock(&self.map);
                let other = other(&mut map)?;
                map.give(slot, other);
            }
            "ASK" => return Some(Next::Asking(other(&mut lock(&self.map))?)),
            "TRYAGAIN" => return Some(Next::Later),
            "CLUSTERDOWN" => {
                self.look();
                return Some(Next::Later);
            }
            _ => return None,
        }
        Some(Next::Master)
    }

    /// Sends one command to the node of its slot, and gives its answer within `limit`; it
    /// is sent again for so long as `patience`, while its slot moves. It goes on if what
    /// this gives is dropped.
    pub(super) fn send(
        self: &Arc<Self>,
        command: Command,
        limit: Duration,
        patience: Duration,
    ) -> impl Future<Output = Result<Value, StoreError>> + Send + use<> {
        let running = run(self.clone(), command, limit, patience);
        let running = self.common.runtime.spawn(running);
        async move { running.await.unwrap_or_else(|_| Err(errors::shutdown())) }
    }
}

/// Where a command goes.
enum Next {
    /// To the master of its slot.
    Master,
    /// The same, after a pause.
    Later,
    /// To the node that the slot is on the way to.
    Asking(Arc<Node>),
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let map = lock(&self.map);
        let nodes: Vec<_> = map.nodes().iter().map(|node| &node.address).collect();
        f.debug_struct("Cluster").field("nodes", &nodes).finish_non_exhaustive()
    }
}

/// How long a command that may take `limit` is sent again while its slot moves.
pub(super) fn patience(limit: Duration) -> Duration {
    let (times, most) = MOVING;
    (limit * times).min(most)
}

/// See [`Cluster::send`].
async fn run(
    cluster: Arc<Cluster>,
    command: Command,
    limit: Duration,
    patience: Duration,
) -> Result<Value, StoreError> {
    let (begun, slot) = (Instant::now(), slots::of(command.first_key()));
    let (mut next, mut tries) = (Next::Master, 0_u32);
    loop {
        // Sent on once or twice it gets there; else it takes a moment.
        if matches!(next, Next::Later) || tries > 2 {
            sleep(PAUSE).await;
        }
        let is_late = begun.elapsed() >= patience;
        let (node, is_asking) = match std::mem::replace(&mut next, Next::Later) {
            Next::Asking(node) => (Some(node), true),
            Next::Master | Next::Later => (cluster.master_of(slot), false),
        };
        let Some(node) = node else {
            cluster.look();
            if is_late {
                return Err(no_slots());
            }
            continue;
        };
        let error = match node.send(command.to(slot, is_asking), limit).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let other = errors::of(&error).and_then(|refusal| cluster.follow(slot, &node, refusal));
        let Some(other) = other else {
            if error.is_passing {
                // Another may have its slots by now.
                cluster.look();
            }
            return Err(errors::in_cluster(error));
        };
        if is_late && tries >= 2 {
            return Err(errors::in_cluster(error));
        }
        (next, tries) = (other, tries + 1);
    }
}

fn no_slots() -> StoreError {
    errors::not_yet("the cluster has given the slot to no node; see CLUSTER INFO")
}
