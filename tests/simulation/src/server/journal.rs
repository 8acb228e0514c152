//! What the commands of a master have changed, for its replicas.
//!
//! A real server sends the commands that have this effect. Here it is the effect itself: a key's
//! new value and the absolute end of its time, or that it is gone. Offsets count effects, not bytes.

use std::collections::{BTreeMap, BTreeSet};

use super::core::Channel;
use super::keyspace::Entry;

/// The number of a replica, of this master.
pub type ReplicaId = u64;

/// One effect of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Clear { database: u8 },
    Set { database: u8, key: Vec<u8>, entry: Entry },
    Delete { database: u8, key: Vec<u8> },
    Publish { channel: Channel, message: Vec<u8> },
}

/// The effects of one command, or of one script. A replica applies all of them at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The master's offset after it.
    pub offset: u64,
    pub effects: Vec<Effect>,
}

/// A replica, as its master knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Follower {
    pub host: String,
    pub port: u16,
    /// Up to where it has confirmed the changes, and when it did: microseconds of the master's
    /// clock.
    pub acknowledged: u64,
    pub acknowledged_us: i64,
    /// The changes that are not on their way yet.
    unsent: Vec<Change>,
}

/// The changes of a server.
#[derive(Debug, Default)]
pub struct Journal {
    /// A server without a replica counts nothing, until it has had one.
    is_kept: bool,
    offset: u64,
    followers: BTreeMap<ReplicaId, Follower>,
    /// Up to where some replica, there or not, has confirmed the changes.
    confirmed: u64,
    next_replica: ReplicaId,
    /// What the running command has changed.
    cleared: BTreeSet<u8>,
    touched: BTreeSet<(u8, Vec<u8>)>,
    published: Vec<Effect>,
}

impl Journal {
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    #[must_use]
    pub fn followers(&self) -> &BTreeMap<ReplicaId, Follower> {
        &self.followers
    }

    /// Up to where a replica has confirmed the changes.
    #[must_use]
    pub fn most_confirmed(&self) -> u64 {
        self.confirmed
    }

    /// How many replicas have confirmed the changes up to there.
    #[must_use]
    pub fn confirmed(&self, offset: u64) -> usize {
        self.followers.values().filter(|it| it.acknowledged >= offset).count()
    }

    /// Returns true if the command that runs has changed something.
    #[must_use]
    pub fn has_effect(&self) -> bool {
        !(self.cleared.is_empty() && self.touched.is_empty() && self.published.is_empty())
    }

    pub(super) fn touch(&mut self, database: u8, key: &[u8]) {
        self.touched.insert((database, key.to_vec()));
    }

    pub(super) fn clear(&mut self, database: u8) {
        self.cleared.insert(database);
    }

    pub(super) fn publish(&mut self, channel: &Channel, message: &[u8]) {
        let (channel, message) = (channel.clone(), message.to_vec());
        self.published.push(Effect::Publish { channel, message });
    }

    /// Ends a command: its changes are those of the keys that it has touched.
    pub(super) fn commit(&mut self, entry: impl Fn(u8, &[u8]) -> Option<Entry>) {
        let cleared = std::mem::take(&mut self.cleared).into_iter();
        let touched = std::mem::take(&mut self.touched).into_iter();
        let published = std::mem::take(&mut self.published);
        if !self.is_kept {
            return;
        }
        let change_of = |(database, key): (u8, Vec<u8>)| match entry(database, &key) {
            Some(entry) => Effect::Set { database, key, entry },
            None => Effect::Delete { database, key },
        };
        let cleared = cleared.map(|database| Effect::Clear { database });
        let effects: Vec<_> = cleared.chain(touched.map(change_of)).chain(published).collect();
        if effects.is_empty() {
            return;
        }
        self.offset += effects.len() as u64;
        let change = Change { offset: self.offset, effects };
        for follower in self.followers.values_mut() {
            follower.unsent.push(change.clone());
        }
    }

    /// Forgets what a command of a replica has done: no other server follows it.
    pub(super) fn discard(&mut self) {
        self.cleared.clear();
        self.touched.clear();
        self.published.clear();
    }

    pub(super) fn attach(&mut self, host: &str, port: u16, now_us: i64) -> ReplicaId {
        self.is_kept = true;
        self.next_replica += 1;
        let follower = Follower {
            host: host.to_owned(),
            port,
            acknowledged: self.offset,
            acknowledged_us: now_us,
            unsent: Vec::new(),
        };
        self.followers.insert(self.next_replica, follower);
        self.confirmed = self.confirmed.max(self.offset);
        self.next_replica
    }

    pub(super) fn detach(&mut self, replica: ReplicaId) {
        self.followers.remove(&replica);
    }

    pub(super) fn detach_all(&mut self) {
        self.followers.clear();
    }

    pub(super) fn acknowledge(&mut self, replica: ReplicaId, offset: u64, now_us: i64) {
        if let Some(follower) = self.followers.get_mut(&replica) {
            follower.acknowledged = follower.acknowledged.max(offset);
            follower.acknowledged_us = now_us;
            self.confirmed = self.confirmed.max(offset);
        }
    }

    pub(super) fn take(&mut self, replica: ReplicaId) -> Vec<Change> {
        let follower = self.followers.get_mut(&replica);
        follower.map(|it| std::mem::take(&mut it.unsent)).unwrap_or_default()
    }

    /// A replica counts as its master does.
    pub(super) fn follow(&mut self, offset: u64) {
        self.is_kept = true;
        self.offset = offset;
    }
}
