//! A node of a cluster: which slots it takes for whose, and where it sends a command on to.

mod commands;
mod migration;
mod slots;
mod view;

use std::collections::BTreeMap;

pub(super) use self::commands::run;
pub use self::migration::Parcel;
pub use self::slots::{COUNT, slot_of};
pub use self::view::{Node, NodeNumber, View};
use super::command;
use super::command_keys;
use super::core::{Core, Slots};
use super::reply::Reply;

/// What a node knows of its cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub own: NodeNumber,
    view: View,
    /// Each slot has an owner that is alive.
    is_complete: bool,
    /// Too few other masters can be reached.
    pub is_cut_off: bool,
    /// Where its own slots are on their way to, and where others come from.
    migrating: BTreeMap<u16, NodeNumber>,
    importing: BTreeMap<u16, NodeNumber>,
}

/// Why a node does not run a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    CrossSlot,
    TryAgain,
    Down,
    NotServed,
    Moved(u16, NodeNumber),
    Ask(u16, NodeNumber),
}

impl Cluster {
    #[must_use]
    pub fn new(own: NodeNumber, view: View) -> Self {
        let (migrating, importing) = (BTreeMap::new(), BTreeMap::new());
        let is_complete = view.is_complete();
        Self { own, view, is_complete, is_cut_off: false, migrating, importing }
    }

    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    fn set_view(&mut self, view: View) {
        self.is_complete = view.is_complete();
        self.view = view;
    }

    /// Returns true if a slot is on its way to or from it.
    #[must_use]
    pub fn has_moving_slot(&self) -> bool {
        !self.migrating.is_empty() || !self.importing.is_empty()
    }

    fn is_up(&self) -> bool {
        !self.is_cut_off && self.is_complete
    }

    /// The node whose data it has: itself, or its master.
    fn shard(&self) -> NodeNumber {
        self.view.nodes[self.own].master.unwrap_or(self.own)
    }

    /// Says whether this node runs a command on these keys, and returns their slot if there are any.
    fn route(
        &self,
        keys: &[&[u8]],
        is_sharded: bool,
        is_asking: bool,
        mut has: impl FnMut(&[u8]) -> bool,
    ) -> Result<Option<u16>, Refusal> {
        let Some(first) = keys.first() else { return Ok(None) };
        let slot = slot_of(first);
        let owner = self.view.owner(slot).ok_or(Refusal::NotServed)?;
        if keys.iter().any(|key| slot_of(key) != slot) {
            return Err(Refusal::CrossSlot);
        }
        if !is_sharded && !self.is_up() {
            return Err(Refusal::Down);
        }
        let is_own = owner == self.own;
        let target = self.migrating.get(&slot).filter(|_| is_own);
        let is_importing = !is_own && self.importing.contains_key(&slot);
        let is_open = (target.is_some() || is_importing) && !is_sharded;
        let missing = if is_open { keys.iter().filter(|key| !has(key)).count() } else { 0 };
        if let Some(target) = target.filter(|_| missing > 0) {
            let has_some = missing < keys.len();
            return Err(if has_some { Refusal::TryAgain } else { Refusal::Ask(slot, *target) });
        }
        if is_importing && is_asking {
            let are_several = keys.iter().any(|key| key != first);
            return if are_several && missing > 0 {
                Err(Refusal::TryAgain)
            } else {
                Ok(Some(slot))
            };
        }
        // A replica has its master's channels.
        if is_own || is_sharded && self.shard() == owner {
            return Ok(Some(slot));
        }
        Err(Refusal::Moved(slot, owner))
    }

    fn refuse(&self, refusal: Refusal) -> Reply {
        let to = |code: &str, slot: u16, node: NodeNumber| {
            let Node { host, port, .. } = &self.view.nodes[node];
            format!("{code} {slot} {host}:{port}")
        };
        Reply::Error(match refusal {
            Refusal::CrossSlot => {
                "CROSSSLOT Keys in request don't hash to the same slot".to_owned()
            }
            Refusal::TryAgain => {
                "TRYAGAIN Multiple keys request during rehashing of slot".to_owned()
            }
            Refusal::Down => "CLUSTERDOWN The cluster is down".to_owned(),
            Refusal::NotServed => "CLUSTERDOWN Hash slot not served".to_owned(),
            Refusal::Moved(slot, node) => to("MOVED", slot, node),
            Refusal::Ask(slot, node) => to("ASK", slot, node),
        })
    }
}

/// The command that a node runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call {
    /// `ASKING` came before it.
    pub is_asking: bool,
    /// The slot of its keys.
    slot: Option<u16>,
}

impl Core {
    /// Sends a client to another node, if this one does not run its command.
    pub(super) fn redirect(
        &mut self,
        name: &str,
        args: &[Vec<u8>],
        is_asking: bool,
    ) -> Option<Reply> {
        self.call = Call { is_asking, slot: None };
        match self.route(name, args) {
            Ok(slot) => {
                self.call.slot = slot;
                None
            }
            Err(refusal) => Some(self.cluster.as_ref()?.refuse(refusal)),
        }
    }

    /// Refuses a script's command on keys that are not here, or on those of several slots.
    pub(super) fn keep_in_slot(
        &mut self,
        name: &str,
        args: &[Vec<u8>],
        slots: Slots,
    ) -> Result<(), Reply> {
        let several = "ERR Script attempted to access keys that do not hash to the same slot";
        let slot = self.route(name, args).map_err(|refusal| {
            Reply::error(match refusal {
                Refusal::Down => {
                    "ERR Script attempted to execute a command while the cluster is down"
                }
                Refusal::CrossSlot => several,
                _ => "ERR Script attempted to access a non local key in a cluster node",
            })
        })?;
        if let Some(slot) = slot.filter(|_| slots == Slots::One)
            && *self.call.slot.get_or_insert(slot) != slot
        {
            return Err(Reply::error(several));
        }
        Ok(())
    }

    fn route(&mut self, name: &str, args: &[Vec<u8>]) -> Result<Option<u16>, Refusal> {
        let Some(cluster) = &self.cluster else { return Ok(None) };
        if command::find(name.as_bytes()).is_some_and(|it| it.check(args).is_err()) {
            return Ok(None);
        }
        let keys = command_keys::keys(name, args);
        let is_sharded = matches!(name, "SPUBLISH" | "SSUBSCRIBE" | "SUNSUBSCRIBE");
        let (databases, now_ms) = (&self.databases, self.now_us.div_euclid(1000));
        let has = |key: &[u8]| {
            let entry = databases.get(&0).and_then(|keys| keys.stored(key));
            entry.is_some_and(|it| it.expires_ms.is_none_or(|at| at >= now_ms))
        };
        cluster.route(&keys, is_sharded, self.call.is_asking, has)
    }
}
