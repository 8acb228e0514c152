//! How slots go from one node to another: what the world does to the nodes, step by step.

use super::super::Server;
use super::super::core::Channel;
use super::super::keyspace::Value;
use super::super::replication::{Link, Role};
use super::super::{Settings, pubsub};
use super::{Cluster, Node, NodeNumber, View, slot_of};

/// A key on its way to another node. The rest of its time travels, not its end: the nodes' clocks
/// may differ.
#[derive(Clone, Debug)]
pub struct Parcel {
    pub key: Vec<u8>,
    value: Value,
    left_ms: Option<i64>,
}

impl Server {
    /// Starts a node of a cluster.
    #[must_use]
    pub fn start_node(settings: Settings, now_us: i64, own: NodeNumber, view: View) -> Self {
        let server = Self::new(settings, now_us);
        let mut core = server.core.borrow_mut();
        let Node { master, .. } = view.nodes[own];
        if let Some(master) = master {
            core.role = upstream(&view.nodes[master]);
        }
        core.cluster = Some(Cluster::new(own, view));
        drop(core);
        server
    }

    /// What it knows of its cluster.
    ///
    /// # Panics
    ///
    /// If it is no node of a cluster.
    #[must_use]
    pub fn view(&self) -> View {
        self.in_cluster(|cluster| cluster.view.clone())
    }

    /// It can reach too few of the other masters, and takes no commands on keys; or enough again.
    pub fn set_cut_off(&mut self, is_cut_off: bool) {
        self.in_cluster(|cluster| cluster.is_cut_off = is_cut_off);
    }

    /// It hears of a later view, and believes it. It ends the subscriptions in slots that it has
    /// lost, and deletes the keys that are left in them; and it becomes a master or a replica if
    /// it has to.
    pub fn hear(&mut self, view: &View) {
        let (before, own) = self.in_cluster(|cluster| (cluster.view.clone(), cluster.own));
        if view.epoch <= before.epoch {
            return;
        }
        let shard = self.in_cluster(|cluster| {
            let shard = cluster.shard();
            cluster.set_view(view.clone());
            cluster.migrating.retain(|slot, _| view.owner(*slot) == Some(own));
            cluster.importing.retain(|slot, _| view.owner(*slot) != Some(own));
            shard
        });
        let follows = view.nodes[own].master;
        match (follows, self.role()) {
            (None, Role::Replica(_)) => self.promote(),
            (Some(master), role) => {
                let Node { host, port, .. } = &view.nodes[master];
                let is_new =
                    !matches!(role, Role::Replica(it) if it.host == *host && it.port == *port);
                if is_new {
                    self.replicate_from(host, *port);
                }
            }
            (None, Role::Master) => {}
        }
        // One that takes its master's place keeps them.
        let is_lost = |slot: u16| {
            let owner = view.owner(slot);
            before.owner(slot) == Some(shard) && owner != Some(shard) && owner != Some(own)
        };
        self.end_subscriptions(is_lost);
        if follows.is_none() {
            self.delete_keys(is_lost);
        }
    }

    /// `CLUSTER SETSLOT … MIGRATING`: the slot is on its way to another node.
    pub fn set_migrating(&mut self, slot: u16, to: NodeNumber) {
        self.in_cluster(|cluster| cluster.migrating.insert(slot, to));
    }

    /// `CLUSTER SETSLOT … IMPORTING`: the slot comes from another node.
    pub fn set_importing(&mut self, slot: u16, from: NodeNumber) {
        self.in_cluster(|cluster| cluster.importing.insert(slot, from));
    }

    /// `CLUSTER SETSLOT … STABLE`: neither of both.
    pub fn set_stable(&mut self, slot: u16) {
        self.in_cluster(|cluster| {
            cluster.migrating.remove(&slot);
            cluster.importing.remove(&slot);
        });
    }

    /// `CLUSTER SETSLOT … NODE`: the slot has another owner from now on, as far as this node knows.
    pub fn set_owner(&mut self, slot: u16, owner: NodeNumber) {
        let mut view = self.view();
        if view.owner(slot) != Some(owner) {
            view.give(slot..=slot, Some(owner));
            self.hear(&view);
        }
        self.set_stable(slot);
    }

    /// The keys of a slot, in their order.
    #[must_use]
    pub fn keys_in(&self, slot: u16) -> Vec<Vec<u8>> {
        let core = self.core.borrow();
        let keys = core.databases.get(&0).into_iter().flat_map(|it| it.live(core.now_us / 1000));
        keys.map(|(key, _)| key.to_vec()).filter(|key| slot_of(key) == slot).collect()
    }

    /// The first step of `MIGRATE`: what is sent of a key. `None` if it is not there.
    #[must_use]
    pub fn pack(&self, key: &[u8]) -> Option<Parcel> {
        let core = self.core.borrow();
        let (entry, now_ms) = (core.databases.get(&0)?.stored(key)?, core.now_us.div_euclid(1000));
        if entry.expires_ms.is_some_and(|at| at < now_ms) {
            return None;
        }
        let left_ms = entry.expires_ms.map(|at| (at - now_ms).max(1));
        Some(Parcel { key: key.to_vec(), value: entry.value.clone(), left_ms })
    }

    /// The second step, on the other node. Returns false if it has such a key.
    #[must_use]
    pub fn unpack(&mut self, parcel: Parcel) -> bool {
        let core = &mut *self.core.borrow_mut();
        let now_ms = core.now_us.div_euclid(1000);
        let keyspace = core.databases.entry(0).or_default();
        if keyspace.get(&parcel.key, now_ms).is_some() {
            return false;
        }
        keyspace.set(&parcel.key, parcel.value, parcel.left_ms.map(|left| now_ms + left));
        core.journal.touch(0, &parcel.key);
        core.commit();
        true
    }

    /// The last step: the key is gone here.
    pub fn remove(&mut self, key: &[u8]) {
        let core = &mut *self.core.borrow_mut();
        if core.databases.entry(0).or_default().delete(key) {
            core.journal.touch(0, key);
        }
        core.commit();
    }

    fn end_subscriptions(&mut self, is_lost: impl Fn(u16) -> bool) {
        let is_lost = |it: &Channel| it.is_sharded && is_lost(slot_of(&it.name));
        let ended: Vec<_> = {
            let subscriptions = &self.core.borrow().subscriptions;
            let lost = subscriptions.iter().filter(|(channel, _)| is_lost(channel));
            lost.map(|(channel, of)| (channel.clone(), of.clone())).collect()
        };
        for (channel, sessions) in ended {
            for session in sessions {
                pubsub::end(self, session, &channel);
            }
        }
    }

    fn delete_keys(&mut self, is_lost: impl Fn(u16) -> bool) {
        let lost: Vec<_> = {
            let core = self.core.borrow();
            let keys = core.databases.get(&0).into_iter().flat_map(|it| it.live(i64::MIN));
            keys.map(|(key, _)| key.to_vec()).filter(|key| is_lost(slot_of(key))).collect()
        };
        for key in lost {
            self.remove(&key);
        }
    }

    fn in_cluster<T>(&self, call: impl FnOnce(&mut Cluster) -> T) -> T {
        call(self.core.borrow_mut().cluster.as_mut().expect("it is a node of a cluster"))
    }
}

fn upstream(Node { host, port, .. }: &Node) -> Role {
    let upstream =
        super::super::replication::Upstream { host: host.clone(), port: *port, link: Link::Down };
    Role::Replica(upstream)
}
