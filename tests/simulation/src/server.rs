//! The server: connections, the commands about them, and scripts.

mod busy;
pub mod cluster;
mod command;
mod command_keys;
mod connection;
pub mod core;
mod glob;
mod hashes;
mod info;
pub mod journal;
mod keys;
pub mod keyspace;
pub mod messages;
pub mod odd;
mod pubsub;
pub mod replication;
pub mod reply;
mod request;
mod script;
mod script_commands;
pub mod sentinel;
pub mod session;
pub mod sorted_set;
mod sorted_sets;
mod strings;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use self::connection::Answered;
use self::core::{Channel, Core, Work};
use self::messages::MessageFaults;
use self::odd::Odd;
use self::replication::Role;
use self::reply::Reply;
use self::request::Args;
use self::script::Scripts;
use self::sentinel::Kind;
use self::session::{Session, SessionId};
use crate::oracle::{Late, Oracle, known_grants};

/// What a server says of itself, and what it asks of its clients.
#[derive(Clone, Debug)]
pub struct Settings {
    pub version: String,
    pub port: u16,
    /// A new one after each start.
    pub run_id: String,
    pub password: Option<String>,
    /// Its user may end other connections.
    pub may_kill: bool,
    /// What `CONFIG GET` answers.
    pub config: BTreeMap<String, String>,
}

impl Default for Settings {
    fn default() -> Self {
        let config = [
            ("maxmemory", "0"),
            ("maxmemory-policy", "noeviction"),
            ("save", ""),
            ("appendonly", "no"),
            ("timeout", "0"),
        ];
        Self {
            version: "7.2.4".to_owned(),
            port: 6379,
            run_id: "0".repeat(40),
            password: None,
            may_kill: true,
            config: config.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        }
    }
}

/// A simulated server.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    kind: Kind,
    core: Rc<RefCell<Core>>,
    scripts: Scripts,
    oracle: Option<Oracle>,
    message_faults: Option<MessageFaults>,
    odd: Vec<Odd>,
    sessions: BTreeMap<SessionId, Session>,
    next_session: SessionId,
    started_us: i64,
}

impl Server {
    /// Starts a server, without keys.
    #[must_use]
    pub fn new(settings: Settings, now_us: i64) -> Self {
        let core = Rc::new(RefCell::new(Core { now_us, ..Core::default() }));
        Self {
            settings,
            kind: Kind::Data,
            scripts: Scripts::new(core.clone()),
            core,
            oracle: None,
            message_faults: None,
            odd: Vec::new(),
            sessions: BTreeMap::new(),
            next_session: 1,
            started_us: now_us,
        }
    }

    /// From now on, an oracle judges each call of a script.
    pub fn watch(&mut self, oracle: Oracle) {
        self.oracle = Some(oracle);
    }

    /// What the oracle has found so far.
    pub fn take_violations(&mut self) -> Vec<String> {
        self.oracle.as_mut().map(|it| std::mem::take(&mut it.violations)).unwrap_or_default()
    }

    /// The waiters that were told to ask again by now, and have not.
    pub fn late(&mut self) -> Vec<Late> {
        let Some(oracle) = &mut self.oracle else { return Vec::new() };
        // Who was told by a master that is none any more asks the next one.
        if self.core.borrow().role != Role::Master {
            oracle.forget_appointments();
            return Vec::new();
        }
        oracle.late(&self.core.borrow())
    }

    pub(crate) fn is_master(&self) -> bool {
        self.core.borrow().role == Role::Master
    }

    /// Whether a replica has confirmed the grant of a token, if this server has made it.
    pub(crate) fn is_confirmed(&self, lock: &str, token: u64) -> Option<bool> {
        self.oracle.as_ref()?.grants().is_confirmed(&self.core.borrow(), lock, token)
    }

    /// The first tokens of all that it has granted, by lock.
    pub(crate) fn granted(&self) -> BTreeMap<String, BTreeSet<u64>> {
        let mut granted = BTreeMap::<_, BTreeSet<_>>::new();
        for (lock, token) in self.oracle.iter().flat_map(|it| it.grants().all()) {
            granted.entry(lock.to_owned()).or_default().insert(token);
        }
        granted
    }

    /// The first token of the grant that a token is from, if this server has made it.
    pub(crate) fn first_token(&self, lock: &str, token: u64) -> Option<u64> {
        self.oracle.as_ref()?.grants().first(lock, token)
    }

    /// The token of a lock, and when its last lease ends, in milliseconds of its clock, if somebody has it.
    pub(crate) fn lease_end(&self, lock: &str) -> Option<(u64, i64)> {
        known_grants(&self.core.borrow()).get(lock).copied()
    }

    /// The token that an idle lease had before this server gave it that one.
    pub(crate) fn token_before(&self, lock: &str, token: u64) -> Option<u64> {
        self.oracle.as_ref()?.grants().before(lock, token)
    }

    /// The calls since they were last taken, where its oracle keeps them.
    pub(crate) fn take_told(&mut self) -> Vec<String> {
        self.oracle.as_mut().map(Oracle::take_told).unwrap_or_default()
    }

    /// The clients that have made requests since they were last taken, where an oracle looks.
    pub(crate) fn take_callers(&mut self) -> BTreeSet<Vec<u8>> {
        self.oracle.as_mut().map(Oracle::take_callers).unwrap_or_default()
    }

    /// The oracle, if there is one.
    pub fn oracle(&mut self) -> Option<&mut Oracle> {
        self.oracle.as_mut()
    }

    /// Whether clients may end the connections that they have left.
    pub(crate) fn may_kill(&self) -> bool {
        self.settings.may_kill
    }

    /// How often calls have made requests of a client hold a lock, if an oracle counts them.
    pub(crate) fn let_in(&self, client: &[u8], lock: &str) -> u64 {
        self.oracle.as_ref().map_or(0, |oracle| oracle.granted(client, lock))
    }

    /// Plants a mistake: scripts that come from now on are run with one text in the place of
    /// another. Clients do not notice.
    pub fn alter(&mut self, from: &str, to: &str) {
        self.scripts.alter(from, to);
    }

    /// The state that the commands change.
    pub fn core(&self) -> &RefCell<Core> {
        &self.core
    }

    /// Sets the server's clock, in microseconds since 1970. It may go back.
    pub fn set_clock(&mut self, now_us: i64) {
        self.core.borrow_mut().now_us = now_us;
    }

    fn now_us(&self) -> i64 {
        self.core.borrow().now_us
    }

    /// Accepts a connection.
    pub fn connect(&mut self, address: String) -> SessionId {
        let id = self.next_session;
        self.next_session += 1;
        let is_authenticated = self.settings.password.is_none();
        let session = Session::new(id, address, is_authenticated, self.now_us());
        self.sessions.insert(id, session);
        self.turn_away(id);
        id
    }

    /// Starts again after its process has ended, with the keys that it had or without. Its
    /// connections, subscriptions and scripts are gone.
    pub fn restart(&mut self, run_id: String, keeps_keys: bool, now_us: i64) {
        self.core.borrow_mut().restart(keeps_keys, now_us);
        self.settings.run_id = run_id;
        self.scripts.forget_all();
        self.sessions.clear();
        self.started_us = now_us;
    }

    /// Deletes all keys, as `FLUSHALL` does.
    pub fn flush(&mut self) {
        self.core.borrow_mut().flush();
    }

    /// Forgets all scripts, as `SCRIPT FLUSH` does.
    pub fn forget_scripts(&mut self) {
        self.scripts.forget_all();
    }

    /// Ends all connections.
    pub fn end_connections(&mut self) {
        for session in self.sessions.values_mut() {
            session.output.clear();
            session.is_closed = true;
        }
    }

    /// Returns true if it still has this connection.
    pub fn has(&self, id: SessionId) -> bool {
        self.sessions.contains_key(&id)
    }

    /// Takes bytes of a connection, and runs the commands that they complete.
    pub fn receive(&mut self, id: SessionId, bytes: &[u8]) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.parser.push(bytes);
        session.active_us = self.core.borrow().now_us;
        self.go_on(id);
    }

    /// Runs the commands that a connection has sent, up to one that has to wait.
    fn go_on(&mut self, id: SessionId) {
        let is_ready = |it: &&mut Session| !it.is_closed && it.waiting().is_none();
        while let Some(session) = self.sessions.get_mut(&id).filter(is_ready) {
            match session.parser.next() {
                Ok(Some(args)) if args.is_empty() => {}
                Ok(Some(args)) => {
                    let before = self.offset();
                    let reply = self.handle(id, args);
                    self.core.borrow_mut().commit();
                    if let Some(reply) = reply {
                        self.deliver();
                        self.session(id).reply(&reply);
                    }
                    self.deliver();
                    self.end_oddly(id);
                    // Since Redis 7.2, `WAIT` waits for what its own connection has written.
                    let after = self.offset();
                    if after != before {
                        self.session(id).written = after;
                    }
                }
                Ok(None) => return,
                Err(_) => {
                    session.reply(&Reply::error("ERR Protocol error: expected a command"));
                    session.is_closed = true;
                }
            }
        }
    }

    /// Takes what is to be written to a connection. `None` when it is closed: then the rest was
    /// taken before.
    pub fn take_output(&mut self, id: SessionId) -> Option<Vec<u8>> {
        let session = self.sessions.get_mut(&id)?;
        let output = std::mem::take(&mut session.output);
        if output.is_empty() && session.is_closed {
            self.disconnect(id);
            return None;
        }
        Some(output)
    }

    /// The connections with something to write, and those to be closed.
    pub fn pending(&self) -> impl Iterator<Item = SessionId> {
        let sessions = self.sessions.values();
        sessions.filter(|it| it.is_closed || !it.output.is_empty()).map(|it| it.id)
    }

    /// Forgets a connection that its client has closed, or that was lost.
    pub fn disconnect(&mut self, id: SessionId) {
        let Some(session) = self.sessions.remove(&id) else { return };
        for channel in &session.channels {
            self.unlist(channel, id);
        }
    }

    fn unlist(&mut self, channel: &Channel, id: SessionId) {
        let subscriptions = &mut self.core.borrow_mut().subscriptions;
        if let Some(listeners) = subscriptions.get_mut(channel) {
            listeners.remove(&id);
            if listeners.is_empty() {
                subscriptions.remove(channel);
            }
        }
    }

    fn session(&mut self, id: SessionId) -> &mut Session {
        self.sessions.get_mut(&id).expect("a session ends with its output")
    }

    /// Runs a command. Those that answer by messages have no reply.
    fn handle(&mut self, id: SessionId, args: Args) -> Option<Reply> {
        let name = String::from_utf8_lossy(&args[0]).to_uppercase();
        let session = self.session(id);
        session.commands += 1;
        if !session.is_authenticated && !matches!(name.as_str(), "AUTH" | "HELLO" | "QUIT") {
            return Some(Reply::error("NOAUTH Authentication required."));
        }
        if session.is_for_messages_only() && !connection::is_allowed_with_subscriptions(&name) {
            let text = format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
                 RESET are allowed in this context",
                name.to_lowercase()
            );
            return Some(Reply::Error(text));
        }
        let is_asking = std::mem::take(&mut session.is_asking);
        match self.odd_answer(id, &name, &args) {
            Some(Answered::Reply(reply)) => return Some(reply),
            Some(Answered::Messages) => return None,
            None => {}
        }
        if let Some(elsewhere) = self.core.borrow_mut().redirect(&name, &args, is_asking) {
            return Some(elsewhere);
        }
        if self.core.borrow().condition.work == Work::Busy
            && let Some(refusal) = busy::refusal(self, id, &name, &args)
        {
            return Some(refusal);
        }
        let session = self.session(id);
        let queues = !matches!(name.as_str(), "MULTI" | "EXEC" | "DISCARD");
        if let Some(transaction) = session.transaction.as_mut().filter(|_| queues) {
            transaction.push(args);
            return Some(Reply::simple("QUEUED"));
        }
        self.run(id, &name, &args)
    }

    fn run(&mut self, id: SessionId, name: &str, args: &[Vec<u8>]) -> Option<Reply> {
        if let Some(refusal) = connection::lacks_right(self, name, args) {
            return Some(refusal);
        }
        if let Kind::Sentinel(sentinel) = &self.kind {
            if let Some(answer) = sentinel::run(sentinel, name, args) {
                return Some(answer.unwrap_or_else(|error| error));
            }
            if !sentinel::has(name) {
                return Some(unknown(args));
            }
        }
        if let Some(answer) = cluster::run(self, id, name, args) {
            return Some(answer.unwrap_or_else(|error| error));
        }
        match connection::run(self, id, name, args) {
            Some(Answered::Reply(reply)) => return Some(reply),
            Some(Answered::Messages) => return None,
            None => {}
        }
        let database = self.session(id).database;
        let reply = match name {
            "EVAL" | "EVALSHA" | "SCRIPT" => self.script_command(database, name, args),
            _ => self.core.borrow_mut().execute(database, args, None),
        };
        Some(reply.unwrap_or_else(|| unknown(args)))
    }
}

fn unknown(args: &[Vec<u8>]) -> Reply {
    let shown = |arg: &Vec<u8>| format!("'{}' ", String::from_utf8_lossy(arg));
    let name = String::from_utf8_lossy(&args[0]);
    let rest: String = args[1..].iter().map(shown).collect();
    Reply::Error(format!("ERR unknown command '{name}', with args beginning with: {rest}"))
}
