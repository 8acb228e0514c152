//! What a server has forgotten that started again without its keys, and which processes know that it
//! had ended: their connections to it have.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::{Condition, Connection, ConnectionId, Host, Micros, Network, ProcessId};

/// A server that has ended.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// The first tokens of what it had granted, by lock.
    granted: BTreeMap<String, BTreeSet<u64>>,
    /// The connections that it had, and whose end their processes have not seen.
    unseen: BTreeMap<ProcessId, BTreeSet<ConnectionId>>,
    /// When a process had seen the end of all of them.
    seen: BTreeMap<ProcessId, Micros>,
}

impl Network {
    /// The server ends, and with it all its connections. It accepts none until it is up again.
    pub fn stop(&mut self, address: SocketAddr) {
        let host = self.host(address);
        host.condition = Condition::Down;
        let mut ended = Ended { granted: host.server.granted(), ..Ended::default() };
        let of_host = |(id, it): (&ConnectionId, &Connection)| {
            (it.host == address).then_some((*id, it.process))
        };
        let connections: Vec<_> = self.connections.iter().filter_map(of_host).collect();
        for (id, process) in connections {
            ended.unseen.entry(process).or_default().insert(id);
            self.break_off(id);
        }
        self.ended.insert(address, ended);
    }

    /// A server that has ended starts again, with the keys that it had or without.
    pub fn restart(&mut self, address: SocketAddr, keeps_keys: bool) {
        let now = self.now;
        self.host(address).restart(keeps_keys, now);
        if keeps_keys {
            self.ended.remove(&address);
        }
    }

    /// A process sees the end of a connection, or has ended it.
    pub(super) fn see_end(&mut self, id: ConnectionId, at: Micros) {
        for ended in self.ended.values_mut() {
            ended.unseen.retain(|process, unseen| {
                if unseen.remove(&id) && unseen.is_empty() {
                    ended.seen.insert(*process, at);
                }
                !unseen.is_empty()
            });
        }
    }

    /// When a process had seen that a server has ended which had granted a lock, and is back without its keys or
    /// not at all.
    pub(crate) fn seen_end(&self, process: ProcessId, lock: &str) -> Option<Micros> {
        let granted = self.ended.values().filter(|it| it.granted.contains_key(lock));
        granted.filter_map(|it| it.seen.get(&process).copied()).max()
    }

    /// True if a process has seen that the server has ended which granted a token, and no server that is up knows
    /// that grant.
    pub(crate) fn knows_of_loss(
        &self,
        process: ProcessId,
        lock: &str,
        token: u64,
        now: Micros,
    ) -> bool {
        let has_seen = self.ended.iter().any(|(address, ended)| {
            let first = self.hosts[address].server.first_token(lock, token);
            let of_lock = ended.granted.get(lock);
            let is_of_it = first.is_some_and(|it| of_lock.is_some_and(|of| of.contains(&it)));
            is_of_it && ended.seen.contains_key(&process)
        });
        let is_up = |host: &Host| host.condition != Condition::Down;
        has_seen && self.lasts_where(is_up, now, lock, token).is_none()
    }
}
