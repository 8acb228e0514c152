//! The owner of a slot, and how a slot moves.

use redis::aio::MultiplexedConnection;

use super::{Cluster, command, id};
use crate::server::Server;
use crate::waiting::{until, until_some};

impl Cluster {
    /// The slot of a lock's name.
    ///
    /// # Panics
    ///
    /// If the first node can't be asked.
    pub async fn slot(&self, name: &str) -> u16 {
        let mut redis = self.nodes[0].redis().await;
        let key = format!("{{{name}}}");
        let mut command = redis::cmd("CLUSTER");
        command.arg("KEYSLOT").arg(key).query_async(&mut redis).await.expect("a slot")
    }

    /// The master of a slot, according to itself. `None` while there is none.
    pub async fn master_of(&self, slot: u16) -> Option<&Server> {
        for node in &self.nodes {
            if owner(node, slot).await.is_some_and(|owner| owner.is_itself) {
                return Some(node);
            }
        }
        None
    }

    /// The master of a slot, as soon as there is one.
    ///
    /// # Panics
    ///
    /// If that does not come about.
    pub async fn until_master_of(&self, slot: u16) -> &Server {
        until_some("the slot has a master", async || self.master_of(slot).await).await
    }

    /// Waits until another than `former` is the master of a slot.
    ///
    /// # Panics
    ///
    /// If that does not come about.
    pub async fn until_taken_over(&self, slot: u16, former: &Server) -> &Server {
        until_some("a replica takes over", async || {
            self.master_of(slot).await.filter(|master| master.port() != former.port())
        })
        .await
    }

    /// Moves the keys of a slot to another master, but not the slot. Its master redirects requests
    /// for those keys.
    ///
    /// # Panics
    ///
    /// If a node refuses.
    pub async fn begin_to_migrate(&self, slot: u16, to: &Server) {
        let from = self.until_master_of(slot).await;
        let (mut source, mut target) = (from.redis().await, to.redis().await);
        let (text, ids) = (slot.to_string(), [id(from).await, id(to).await]);
        command(&mut target, &["SETSLOT", &text, "IMPORTING", &ids[0]], &[]).await;
        command(&mut source, &["SETSLOT", &text, "MIGRATING", &ids[1]], &[]).await;
        while move_keys(&mut source, slot, to.port()).await {}
    }

    /// Moves a slot and all its keys to a master, under whatever load there is.
    ///
    /// # Panics
    ///
    /// If a node refuses.
    pub async fn migrate(&self, slot: u16, to: &Server) {
        let from = self.until_master_of(slot).await;
        if from.port() == to.port() {
            return;
        }
        self.begin_to_migrate(slot, to).await;
        // The new owner is told first, or the slot would have no owner meanwhile.
        for node in [to, from] {
            let slot = slot.to_string();
            command(&mut node.redis().await, &["SETSLOT", &slot, "NODE", &id(to).await], &[]).await;
        }
        // Waits until the other nodes know, because clients ask any of them.
        let new = id(to).await;
        for node in &self.nodes {
            until("a node has heard of it", async || {
                owner(node, slot).await.is_none_or(|owner| owner.id == new)
            })
            .await;
        }
    }
}

/// Moves some keys of a slot. False if there were none. It moves few at a time, so that the keys of
/// a lock are on two nodes for a while.
async fn move_keys(source: &mut MultiplexedConnection, slot: u16, port: u16) -> bool {
    let mut some = redis::cmd("CLUSTER");
    some.arg("GETKEYSINSLOT").arg(slot).arg(2);
    let keys: Vec<String> = some.query_async(source).await.expect("the keys");
    if keys.is_empty() {
        return false;
    }
    let mut migrate = redis::cmd("MIGRATE");
    migrate.arg("127.0.0.1").arg(port).arg("").arg(0).arg(5_000).arg("KEYS").arg(&keys);
    // A key that expired meanwhile is no error: the answer is NOKEY.
    let moved: String = migrate.query_async(source).await.expect("the keys are moved");
    assert!(moved == "OK" || moved == "NOKEY", "{moved}");
    true
}

/// The master of a slot, as a node knows it.
pub(super) struct Owner {
    pub(super) id: String,
    /// True if it is the node itself.
    is_itself: bool,
}

/// `None` if the node does not answer, or knows of no owner.
pub(super) async fn owner(node: &Server, slot: u16) -> Option<Owner> {
    let mut redis = node.try_redis().await.ok()?;
    let nodes: String = redis::cmd("CLUSTER").arg("NODES").query_async(&mut redis).await.ok()?;
    nodes.lines().find_map(|line| {
        // The fields are id, address, flags, master, two times, epoch, link, and slots.
        let fields: Vec<_> = line.split(' ').collect();
        fields.iter().skip(8).find(|range| is_in(slot, range))?;
        Some(Owner { id: fields[0].to_owned(), is_itself: fields[2].contains("myself") })
    })
}

/// True if a slot is in a range such as `17` or `0-5460`. A migrating slot is in brackets, beside
/// the range that it is in.
fn is_in(slot: u16, range: &str) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    first.parse().is_ok_and(|first: u16| first <= slot)
        && last.parse().is_ok_and(|last: u16| slot <= last)
}
