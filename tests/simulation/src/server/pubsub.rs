//! Channels: subscriptions, and what is published.

use super::core::Channel;
use super::reply::Reply;
use super::session::SessionId;
use super::{Server, command::is, glob};

fn word(name: &str) -> Reply {
    Reply::text(name.to_lowercase())
}

pub(super) fn subscribe(server: &mut Server, id: SessionId, name: &str, channels: &[Vec<u8>]) {
    let is_sharded = name.starts_with("SS");
    for channel in channels {
        let channel = Channel { is_sharded, name: channel.clone() };
        let subscriptions = &mut server.core.borrow_mut().subscriptions;
        subscriptions.entry(channel.clone()).or_default().insert(id);
        let session = server.sessions.get_mut(&id).expect("it sent the command");
        session.channels.insert(channel.clone());
        let count = session.subscriptions(is_sharded);
        session.push(&[word(name), Reply::Bulk(channel.name), count]);
    }
}

pub(super) fn unsubscribe(server: &mut Server, id: SessionId, name: &str, channels: &[Vec<u8>]) {
    let is_sharded = name.starts_with("SU");
    let own = server.session(id).channels.iter().filter(|it| it.is_sharded == is_sharded);
    let all: Vec<_> = own.map(|it| it.name.clone()).collect();
    let channels = if channels.is_empty() { &all } else { channels };
    for channel in channels {
        let channel = Channel { is_sharded, name: channel.clone() };
        end(server, id, &channel);
    }
    if channels.is_empty() {
        let count = server.session(id).subscriptions(is_sharded);
        server.session(id).push(&[word(name), Reply::Nil, count]);
    }
}

/// Ends a subscription, and says so.
pub(super) fn end(server: &mut Server, id: SessionId, channel: &Channel) {
    server.unlist(channel, id);
    let session = server.session(id);
    session.channels.remove(channel);
    let name = if channel.is_sharded { "sunsubscribe" } else { "unsubscribe" };
    let count = session.subscriptions(channel.is_sharded);
    session.push(&[Reply::text(name), Reply::Bulk(channel.name.clone()), count]);
}

pub(super) fn pubsub(server: &Server, args: &[Vec<u8>]) -> Result<Reply, Reply> {
    let core = server.core.borrow();
    let is_sharded = args[1].to_ascii_uppercase().starts_with(b"SHARD");
    let of = if is_sharded { "SHARD" } else { "" };
    if is(&args[1], &format!("{of}CHANNELS")) {
        let fits = |it: &&Channel| args.get(2).is_none_or(|glob| glob::fits(glob, &it.name));
        let channels = core.subscriptions.keys().filter(|it| it.is_sharded == is_sharded);
        let names = channels.filter(fits).map(|it| Reply::Bulk(it.name.clone()));
        return Ok(Reply::Array(names.collect()));
    }
    if is(&args[1], &format!("{of}NUMSUB")) {
        let count = |name: &Vec<u8>| {
            let channel = Channel { is_sharded, name: name.clone() };
            core.subscriptions.get(&channel).map_or(0, std::collections::BTreeSet::len)
        };
        let answers = args[2..].iter();
        let answers = answers.flat_map(|it| [Reply::Bulk(it.clone()), Reply::count(count(it))]);
        return Ok(Reply::Array(answers.collect()));
    }
    let name = String::from_utf8_lossy(&args[1]).into_owned();
    Err(Reply::Error(format!("ERR unknown subcommand '{name}'. Try PUBSUB HELP.")))
}

impl Server {
    /// The channels that clients listen to, each with the address of its listener.
    pub fn listeners(&self) -> impl Iterator<Item = (&[u8], &str)> {
        self.sessions.values().flat_map(|session| {
            session.channels.iter().map(|it| (it.name.as_slice(), session.address.as_str()))
        })
    }
    /// Ends all subscriptions, and tells nobody.
    #[cfg(test)]
    pub(crate) fn forget_listeners(&mut self) {
        self.core.borrow_mut().subscriptions.clear();
        for session in self.sessions.values_mut() {
            session.channels.clear();
        }
    }
}
