//! A connection: what it has sent, what is to be written to it, and what it has set for itself.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::core::Channel;
use super::reply::{Protocol, Reply, write_push};
use super::request::{Args, Parser};

/// The number of a connection, as `CLIENT ID` answers it.
pub type SessionId = u64;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// That so many replicas have confirmed the changes up to this offset.
    pub replicas: usize,
    pub offset: u64,
    /// When it waits no longer, by the server's clock; `None`: it waits for as long as it takes.
    pub until_us: Option<i64>,
}

/// What a connection does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    #[default]
    Ready,
    /// It runs a transaction, in which nothing waits.
    InTransaction,
    /// It waits for replicas, and runs no other command until then.
    Waiting(Waiting),
}

#[derive(Debug)]
pub struct Session {
    pub id: SessionId,
    /// The client's address, as the server sees it.
    pub address: String,
    pub name: String,
    pub protocol: Protocol,
    pub database: u8,
    pub is_authenticated: bool,
    pub channels: BTreeSet<Channel>,
    /// How many commands it has sent.
    pub commands: u32,
    /// The commands since `MULTI`.
    pub transaction: Option<Vec<Args>>,
    /// It has just sent `ASKING`.
    pub is_asking: bool,
    pub activity: Activity,
    /// The server's offset after its last write.
    pub written: u64,
    /// When it was opened, and when it last sent a command: microseconds of the server's clock.
    pub opened_us: i64,
    pub active_us: i64,
    pub(super) parser: Parser,
    pub output: Vec<u8>,
    /// The server closes it when its output is written.
    pub is_closed: bool,
}

impl Session {
    #[must_use]
    pub fn new(id: SessionId, address: String, is_authenticated: bool, now_us: i64) -> Self {
        Self {
            id,
            address,
            name: String::new(),
            protocol: Protocol::Resp2,
            database: 0,
            is_authenticated,
            channels: BTreeSet::new(),
            commands: 0,
            transaction: None,
            is_asking: false,
            activity: Activity::Ready,
            written: 0,
            opened_us: now_us,
            active_us: now_us,
            parser: Parser::default(),
            output: Vec::new(),
            is_closed: false,
        }
    }

    pub fn reply(&mut self, reply: &Reply) {
        reply.write(self.protocol, &mut self.output);
    }

    pub fn push(&mut self, items: &[Reply]) {
        write_push(items, self.protocol, &mut self.output);
    }

    #[must_use]
    pub fn waiting(&self) -> Option<Waiting> {
        match self.activity {
            Activity::Waiting(waiting) => Some(waiting),
            Activity::Ready | Activity::InTransaction => None,
        }
    }

    /// How many subscriptions it has, as its confirmations count them.
    #[must_use]
    pub fn subscriptions(&self, is_sharded: bool) -> Reply {
        Reply::count(self.channels.iter().filter(|it| it.is_sharded == is_sharded).count())
    }

    /// In RESP2, a connection with subscriptions is for nothing else.
    #[must_use]
    pub fn is_for_messages_only(&self) -> bool {
        self.protocol == Protocol::Resp2 && !self.channels.is_empty()
    }

    /// A line of `CLIENT LIST`.
    #[must_use]
    pub fn describe(&self, now_us: i64, port: u16) -> String {
        let seconds = |since: i64| (now_us - since).max(0) / 1_000_000;
        let flags = if self.channels.is_empty() { "N" } else { "P" };
        let mut line = String::new();
        let _ = write!(
            line,
            "id={} addr={} laddr=127.0.0.1:{port} fd=8 name={} age={} idle={} flags={flags} db={} \
             sub={} psub=0 ssub={} multi=-1 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=1024 rbp=0 \
             obl=0 oll=0 omem=0 tot-mem=0 events=r cmd=client|info user=default redir=-1 resp={}",
            self.id,
            self.address,
            self.name,
            seconds(self.opened_us),
            seconds(self.active_us),
            self.database,
            self.channels.iter().filter(|it| !it.is_sharded).count(),
            self.channels.iter().filter(|it| it.is_sharded).count(),
            if self.protocol == Protocol::Resp3 { 3 } else { 2 },
        );
        line
    }
}
