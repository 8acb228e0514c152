//! Which node has each slot: what the nodes report, and what redirections say meanwhile.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{ConnectionInfo, RedisError};
use tokio::sync::watch;
use tokio::time::sleep;

use super::map::SlotMap;
use super::node::{Common, Node};
use super::refreshing::Refreshing;
use super::slots::Range;
use crate::core::sync::lock;
use crate::store::StoreError;
use crate::store::redis::errors;

/// The shortest time between two refreshes of the slot map.
const REFRESH_PAUSE: Duration = Duration::from_millis(100);

/// How long a node has to report the slots.
pub(super) const REPORT_LIMIT: Duration = Duration::from_millis(500);

/// The nodes of a cluster, and the slots of each.
pub(super) struct Topology {
    pub(super) common: Common,
    map: Mutex<SlotMap>,
    refreshing: Refreshing,
    /// Whenever a slot gets another master.
    changes: watch::Sender<()>,
}

/// Where a command goes next.
pub(super) enum Next {
    /// To the master of its slot.
    Master,
    /// The same, after a pause.
    Later,
    /// To the node that the slot is migrating to.
    Asking(Arc<Node>),
}

impl Topology {
    /// Knows these nodes alone, until it asks them for the slots.
    pub(super) fn new(nodes: &[ConnectionInfo], common: Common) -> Self {
        // One of them is asked whether its settings are safe.
        let seed = |(nth, info)| Arc::new(Node::named(info, &common, nth == 0));
        let seeds = nodes.iter().enumerate().map(seed).collect();
        Self {
            common,
            map: Mutex::new(SlotMap::new(seeds)),
            refreshing: Refreshing::default(),
            changes: watch::Sender::default(),
        }
    }

    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        lock(&self.map).nodes().to_vec()
    }

    /// All masters, in the order of their addresses.
    pub(super) fn masters(&self) -> Vec<Arc<Node>> {
        lock(&self.map).masters()
    }

    pub(super) fn master_of(&self, slot: u16) -> Option<Arc<Node>> {
        lock(&self.map).master_of(slot).cloned()
    }

    /// Tells whenever a slot gets another master.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Asks the nodes for the slots, and takes them over.
    pub(super) async fn ask(&self, limit: Duration) -> Result<(), StoreError> {
        let ranges = self.slots(limit).await?;
        let is_changed = lock(&self.map).assign(&ranges, &self.common);
        if is_changed {
            self.changes.send_replace(());
        }
        Ok(())
    }

    /// Asks all known nodes for the slots, and returns the most frequent report: a node that
    /// is cut off from the others may be out of date.
    async fn slots(&self, limit: Duration) -> Result<Vec<Range>, StoreError> {
        let nodes = self.nodes();
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
        // The first of several that are equally frequent.
        let most = reports.into_iter().rev().max_by_key(|(_, count)| *count);
        most.map(|(ranges, _)| ranges).ok_or_else(|| failed.unwrap_or_else(no_slots))
    }

    /// Refreshes the slot map in the background: once more, after a pause, if there is another reason
    /// meanwhile.
    pub(super) fn refresh(self: &Arc<Self>) {
        if !self.refreshing.begins() {
            return;
        }
        let topology = self.clone();
        let refreshing = async move {
            while topology.refreshing.goes_on() {
                if let Err(error) = topology.ask(REPORT_LIMIT).await {
                    tracing::debug!(error = %error.source, "no node of the lock store's cluster reports the slots");
                }
                sleep(REFRESH_PAUSE).await;
            }
        };
        self.common.runtime.spawn(refreshing.boxed());
    }

    /// Where a command goes after `node` refused it. `None` if its slot is not the reason.
    pub(super) fn redirect(
        self: &Arc<Self>,
        slot: u16,
        node: &Node,
        refusal: &RedisError,
    ) -> Option<Next> {
        let other = |map: &mut SlotMap| {
            let (host, port) = node.redirection(refusal)?;
            Some(map.node_at(&self.common.at(host, port), &self.common))
        };
        match refusal.code()? {
            "MOVED" => {
                // A redirection of another slot answers another command.
                refusal.redirect_node().filter(|(_, moved)| *moved == slot)?;
                let is_changed = {
                    let mut map = lock(&self.map);
                    let other = other(&mut map)?;
                    map.move_slot(slot, other)
                };
                if is_changed {
                    self.changes.send_replace(());
                }
                // Its former master may have been replaced, and have lost its other slots too.
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
}

pub(super) fn no_slots() -> StoreError {
    errors::not_sent("no node of the cluster has the lock's slot; see CLUSTER INFO")
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let map = lock(&self.map);
        f.debug_list().entries(map.nodes().iter().map(|node| &node.address)).finish()
    }
}
