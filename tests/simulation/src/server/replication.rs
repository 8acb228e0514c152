//! Masters and replicas. Whoever runs them carries the changes from one to the other, as late as it
//! likes, and the replica's confirmation back.

use std::collections::BTreeMap;

use super::Server;
use super::command::{Answer, integer};
use super::journal::{Change, Effect, ReplicaId};
use super::keyspace::Keyspace;
use super::reply::Reply;
use super::session::{Activity, SessionId, Waiting};

/// What a server is to its replicas, or to its master.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Role {
    #[default]
    Master,
    Replica(Upstream),
}

/// The master of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    pub host: String,
    pub port: u16,
    pub link: Link,
}

/// How far a replica has come with its master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// It has no connection. What it has stays readable.
    Down,
    Up,
}

/// All that a master has, for a replica that begins to follow it.
#[derive(Clone, Debug)]
pub struct FullSync {
    databases: BTreeMap<u8, Keyspace>,
    offset: u64,
}

impl Server {
    #[must_use]
    pub fn role(&self) -> Role {
        let core = self.core.borrow();
        if core.condition.is_replica {
            let host = "127.0.0.1".to_owned();
            return Role::Replica(Upstream { host, port: 6379, link: Link::Down });
        }
        core.role.clone()
    }

    /// The number of effects that it has written, or has from its master.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.core.borrow().journal.offset()
    }

    /// As a master: takes on the replica at this address, which begins with what it gets.
    pub fn attach_replica(&mut self, host: &str, port: u16) -> (ReplicaId, FullSync) {
        let core = &mut *self.core.borrow_mut();
        let replica = core.journal.attach(host, port, core.now_us);
        let databases = core.databases.clone();
        (replica, FullSync { databases, offset: core.journal.offset() })
    }

    /// As a master: the connection to a replica is lost, and it has to begin again.
    pub fn detach_replica(&mut self, replica: ReplicaId) {
        self.core.borrow_mut().journal.detach(replica);
    }

    /// As a master: returns true if it still knows a replica. It forgets all of them when it
    /// becomes a replica itself, and when it starts again.
    #[must_use]
    pub fn has_replica(&self, replica: ReplicaId) -> bool {
        self.core.borrow().journal.followers().contains_key(&replica)
    }

    /// As a master: takes the changes that are to be sent to a replica.
    pub fn take_changes(&mut self, replica: ReplicaId) -> Vec<Change> {
        self.core.borrow_mut().journal.take(replica)
    }

    /// As a master: a replica confirms all changes up to this offset.
    pub fn acknowledge(&mut self, replica: ReplicaId, offset: u64) {
        let now_us = self.now_us();
        self.core.borrow_mut().journal.acknowledge(replica, offset, now_us);
        self.end_waits();
    }

    /// `REPLICAOF`: it becomes a replica, and is one as soon as this returns. Whoever waits for
    /// replicas of its own is sent away; all others keep their connections.
    pub fn replicate_from(&mut self, host: &str, port: u16) {
        let upstream = Upstream { host: host.to_owned(), port, link: Link::Down };
        let core = &mut *self.core.borrow_mut();
        core.role = Role::Replica(upstream);
        core.journal.detach_all();
        for session in self.sessions.values_mut().filter(|it| it.waiting().is_some()) {
            session.activity = Activity::Ready;
            let text = "UNBLOCKED force unblock from blocking operation, instance state changed \
                        (master -> replica?)";
            session.reply(&Reply::error(text));
            session.is_closed = true;
        }
    }

    /// `REPLICAOF NO ONE`: it becomes a master, with what it has.
    pub fn promote(&mut self) {
        self.core.borrow_mut().role = Role::Master;
    }

    /// As a replica: takes what its master has in place of its own.
    pub fn begin_with(&mut self, sync: FullSync) {
        let mut core = self.core.borrow_mut();
        core.databases = sync.databases;
        core.journal.follow(sync.offset);
        drop(core);
        self.set_link(Link::Up);
    }

    /// As a replica: its connection to the master comes or goes.
    pub fn set_link(&mut self, now: Link) {
        if let Role::Replica(Upstream { link, .. }) = &mut self.core.borrow_mut().role {
            *link = now;
        }
    }

    /// As a replica: makes its master's next change its own. It is lost on one that has become a
    /// master meanwhile.
    pub fn apply(&mut self, change: Change) {
        let mut core = self.core.borrow_mut();
        if core.role == Role::Master {
            return;
        }
        core.journal.follow(change.offset);
        for effect in change.effects {
            match effect {
                Effect::Clear { database } => core.databases.entry(database).or_default().clear(),
                Effect::Set { database, key, entry } => {
                    let keyspace = core.databases.entry(database).or_default();
                    keyspace.set(&key, entry.value, entry.expires_ms);
                }
                Effect::Delete { database, key } => {
                    core.databases.entry(database).or_default().delete(&key);
                }
                Effect::Publish { channel, message } => {
                    core.deliver(&channel, &message);
                }
            }
        }
        drop(core);
        self.deliver();
    }

    /// When [`Server::tick`] has an answer to give, by the server's clock.
    #[must_use]
    pub fn next_timeout(&self) -> Option<i64> {
        self.sessions.values().filter_map(|it| it.waiting()?.until_us).min()
    }

    /// Does what is due by the server's clock: answers those that have waited for replicas long
    /// enough. A master deletes the keys that have expired, if it has replicas: those only hide them
    /// until then.
    pub fn tick(&mut self) {
        let mut core = self.core.borrow_mut();
        if !core.journal.followers().is_empty() {
            core.expire();
        }
        drop(core);
        self.end_waits();
        self.end_idle();
    }

    fn end_waits(&mut self) {
        let now_us = self.now_us();
        let waiting: Vec<_> =
            self.sessions.iter().filter_map(|(id, it)| Some((*id, it.waiting()?))).collect();
        for (id, Waiting { replicas, offset, until_us }) in waiting {
            let confirmed = self.core.borrow().journal.confirmed(offset);
            if confirmed >= replicas || until_us.is_some_and(|until_us| until_us <= now_us) {
                let session = self.session(id);
                session.activity = Activity::Ready;
                session.reply(&Reply::count(confirmed));
                // It may have sent more meanwhile.
                self.go_on(id);
            }
        }
    }
}

/// `WAIT`: `None` if the answer comes later.
pub(super) fn wait(server: &mut Server, id: SessionId, args: &[Vec<u8>]) -> Option<Answer> {
    if server.role() != Role::Master {
        let text = "ERR WAIT cannot be used with replica instances. Please also note that since \
                    Redis 4.0 if a replica is configured to be writable (which is not the default) \
                    writes to replicas are just local and are not propagated.";
        return Some(Err(Reply::error(text)));
    }
    let (replicas, limit_ms) = match limits(&args[1], &args[2]) {
        Ok(limits) => limits,
        Err(error) => return Some(Err(error)),
    };
    let now_us = server.now_us();
    let offset = server.session(id).written;
    let confirmed = server.core.borrow().journal.confirmed(offset);
    let session = server.session(id);
    if confirmed >= replicas || session.activity == Activity::InTransaction {
        return Some(Ok(Reply::count(confirmed)));
    }
    let until_us = (limit_ms > 0).then(|| now_us.saturating_add(limit_ms.saturating_mul(1000)));
    session.activity = Activity::Waiting(Waiting { replicas, offset, until_us });
    None
}

fn limits(replicas: &[u8], limit_ms: &[u8]) -> Result<(usize, i64), Reply> {
    let replicas = integer(replicas)?;
    let invalid = |_| Reply::error("ERR timeout is not an integer or out of range");
    let limit_ms = integer(limit_ms).map_err(invalid)?;
    if limit_ms < 0 {
        return Err(Reply::error("ERR timeout is negative"));
    }
    Ok((usize::try_from(replicas).unwrap_or(0), limit_ms))
}

/// The answer to `ROLE`.
pub(super) fn describe_role(server: &Server) -> Reply {
    let (role, core) = (server.role(), server.core.borrow());
    let offset = i64::try_from(core.journal.offset()).expect("not that many");
    Reply::Array(match role {
        Role::Master => {
            let follower = |it: &super::journal::Follower| {
                let parts = [it.host.clone(), it.port.to_string(), it.acknowledged.to_string()];
                Reply::Array(parts.map(Reply::text).to_vec())
            };
            let followers = core.journal.followers().values().map(follower);
            vec![Reply::text("master"), Reply::Int(offset), Reply::Array(followers.collect())]
        }
        Role::Replica(Upstream { host, port, link }) => {
            let (state, offset) = match link {
                Link::Down => ("connect", -1),
                Link::Up => ("connected", offset),
            };
            vec![
                Reply::text("slave"),
                Reply::text(host),
                Reply::Int(i64::from(port)),
                Reply::text(state),
                Reply::Int(offset),
            ]
        }
    })
}

/// The section `Replication` of `INFO`.
pub(super) fn info(server: &Server) -> String {
    let (role, core) = (server.role(), server.core.borrow());
    let offset = core.journal.offset();
    let mut lines = match role {
        Role::Master => vec!["role:master".to_owned()],
        Role::Replica(Upstream { host, port, link }) => vec![
            "role:slave".to_owned(),
            format!("master_host:{host}"),
            format!("master_port:{port}"),
            format!("master_link_status:{}", if link == Link::Up { "up" } else { "down" }),
            "master_sync_in_progress:0".to_owned(),
            format!("slave_repl_offset:{offset}"),
            "slave_read_only:1".to_owned(),
        ],
    };
    let followers = core.journal.followers().values();
    lines.push(format!("connected_slaves:{}", followers.len()));
    lines.extend(followers.enumerate().map(|(nth, it)| {
        let lag = (core.now_us - it.acknowledged_us).div_euclid(1_000_000);
        let (host, port, acknowledged) = (&it.host, it.port, it.acknowledged);
        format!("slave{nth}:ip={host},port={port},state=online,offset={acknowledged},lag={lag}")
    }));
    lines.push("master_failover_state:no-failover".to_owned());
    lines.push(format!("master_repl_offset:{offset}"));
    lines.join("\r\n") + "\r\n"
}
