//! The bytes between processes and servers: events in the order of their true times. Nothing here
//! waits: the world says how far time has come.

mod forgotten;
mod half_open;
mod host;
mod links;
mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use fastrand::Rng;

use self::forgotten::Ended;
pub use self::half_open::Way;
pub use self::host::{BEGINNING_US, Condition, Host};
pub use self::links::{Cut, Fate, LONGEST_STALL, LinkFaults, Links};
pub use self::stream::SimulatedConnection;
use self::stream::{Pipe, Side, lock};
use crate::oracle::{self, CLIENT, is_of};
use crate::server::session::SessionId;
use crate::trace::Trace;

/// A point in true time, in microseconds since the world began.
pub type Micros = u64;

/// How long bytes travel at least, one way. A process may be driven ahead of the others by less.
pub const LATENCY: Micros = 3_000;

/// A process, by its number.
pub type ProcessId = usize;

/// A connection, by its number.
pub type ConnectionId = u64;

#[derive(Debug)]
struct Connection {
    process: ProcessId,
    host: SocketAddr,
    session: Option<SessionId>,
    pipe: Arc<Mutex<Pipe>>,
    /// When the last bytes arrive, either way: what follows comes later.
    last_there: Micros,
    last_back: Micros,
    /// The way on which everything is lost.
    lost: Option<Way>,
    /// Its client has sent something since then, so it may notice that there is no answer; or has left it.
    is_tried: bool,
}

#[derive(Debug)]
enum Event {
    Dial,
    /// The dial has an answer: it is open, or refused.
    Answer {
        is_open: bool,
    },
    Arrive {
        bytes: Vec<u8>,
        fate: Fate,
    },
    Deliver {
        bytes: Vec<u8>,
    },
    /// The client has closed its end; or, with `false`, the server has.
    Closed {
        by_client: bool,
    },
}

/// All servers, and the ways to them from all processes.
#[derive(Debug)]
pub struct Network {
    now: Micros,
    next_event: u64,
    events: BTreeMap<(Micros, u64), (ConnectionId, Event)>,
    /// What has arrived at servers that are frozen.
    held: BTreeMap<SocketAddr, Vec<(ConnectionId, Event)>>,
    hosts: BTreeMap<SocketAddr, Host>,
    connections: BTreeMap<ConnectionId, Connection>,
    next_connection: ConnectionId,
    /// The processes that have just tried a connection of which a way is lost.
    tried: BTreeSet<ProcessId>,
    /// The processes of the clients that have made requests.
    clients: BTreeMap<Vec<u8>, ProcessId>,
    /// The servers that have ended, and have not come back with their keys.
    ended: BTreeMap<SocketAddr, Ended>,
    pub links: Links,
    rng: Rng,
    pub trace: Trace,
}

impl Network {
    /// A network without servers.
    pub fn new(rng: Rng, trace: Trace) -> Self {
        Self {
            now: 0,
            next_event: 0,
            events: BTreeMap::new(),
            held: BTreeMap::new(),
            hosts: BTreeMap::new(),
            connections: BTreeMap::new(),
            next_connection: 1,
            tried: BTreeSet::new(),
            clients: BTreeMap::new(),
            ended: BTreeMap::new(),
            links: Links::default(),
            rng,
            trace,
        }
    }

    /// Adds a server.
    pub fn add(&mut self, address: SocketAddr, host: Host) {
        self.hosts.insert(address, host);
    }

    /// A server.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn host(&mut self, address: SocketAddr) -> &mut Host {
        self.hosts.get_mut(&address).expect("there is such a host")
    }

    /// The addresses of all servers.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.hosts.keys().copied().collect()
    }

    /// Whether a replica has confirmed the grant of a token, on the server that has made it; `None` if
    /// none of them did.
    pub(crate) fn is_confirmed(&self, lock: &str, token: u64) -> Option<bool> {
        let confirmed = self.hosts.values().filter_map(|it| it.server.is_confirmed(lock, token));
        confirmed.reduce(|one, other| one || other)
    }

    /// How long the lease of a token lasts on a server, in true time; `None` if nobody has it.
    pub(crate) fn lasts(&self, now: Micros, lock: &str, token: u64) -> Option<Micros> {
        self.lasts_where(|_| true, now, lock, token)
    }

    /// The same, of some servers.
    fn lasts_where(
        &self,
        is_meant: impl Fn(&Host) -> bool,
        now: Micros,
        lock: &str,
        token: u64,
    ) -> Option<Micros> {
        let before =
            |now: u64| self.hosts.values().find_map(|it| it.server.token_before(lock, now));
        let lasts = |host: &Host| {
            let (last, left) = host.lasts(now, lock)?;
            is_of(token, last, before).then_some(left)
        };
        self.hosts.values().filter(|it| is_meant(it)).filter_map(lasts).max()
    }

    /// The process whose client has made a request, if it has called a script.
    pub(crate) fn process_of(&self, request: &[u8]) -> Option<ProcessId> {
        self.clients.get(request.get(..CLIENT)?).copied()
    }

    /// Whether clients may end the connections that they have left.
    pub(crate) fn may_kill(&self) -> bool {
        self.hosts.values().all(|host| host.server.may_kill())
    }

    /// How often calls of a process have made it hold a lock.
    pub(crate) fn granted(&self, process: ProcessId, lock: &str) -> u64 {
        let own = self.clients.iter().filter(|(_, of)| **of == process);
        let of_client = |client: &[u8]| -> u64 {
            self.hosts.values().map(|host| host.server.let_in(client, lock)).sum()
        };
        own.map(|(client, _)| of_client(client)).sum()
    }

    /// How many requests of a process hold locks, by the names of these, on the servers that are masters.
    pub(crate) fn holders(&self, process: ProcessId) -> BTreeMap<String, usize> {
        let mut holders = BTreeMap::new();
        let is_up = |host: &&Host| host.server.is_master() && host.condition != Condition::Down;
        for host in self.hosts.values().filter(is_up) {
            for (lock, ids) in oracle::holders(&host.server.core().borrow()) {
                let own = ids.iter().filter(|id| self.process_of(id) == Some(process)).count();
                *holders.entry(lock).or_default() += own;
            }
        }
        holders
    }

    /// True time.
    pub fn now(&self) -> Micros {
        self.now
    }

    /// Ends all faults of links, and of servers that can be ended.
    pub fn heal(&mut self) {
        self.links = Links::default();
        for host in self.hosts.values_mut() {
            host.heal();
        }
    }

    /// Opens a connection at this time.
    pub fn dial(
        &mut self,
        process: ProcessId,
        host: SocketAddr,
        at: Micros,
    ) -> SimulatedConnection {
        let id = self.next_connection;
        self.next_connection += 1;
        self.trace.show(self.now, &format!("p{process} dials {host}: connection {id}"));
        let pipe = Arc::<Mutex<Pipe>>::default();
        let there = at + LATENCY;
        let connection = Connection {
            process,
            host,
            session: None,
            pipe: pipe.clone(),
            last_there: there,
            last_back: there,
            lost: None,
            is_tried: false,
        };
        self.connections.insert(id, connection);
        self.schedule(there, id, Event::Dial);
        SimulatedConnection::new(id, pipe)
    }

    /// Sends bytes of a client at this time.
    pub(crate) fn send(&mut self, id: ConnectionId, bytes: Vec<u8>, at: Micros) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.lost.is_some() && !connection.is_tried {
            connection.is_tried = true;
            self.tried.insert(connection.process);
        }
        if connection.lost == Some(Way::There) {
            return;
        }
        let faults = self.links.faults(connection.process, connection.host);
        let fate = faults.fate(&mut self.rng);
        let mut arrives = (at + LATENCY + fate.delay).max(connection.last_there);
        if let Some(until) = faults.blocked_until {
            arrives = arrives.max(until);
        }
        connection.last_there = arrives;
        self.schedule(arrives, id, Event::Arrive { bytes, fate });
    }

    /// A client closes its end at this time. What it has sent still arrives.
    pub(crate) fn close(&mut self, id: ConnectionId, at: Micros) {
        self.see_end(id, at);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        // A client that has left it is not misled by it.
        connection.is_tried = true;
        if connection.lost == Some(Way::There) {
            return;
        }
        let arrives = (at + LATENCY).max(connection.last_there);
        connection.last_there = arrives;
        self.schedule(arrives, id, Event::Closed { by_client: true });
    }

    /// The ends of a process are gone: it was killed.
    pub fn close_all(&mut self, process: ProcessId) {
        let own = |(id, it): (&ConnectionId, &Connection)| (it.process == process).then_some(*id);
        let ids: Vec<_> = self.connections.iter().filter_map(own).collect();
        for id in ids {
            self.close(id, self.now);
        }
    }

    /// Does all that happens until then. Each event happens at its own time.
    pub fn run_until(&mut self, until: Micros) {
        loop {
            let next = self.events.first_key_value().map(|((at, _), _)| *at);
            let thaw = self.held.keys().map(|host| (self.hosts[host].frozen_until(), *host)).min();
            if let Some((at, host)) = thaw.filter(|(at, _)| *at <= next.unwrap_or(until).min(until))
            {
                self.now = self.now.max(at);
                for (id, event) in self.held.remove(&host).unwrap_or_default() {
                    self.happen(id, event);
                }
                continue;
            }
            if next.is_none_or(|at| at > until) {
                break;
            }
            let Some(((at, _), (id, event))) = self.events.pop_first() else { break };
            self.now = self.now.max(at);
            self.happen(id, event);
        }
        self.now = until;
        for address in self.addresses() {
            self.host(address).tick(until);
            self.answer(address);
        }
    }

    /// Notes an event of the world in the trace.
    pub fn say(&mut self, text: &str) {
        self.trace.say(self.now, text);
    }

    fn schedule(&mut self, at: Micros, id: ConnectionId, event: Event) {
        self.next_event += 1;
        self.events.insert((at, self.next_event), (id, event));
    }

    fn happen(&mut self, id: ConnectionId, event: Event) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(host) = self.hosts.get_mut(&connection.host) else { return };
        let is_at_client = matches!(
            event,
            Event::Deliver { .. } | Event::Answer { .. } | Event::Closed { by_client: false }
        );
        if is_at_client && connection.lost == Some(Way::Back) {
            return;
        }
        if !is_at_client && host.frozen_until() > self.now {
            self.held.entry(connection.host).or_default().push((id, event));
            return;
        }
        let address = connection.host;
        match event {
            Event::Dial => {
                let is_open = host.condition != Condition::Down;
                if is_open {
                    let from = format!("10.0.1.{}:{}", connection.process, 10_000 + id);
                    connection.session = Some(host.connect(from, self.now));
                }
                let back = self.now + LATENCY;
                connection.last_back = back;
                self.schedule(back, id, Event::Answer { is_open });
            }
            Event::Answer { is_open } => {
                let side = if is_open { Side::Open } else { Side::Refused };
                lock(&connection.pipe).set(side);
            }
            Event::Arrive { mut bytes, fate } => {
                let Some(session) = connection.session else { return };
                match fate.cut {
                    Some(Cut::Before) => return self.break_off(id),
                    Some(Cut::Halfway) => bytes.truncate(bytes.len() / 2),
                    Some(Cut::After) | None => {}
                }
                self.trace.count(self.now, id, &bytes);
                // Commands that had to wait may have run since the last bytes. Nobody knows whose they were.
                host.server.take_callers();
                host.receive(session, &bytes, self.now);
                for client in host.server.take_callers() {
                    // Somebody else may use its name afterwards.
                    self.clients.entry(client).or_insert(connection.process);
                }
                for call in host.server.take_told() {
                    let process = connection.process;
                    self.trace.show(self.now, &format!("p{process} calls {address}: {call}"));
                }
                if fate.cut.is_some() {
                    self.break_off(id);
                }
                self.answer(address);
            }
            Event::Deliver { bytes } => {
                self.trace.count(self.now, id, &bytes);
                lock(&connection.pipe).deliver(&bytes);
            }
            Event::Closed { by_client: true } => {
                if let Some(session) = connection.session {
                    host.disconnect(session);
                }
                self.connections.remove(&id);
            }
            Event::Closed { by_client: false } => {
                lock(&connection.pipe).set(Side::Closed);
                connection.session = None;
            }
        }
    }

    /// The connection is lost: the server sees it now, the client when the news arrives.
    fn break_off(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(session) = connection.session.take() else { return };
        let back = (self.now + LATENCY).max(connection.last_back);
        connection.last_back = back;
        if let Some(host) = self.hosts.get_mut(&connection.host) {
            host.disconnect(session);
        }
        self.schedule(back, id, Event::Closed { by_client: false });
    }

    /// Sends what a server has written.
    fn answer(&mut self, address: SocketAddr) {
        let Some(host) = self.hosts.get_mut(&address) else { return };
        let written = host.take_output();
        if written.is_empty() {
            return;
        }
        let by_session: BTreeMap<SessionId, ConnectionId> = self
            .connections
            .iter()
            .filter(|(_, it)| it.host == address)
            .filter_map(|(id, it)| Some((it.session?, *id)))
            .collect();
        for (session, output) in written {
            let Some(&id) = by_session.get(&session) else { continue };
            let Some(bytes) = output else {
                self.break_off(id);
                continue;
            };
            let connection = self.connections.get_mut(&id).expect("it was just found");
            let faults = self.links.faults(connection.process, address);
            let mut back = (self.now + LATENCY).max(connection.last_back);
            if let Some(until) = faults.blocked_until {
                back = back.max(until);
            }
            connection.last_back = back;
            self.schedule(back, id, Event::Deliver { bytes });
        }
    }
}
