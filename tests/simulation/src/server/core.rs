//! What the commands of all connections share: the databases, the channels, and the server's
//! condition.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use super::cluster::{Call, Cluster};
use super::command::{self, Access, Context};
use super::command_keys;
use super::journal::Journal;
use super::keyspace::Keyspace;
use super::replication::{Link, Role};
use super::reply::Reply;
use super::session::SessionId;

/// A channel: of the whole server, or of a slot of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Channel {
    pub is_sharded: bool,
    pub name: Vec<u8>,
}

/// A message on its way to a connection that subscribed to its channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    pub to: SessionId,
    pub channel: Channel,
    pub message: Vec<u8>,
}

/// What keeps a server from its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Work {
    #[default]
    None,
    /// It still reads its data from disk.
    Loads,
    /// A script of somebody else runs for too long.
    Busy,
}

/// Why the server refuses commands, if it does.
#[derive(Clone, Debug, Default)]
pub struct Condition {
    /// Its memory is full.
    pub is_full: bool,
    /// It has become a replica by mistake, of a server that does not exist.
    pub is_replica: bool,
    pub work: Work,
    /// Commands that the user may not call, in capitals.
    pub forbidden: BTreeSet<String>,
    /// How often somebody wanted to.
    pub refusals: Cell<u64>,
}

#[derive(Debug, Default)]
pub struct Core {
    pub databases: BTreeMap<u8, Keyspace>,
    pub subscriptions: BTreeMap<Channel, BTreeSet<SessionId>>,
    /// Messages that were published and not yet written.
    pub deliveries: Vec<Delivery>,
    pub condition: Condition,
    pub role: Role,
    pub journal: Journal,
    /// `None` of a server that is no node of a cluster.
    pub cluster: Option<Cluster>,
    /// What is known of the command that runs.
    pub(super) call: Call,
    /// The server's clock. It stands still during a command, and during a script.
    pub now_us: i64,
}

/// The slots of a script's keys, on a node of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slots {
    #[default]
    One,
    Any,
}

/// What a script may do, and has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Script {
    pub may_write: bool,
    /// It may write when memory is full.
    pub allows_full: bool,
    pub has_written: bool,
    pub slots: Slots,
}

impl Core {
    /// The state after a restart, with the keys that it had or without.
    pub(super) fn restart(&mut self, keeps_keys: bool, now_us: i64) {
        let databases =
            if keeps_keys { std::mem::take(&mut self.databases) } else { BTreeMap::new() };
        let mut role = std::mem::take(&mut self.role);
        if let Role::Replica(upstream) = &mut role {
            upstream.link = Link::Down;
        }
        let mut journal = std::mem::take(&mut self.journal);
        journal.detach_all();
        let cluster = self.cluster.take();
        *self = Self { databases, role, journal, cluster, now_us, ..Self::default() };
    }

    /// Returns true if it takes no writes of its clients.
    #[must_use]
    pub fn is_replica(&self) -> bool {
        self.condition.is_replica || self.role != Role::Master
    }

    /// Runs a command on data, or publishes. `None` if there is no such command.
    pub fn execute(
        &mut self,
        database: u8,
        args: &[Vec<u8>],
        script: Option<&mut Script>,
    ) -> Option<Reply> {
        let name = args.first()?;
        let slots = script.as_ref().map(|script| script.slots);
        for (name_of, is_sharded) in [("PUBLISH", false), ("SPUBLISH", true)] {
            if command::is(name, name_of) {
                if let Some(Err(refusal)) =
                    slots.map(|slots| self.keep_in_slot(name_of, args, slots))
                {
                    return Some(refusal);
                }
                return Some(self.publish(name_of, is_sharded, args, script.is_some()));
            }
        }
        let command = command::find(name)?;
        if let Err(error) = command.check(args) {
            return Some(match script {
                // Scripts get a text of their own.
                Some(_) => {
                    Reply::error("ERR Wrong number of args calling Redis command from script")
                }
                None => error,
            });
        }
        if let Err(refusal) = self.allow(command.name, command.access, script) {
            return Some(refusal);
        }
        if let Some(Err(refusal)) = slots.map(|slots| self.keep_in_slot(command.name, args, slots))
        {
            return Some(refusal);
        }
        let keyspace = self.databases.entry(database).or_default();
        keyspace.only_hides_expired(self.role != Role::Master);
        let reply = command.run(&mut Context { keyspace, now_us: self.now_us }, args);
        if command.name == "FLUSHALL" {
            self.journal.clear(database);
        } else if has_changed(command.access, &reply) {
            for key in command_keys::keys(command.name, args) {
                self.journal.touch(database, key);
            }
        }
        Some(reply)
    }

    /// Deletes all keys.
    pub(super) fn flush(&mut self) {
        for (database, keyspace) in &mut self.databases {
            keyspace.clear();
            self.journal.clear(*database);
        }
        self.commit();
    }

    /// Ends a command or a script: notes its changes for the replicas.
    pub(super) fn commit(&mut self) {
        for (database, keyspace) in &mut self.databases {
            for key in keyspace.take_expired() {
                self.journal.touch(*database, &key);
            }
        }
        if self.role != Role::Master {
            self.journal.discard();
            return;
        }
        let databases = &self.databases;
        self.journal.commit(|database, key| databases.get(&database)?.stored(key).cloned());
    }

    /// Deletes the keys that have expired, as a master does in the background.
    pub(super) fn expire(&mut self) {
        if self.role == Role::Master {
            let now_ms = self.now_us.div_euclid(1000);
            self.databases.values_mut().for_each(|it| it.expire(now_ms));
            self.commit();
        }
    }

    fn publish(
        &mut self,
        name: &str,
        is_sharded: bool,
        args: &[Vec<u8>],
        in_script: bool,
    ) -> Reply {
        if let Err(error) = command::check_arity(name, 3, args) {
            return error;
        }
        if let Err(refusal) = self.allow_name(name, in_script) {
            return refusal;
        }
        let channel = Channel { is_sharded, name: args[1].clone() };
        self.journal.publish(&channel, &args[2]);
        Reply::count(self.deliver(&channel, &args[2]))
    }

    /// Hands a message to those that have subscribed here, and returns how many they are.
    pub(super) fn deliver(&mut self, channel: &Channel, message: &[u8]) -> usize {
        let listeners = self.subscriptions.get(channel).into_iter().flatten();
        let before = self.deliveries.len();
        self.deliveries.extend(listeners.map(|to| Delivery {
            to: *to,
            channel: channel.clone(),
            message: message.to_vec(),
        }));
        self.deliveries.len() - before
    }

    /// Refuses a command that the user may not call.
    pub fn allow_name(&self, name: &str, in_script: bool) -> Result<(), Reply> {
        if !self.condition.forbidden.contains(name) {
            return Ok(());
        }
        self.condition.refusals.update(|count| count + 1);
        let name = name.to_lowercase();
        let text = format!("User default has no permissions to run the '{name}' command");
        // A script's error has the code of every error in Lua.
        Err(Reply::Error(if in_script {
            format!("ERR ACL failure in script: {text}")
        } else {
            format!("NOPERM {text}")
        }))
    }

    fn allow(&self, name: &str, access: Access, script: Option<&mut Script>) -> Result<(), Reply> {
        let condition = &self.condition;
        self.allow_name(name, script.is_some())?;
        if condition.work == Work::Loads {
            return Err(Reply::error("LOADING Redis is loading the dataset in memory"));
        }
        if access == Access::Reads {
            return Ok(());
        }
        if script.as_ref().is_some_and(|script| !script.may_write) {
            let text = "ERR Write commands are not allowed from read-only scripts.";
            return Err(Reply::error(text));
        }
        if self.is_replica() {
            return Err(read_only());
        }
        // What a script has begun, it may end.
        let may_go_on = script.as_ref().is_some_and(|it| it.allows_full || it.has_written);
        if condition.is_full && access == Access::Grows && !may_go_on {
            return Err(full());
        }
        if let Some(script) = script {
            script.has_written = true;
        }
        Ok(())
    }
}

pub(super) fn read_only() -> Reply {
    Reply::error("READONLY You can't write against a read only replica.")
}

pub(super) fn full() -> Reply {
    Reply::error("OOM command not allowed when used memory > 'maxmemory'.")
}

/// Returns true if a command with this answer has changed something.
fn has_changed(access: Access, reply: &Reply) -> bool {
    match (access, reply) {
        (Access::Reads, _) | (_, Reply::Nil | Reply::Error(_)) => false,
        (Access::Writes, Reply::Int(count)) => *count != 0,
        _ => true,
    }
}
