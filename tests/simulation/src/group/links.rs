//! The way from a master to a replica.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::acts;
use crate::network::{LATENCY, Micros, Network};
use crate::server::journal::{Change, ReplicaId};
use crate::server::replication::{Link as State, Role};

#[derive(Debug)]
pub(super) struct Link {
    master: SocketAddr,
    pub(super) replica: SocketAddr,
    id: ReplicaId,
    /// How long a change is on its way.
    pub(super) lag: Micros,
    changes: VecDeque<(Micros, Change)>,
    confirmations: VecDeque<(Micros, u64)>,
}

impl Link {
    pub(super) fn open(
        network: &mut Network,
        replica: SocketAddr,
        master: SocketAddr,
        lag: Micros,
    ) -> Self {
        let (host, port) = (replica.ip().to_string(), replica.port());
        let (id, all) = network.host(master).server.attach_replica(&host, port);
        let server = &mut network.host(replica).server;
        let is_known = matches!(
            server.role(),
            Role::Replica(of) if of.host == master.ip().to_string() && of.port == master.port()
        );
        if !is_known {
            server.replicate_from(&master.ip().to_string(), master.port());
        }
        server.begin_with(all);
        Self { master, replica, id, lag, changes: VecDeque::new(), confirmations: VecDeque::new() }
    }

    /// Carries on what is due. Returns false once the link is of no more use.
    pub(super) fn carry(&mut self, network: &mut Network) -> bool {
        let now = network.now();
        let is_known = |network: &mut Network, link: &Self| {
            network.host(link.master).server.has_replica(link.id)
        };
        if !is_known(network, self) || !self.is_followed(network) {
            network.host(self.replica).server.set_link(State::Down);
            // Or the master would keep its changes for ever.
            network.host(self.master).server.detach_replica(self.id);
            return false;
        }
        if acts(network, self.master) {
            let changes = network.host(self.master).server.take_changes(self.id);
            self.changes.extend(changes.into_iter().map(|change| (now + self.lag, change)));
        }
        if acts(network, self.replica) {
            let server = &mut network.host(self.replica).server;
            while let Some(change) = due(&mut self.changes, now) {
                server.apply(change);
                self.confirmations.push_back((now + LATENCY, server.offset()));
            }
        }
        if acts(network, self.master) {
            while let Some(offset) = due(&mut self.confirmations, now) {
                network.host(self.master).server.acknowledge(self.id, offset);
            }
        }
        true
    }

    /// Returns true if the replica still takes this master's changes.
    fn is_followed(&self, network: &mut Network) -> bool {
        match network.host(self.replica).server.role() {
            Role::Replica(of) => of.host == self.master.ip().to_string() && of.link == State::Up,
            Role::Master => false,
        }
    }
}

/// Takes the first, if its time has come.
fn due<T>(queue: &mut VecDeque<(Micros, T)>, now: Micros) -> Option<T> {
    queue.front().filter(|(at, _)| *at <= now)?;
    queue.pop_front().map(|(_, first)| first)
}
