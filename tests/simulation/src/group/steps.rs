//! What happens to servers, one step after the other.

use std::net::SocketAddr;

use super::{Group, address};
use crate::network::{Micros, Network};
use crate::server::cluster::{NodeNumber, View};

/// A step.
#[derive(Clone, Debug)]
pub enum Step {
    /// A replica becomes a master. Sentinels end all its connections then.
    Promote(SocketAddr),
    /// A master becomes a replica. Sentinels end all its connections then.
    Demote { replica: SocketAddr, master: SocketAddr, lag: Micros },
    /// The same, and it keeps its connections.
    Follow { replica: SocketAddr, master: SocketAddr, lag: Micros },
    /// A sentinel learns of a new master.
    Tell { sentinel: SocketAddr, master: SocketAddr },
    /// A node of a cluster hears of another view.
    Hear { node: SocketAddr, view: View },
    /// A slot begins to move.
    Open {
        slot: u16,
        from: NodeNumber,
        to: NodeNumber,
        before: Box<View>,
        after: Box<View>,
        pause: Micros,
    },
    /// One of its keys moves, until none is left.
    MoveKey {
        slot: u16,
        from: SocketAddr,
        to: SocketAddr,
        owner: NodeNumber,
        after: Box<View>,
        pause: Micros,
    },
}

impl Step {
    /// The servers that have to be there for it.
    pub(super) fn servers(&self) -> Vec<SocketAddr> {
        match self {
            Self::Promote(server) => vec![*server],
            Self::Demote { replica, master, .. } | Self::Follow { replica, master, .. } => {
                vec![*replica, *master]
            }
            Self::Tell { sentinel, .. } => vec![*sentinel],
            Self::Hear { node, .. } => vec![*node],
            Self::Open { from, to, before, .. } => {
                vec![address(before, *from), address(before, *to)]
            }
            Self::MoveKey { from, to, .. } => vec![*from, *to],
        }
    }

    pub(super) fn happen(self, group: &mut Group, network: &mut Network) {
        let now = network.now();
        match self {
            Self::Promote(server) => {
                network.host(server).server.promote();
                network.host(server).server.end_connections();
            }
            Self::Demote { replica, master, lag } => {
                group.follow(network, replica, master, lag);
                network.host(replica).server.end_connections();
            }
            Self::Follow { replica, master, lag } => group.follow(network, replica, master, lag),
            Self::Tell { sentinel, master } => {
                let address = (master.ip().to_string(), master.port());
                network.host(sentinel).server.switch_master(&address);
            }
            Self::Hear { node, view } => network.host(node).server.hear(&view),
            Self::Open { slot, from, to, before, after, pause } => {
                let (source, target) = (address(&before, from), address(&before, to));
                network.host(target).server.set_importing(slot, from);
                network.host(source).server.set_migrating(slot, to);
                let (from, to, owner) = (source, target, to);
                let next = Self::MoveKey { slot, from, to, owner, after, pause };
                group.later(now + pause, next);
            }
            Self::MoveKey { slot, from, to, owner, after, pause } => {
                let keys = network.host(from).server.keys_in(slot);
                let Some(key) = keys.first() else {
                    // The new owner is told first, or the slot would have none meanwhile.
                    network.host(to).server.set_owner(slot, owner);
                    let others = (0..after.nodes.len()).map(|nth| address(&after, nth));
                    let others = std::iter::once(from).chain(others.filter(|it| *it != from));
                    for (nth, node) in (1..).zip(others) {
                        let view = (*after).clone();
                        group.later(now + nth * pause, Self::Hear { node, view });
                    }
                    return;
                };
                if let Some(parcel) = network.host(from).server.pack(key) {
                    // As with REPLACE: a replica that has become a master may still have a key of a
                    // slot that has left it, if the deletion was lost.
                    let target = &mut network.host(to).server;
                    if !target.unpack(parcel.clone()) {
                        target.remove(key);
                        assert!(target.unpack(parcel), "nothing is in the way");
                    }
                }
                network.host(from).server.remove(key);
                let next = Self::MoveKey { slot, from, to, owner, after, pause };
                group.later(now + pause, next);
            }
        }
    }
}
