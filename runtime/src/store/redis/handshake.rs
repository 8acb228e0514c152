//! What is asked of a server on each new connection before the first command, all of it
//! in one round trip: who it is, what it calls us, and what has to be done first. It is
//! short: after a restart of the server all its clients send it at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, RedisResult, Value};

use super::connection::Link;
use super::endpoint::Place;
use super::manager::Manager;
use super::server_info::Server;
use super::server_state::{Health, Name};
use super::wire::Wire;
use super::{lock, server_info};

impl Manager {
    /// Makes a connection to `server` one that commands may be sent on.
    pub(super) async fn greet(
        &self,
        wire: Wire,
        health: Arc<Health>,
        server: &str,
    ) -> RedisResult<Link> {
        let ask = |words: &[&str]| {
            let (mut connection, mut command) = (wire.connection.clone(), Cmd::new());
            command.arg(words);
            async move { command.query_async::<Value>(&mut connection).await }
        };
        let name = ask(&["CLIENT", "INFO"]);
        let about = ask(&["INFO", "server"]);
        let role = async {
            // A replica would refuse all that is asked of it.
            let is_to_be_master =
                matches!(self.place, Place::Sentinel(_)) || self.shared.settings.is_member;
            if is_to_be_master { Some(ask(&["ROLE"]).await) } else { None }
        };
        // Bytes of a connection that was given up may still be on their way, and would
        // act after everything that is sent on this one. On another server they find
        // others' leases, or none.
        let abandoned = {
            let mut abandoned = lock(&self.shared.abandoned);
            abandoned.retain(|old| old.server == server);
            abandoned.clone()
        };
        let kills = join_all(abandoned.iter().map(|Name { id, address, .. }| {
            ask(&["CLIENT", "KILL", "ID", id.as_str(), "ADDR", address.as_str()])
        }));
        // Before anything is asked, so that no answer to it is missed.
        let subscribed = self.subscribe(wire.connection.clone(), &health);
        let (name, about, role, kills, subscribed, warnings) =
            tokio::join!(name, about, role, kills, subscribed, self.look(&ask));
        subscribed?;
        if let Some(name) = allowed::<String>(name)? {
            let name = Name::read(&name, server);
            let _ = name.map(|name| health.name.set(name)); // it has none yet
        }
        if let Some(role) = role.map(allowed::<Vec<Value>>).transpose()?.flatten() {
            check_role(&role, server)?;
        }
        let about = allowed::<String>(about)?.and_then(|about| Server::read(&about));
        self.shared.meet(about.as_ref(), &health);
        self.warn(about.as_ref(), warnings);
        let is_done = |kill: &RedisResult<Value>| match kill {
            Ok(_) => true,
            Err(error) => error.code().is_some(),
        };
        let done: Vec<_> = abandoned
            .iter()
            .zip(&kills)
            .filter(|(_, kill)| is_done(kill))
            .map(|(name, _)| name)
            .collect();
        lock(&self.shared.abandoned).retain(|old| !done.contains(&old));
        Ok(Link::new(wire, health))
    }

    /// Asks, once a client, what its warnings are made of.
    async fn look<F>(&self, ask: &impl Fn(&[&str]) -> F) -> Option<[RedisResult<Value>; 3]>
    where
        F: Future<Output = RedisResult<Value>>,
    {
        if !self.looks || self.flags.is_looked_at.load(Ordering::Relaxed) {
            return None;
        }
        let none = async || Ok(Value::Nil);
        Some(if self.shared.settings.counts_after.is_some() {
            let memory = ask(&["INFO", "memory"]);
            let persistence = ask(&["INFO", "persistence"]);
            tokio::join!(memory, persistence, ask(&["CONFIG", "GET", "save"])).into()
        } else {
            [ask(&["INFO", "memory"]).await, none().await, none().await]
        })
    }

    fn warn(&self, about: Option<&Server>, answers: Option<[RedisResult<Value>; 3]>) {
        let Some([memory, persistence, saves]) = answers else { return };
        if self.hears && self.shared.is_of_cluster() {
            // Connected to anew as a node, which is looked at then.
            return;
        }
        if self.flags.is_looked_at.swap(true, Ordering::Relaxed) {
            return;
        }
        let text = |answer| read::<String>(answer).unwrap_or_default();
        let saves = read::<HashMap<String, String>>(saves);
        let saves = saves.as_ref().and_then(|saves| saves.get("save"));
        let mut warnings = server_info::warnings(about, &text(memory));
        warnings.extend(server_info::forgets(&text(persistence), saves.map(String::as_str)));
        for warning in warnings {
            tracing::warn!(server = %self.shared.server, "the lock store is set up badly: {warning}");
        }
    }
}

/// An answer, if the question is allowed: not refused to this user, nor taken away by
/// who runs the server.
fn allowed<T: FromRedisValue>(answer: RedisResult<Value>) -> RedisResult<Option<T>> {
    match answer {
        Err(error) if matches!(error.code(), Some("NOPERM" | "ERR")) => Ok(None),
        Err(error) => Err(error),
        answer => Ok(read(answer)),
    }
}

fn read<T: FromRedisValue>(answer: RedisResult<Value>) -> Option<T> {
    redis::from_redis_value(answer.ok()?).ok()
}

/// Sentinels may be late, and so may a server that was made the master.
fn check_role(role: &[Value], server: &str) -> RedisResult<()> {
    match role.first() {
        Some(Value::BulkString(role)) if role != b"master" => Err(RedisError::from((
            ErrorKind::Io,
            "the server is a replica; give the address of a master",
            server.to_owned(),
        ))),
        _ => Ok(()),
    }
}
