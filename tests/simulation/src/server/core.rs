//! What the commands of all connections share: the databases, the channels, and the server's
//! condition.

use std::collections::{BTreeMap, BTreeSet};

use super::command::{self, Access, Context};
use super::keyspace::Keyspace;
use super::reply::Reply;
use super::session::SessionId;

/// A message on its way to a connection that subscribed to its channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    pub to: SessionId,
    pub channel: Vec<u8>,
    pub message: Vec<u8>,
}

/// Why the server refuses commands, if it does.
#[derive(Clone, Debug, Default)]
pub struct Condition {
    /// Its memory is full.
    pub is_full: bool,
    /// It is a replica.
    pub is_replica: bool,
    /// It still reads its data from disk.
    pub is_loading: bool,
    /// Commands that the user may not call, in capitals.
    pub forbidden: BTreeSet<String>,
}

#[derive(Debug, Default)]
pub struct Core {
    pub databases: BTreeMap<u8, Keyspace>,
    pub subscriptions: BTreeMap<Vec<u8>, BTreeSet<SessionId>>,
    /// Messages that were published and not yet written.
    pub deliveries: Vec<Delivery>,
    pub condition: Condition,
    /// The server's clock. It stands still during a command, and during a script.
    pub now_us: i64,
}

/// What a script may do, and has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Script {
    pub may_write: bool,
    /// It may write when memory is full.
    pub allows_full: bool,
    pub has_written: bool,
}

impl Core {
    /// Runs a command on data, or publishes. `None` if there is no such command.
    pub fn execute(
        &mut self,
        database: u8,
        args: &[Vec<u8>],
        script: Option<&mut Script>,
    ) -> Option<Reply> {
        let name = args.first()?;
        if command::is(name, "PUBLISH") || command::is(name, "SPUBLISH") {
            return Some(self.publish(args, script.is_some()));
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
        let keyspace = self.databases.entry(database).or_default();
        Some(command.run(&mut Context { keyspace, now_us: self.now_us }, args))
    }

    fn publish(&mut self, args: &[Vec<u8>], in_script: bool) -> Reply {
        if let Err(error) = command::check_arity("publish", 3, args) {
            return error;
        }
        if let Err(refusal) = self.allow_name("PUBLISH", in_script) {
            return refusal;
        }
        let (channel, message) = (&args[1], &args[2]);
        let listeners = self.subscriptions.get(channel).into_iter().flatten();
        let before = self.deliveries.len();
        self.deliveries.extend(listeners.map(|to| Delivery {
            to: *to,
            channel: channel.clone(),
            message: message.clone(),
        }));
        Reply::count(self.deliveries.len() - before)
    }

    /// Refuses a command that the user may not call.
    pub fn allow_name(&self, name: &str, in_script: bool) -> Result<(), Reply> {
        if !self.condition.forbidden.contains(name) {
            return Ok(());
        }
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
        if condition.is_loading {
            return Err(Reply::error("LOADING Redis is loading the dataset in memory"));
        }
        if access == Access::Reads {
            return Ok(());
        }
        if script.as_ref().is_some_and(|script| !script.may_write) {
            let text = "ERR Write commands are not allowed from read-only scripts.";
            return Err(Reply::error(text));
        }
        if condition.is_replica {
            return Err(Reply::error("READONLY You can't write against a read only replica."));
        }
        // What a script has begun, it may end.
        let may_go_on = script.as_ref().is_some_and(|it| it.allows_full || it.has_written);
        if condition.is_full && access == Access::Grows && !may_go_on {
            let text = "OOM command not allowed when used memory > 'maxmemory'.";
            return Err(Reply::error(text));
        }
        if let Some(script) = script {
            script.has_written = true;
        }
        Ok(())
    }
}
