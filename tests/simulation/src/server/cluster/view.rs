//! A cluster as a node sees it, or as the world means it to be: each node may have a view that is
//! out of date.

use std::fmt;
use std::ops::RangeInclusive;

use super::slots::COUNT;

/// The place of a node in [`View::nodes`]: the same in all views of a cluster.
pub type NodeNumber = usize;

/// A node as others know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub id: String,
    pub host: String,
    pub port: u16,
    /// Whose replica it is; `None` of a master.
    pub master: Option<NodeNumber>,
    /// The others agree that it is dead.
    pub is_failing: bool,
}

/// A cluster. The view of the later epoch holds.
#[derive(Clone, PartialEq, Eq)]
pub struct View {
    pub epoch: u64,
    pub nodes: Vec<Node>,
    owners: Vec<Option<NodeNumber>>,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}", self.epoch)
    }
}

impl View {
    /// A cluster of masters, which share the slots evenly and in their order, each with these
    /// replicas. The masters come first, then the replicas of the first and so on.
    #[must_use]
    pub fn of(masters: &[(String, u16)], replicas: &[Vec<(String, u16)>]) -> Self {
        let replicas = replicas.iter().enumerate();
        let replicas = replicas.flat_map(|(of, all)| all.iter().map(move |it| (it, Some(of))));
        let all = masters.iter().map(|it| (it, None)).chain(replicas).enumerate();
        let nodes = all.map(|(nth, ((host, port), master))| Node {
            id: format!("{:040x}", nth + 1),
            host: host.clone(),
            port: *port,
            master,
            is_failing: false,
        });
        // As `redis-cli --cluster create` divides them.
        let (count, slots) = (masters.len(), usize::from(COUNT));
        let end = |nth: usize| (2 * nth * slots + count) / (2 * count);
        let owner = |slot| (0..count).find(|nth| slot < end(nth + 1));
        let owners = (0..slots).map(owner).collect();
        Self { epoch: 1, nodes: nodes.collect(), owners }
    }

    #[must_use]
    pub fn owner(&self, slot: u16) -> Option<NodeNumber> {
        self.owners[usize::from(slot)]
    }

    /// Notes a slot's new owner, in a new epoch.
    pub fn give(&mut self, slots: RangeInclusive<u16>, to: Option<NodeNumber>) {
        self.epoch += 1;
        for slot in slots {
            self.owners[usize::from(slot)] = to;
        }
    }

    /// Notes that a replica takes its master's place, in a new epoch. The master becomes its
    /// replica, and so do the master's other replicas.
    pub fn promote(&mut self, replica: NodeNumber) {
        let Some(former) = self.nodes[replica].master.take() else { return };
        self.epoch += 1;
        for (nth, node) in self.nodes.iter_mut().enumerate() {
            if nth == former || node.master == Some(former) {
                node.master = Some(replica);
            }
        }
        for owner in self.owners.iter_mut().filter(|owner| **owner == Some(former)) {
            *owner = Some(replica);
        }
    }

    /// The slots of a node, as ranges.
    #[must_use]
    pub fn ranges(&self) -> Vec<(u16, u16, NodeNumber)> {
        let mut ranges: Vec<(u16, u16, NodeNumber)> = Vec::new();
        for slot in 0..COUNT {
            let Some(owner) = self.owner(slot) else { continue };
            match ranges.last_mut() {
                Some((_, last, of)) if *of == owner && *last + 1 == slot => *last = slot,
                _ => ranges.push((slot, slot, owner)),
            }
        }
        ranges
    }

    /// How many slots have an owner, and how many of these one that is alive.
    pub(super) fn counts(&self) -> (usize, usize) {
        let assigned = self.owners.iter().flatten();
        let alive = assigned.clone().filter(|owner| !self.nodes[**owner].is_failing);
        (assigned.clone().count(), alive.count())
    }

    /// A cluster refuses everything where a slot has no owner that is alive.
    pub(super) fn is_complete(&self) -> bool {
        self.counts().1 == usize::from(COUNT)
    }
}
