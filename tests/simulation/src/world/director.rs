//! Who lets things go wrong: starts processes, disturbs links and servers, stops and kills.

mod clocks;
mod processes;
mod ways;

use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use fastrand::Rng;
use leasehold_history::{Effect, Line};

use super::faults::Fault;
use super::group_faults;
use super::listeners::Listeners;
use super::liveness::Liveness;
use super::logs::Logs;
use super::orphans::Orphans;
use super::plan::{Deployment, Plan};
use super::recalls::Recalls;
use super::servers::Servers;
use super::shared::Shared;
use super::version::Version;
use crate::network::{Micros, Network};
use crate::process::Process;

/// A future that was not polled asks again this much later at most.
const GRACE: Micros = 3_000_000;

/// The links of a process, or the one to a server.
type Link = (usize, Option<SocketAddr>);

/// A server that has just started counts in a quorum only after the longest TTL.
const COUNTS: Micros = 3_000_000;

type Later = Box<dyn FnOnce(&mut Network)>;

pub(super) struct Director {
    plan: Plan,
    network: Rc<RefCell<Network>>,
    pub(super) servers: Servers,
    pub(super) shared: Arc<Shared>,
    pub(super) processes: Vec<Process>,
    /// All processes that were ever started.
    started: usize,
    /// What the next process is.
    version: Version,
    rng: Rng,
    later: BTreeMap<(Micros, u64), Later>,
    /// Changes at one time come in the order in which they were planned.
    next_later: u64,
    /// When links are well again.
    links_until: BTreeMap<Link, Micros>,
    liveness: Liveness,
    listeners: Listeners,
    orphans: Orphans,
    recalls: Recalls,
    /// What servers had when they took over. The news that some of it has ended may be lost.
    pub(super) revived: BTreeSet<Vec<u8>>,
    logs: Logs,
    is_healed: bool,
}

impl Director {
    pub(super) fn new(
        plan: Plan,
        network: Rc<RefCell<Network>>,
        servers: Servers,
        shared: Arc<Shared>,
        rng: Rng,
    ) -> Self {
        let director = Self {
            version: Version::first(plan.may_kill, plan.pace),
            plan,
            network,
            servers,
            shared,
            processes: Vec::new(),
            started: 0,
            rng,
            later: BTreeMap::new(),
            next_later: 0,
            links_until: BTreeMap::new(),
            liveness: Liveness::default(),
            listeners: Listeners::default(),
            orphans: Orphans::default(),
            recalls: Recalls::default(),
            revived: BTreeSet::new(),
            logs: Logs::default(),
            is_healed: false,
        };
        if director.is_quorum() {
            director.note("starts", Effect::Away, 0, COUNTS, 0);
        }
        director
    }

    pub(super) fn network(&self) -> RefMut<'_, Network> {
        self.network.borrow_mut()
    }

    pub(super) fn now(&self) -> Micros {
        self.network.borrow().now()
    }

    pub(super) fn say(&self, text: &str) {
        self.network().say(text);
    }

    /// Notes what a fault takes back that lasts until then.
    pub(super) fn took(&self, fault: Fault, until: Micros) {
        for (effect, after) in fault.takes() {
            self.note(&fault.name(), *effect, self.now(), until + after, 0);
        }
    }

    /// Notes a fault in the history.
    pub(super) fn note(&self, name: &str, effect: Effect, from: Micros, to: Micros, by: Micros) {
        self.note_trouble(name, effect, (from, to), by, None);
    }

    /// The same of a fault that happens to one process.
    pub(super) fn note_of(
        &self,
        process: usize,
        name: &str,
        effect: Effect,
        time: (Micros, Micros),
    ) {
        let whose = self.processes.iter().find(|it| it.id() == process);
        if let Some(whose) = whose.map(|it| it.name.clone()) {
            self.note_trouble(name, effect, time, 0, Some(whose));
        }
    }

    fn note_trouble(
        &self,
        name: &str,
        effect: Effect,
        (from, to): (Micros, Micros),
        by: Micros,
        whose: Option<String>,
    ) {
        let (from, to, amount, name) = (from * 1_000, to * 1_000, by * 1_000, name.to_owned());
        self.shared.note(self.now(), Line::Fault { effect, from, to, amount, name, whose });
    }

    /// Notes until when a lease is promised that a server lacked when it took over.
    pub(super) fn note_forgotten(&self, lock: String, token: u64, until: Micros) {
        self.shared.note(self.now(), Line::Forgotten { lock, token, until: until * 1_000 });
    }

    /// True if a rule may judge now what a process has of a lock: nothing is in its way, and was not for some
    /// time.
    pub(super) fn is_promised(&self, rule: &str, process: usize, lock: &str, now: Micros) -> bool {
        let process = self.processes.iter().find(|it| it.id() == process && !it.is_stopped());
        let at = now * 1_000;
        process.is_some_and(|it| {
            !self.shared.is_neglected(&it.name, lock, now.saturating_sub(GRACE))
                && !self.shared.excuse(rule, &it.name, (at, at))
        })
    }

    pub(super) fn any_host(&self, rng: &mut Rng) -> SocketAddr {
        self.servers.any(rng)
    }

    pub(super) fn any_with_data(&self, rng: &mut Rng) -> SocketAddr {
        self.servers.any_with_data(rng)
    }

    pub(super) fn any_master(&self, rng: &mut Rng) -> SocketAddr {
        self.servers.any_master(&mut self.network(), rng)
    }

    /// A replica, and its master.
    pub(super) fn any_pair(&self, rng: &mut Rng) -> Option<(SocketAddr, SocketAddr)> {
        self.servers.any_pair(&mut self.network(), rng)
    }

    pub(super) fn is_quorum(&self) -> bool {
        matches!(self.plan.deployment, Deployment::Quorum(_))
    }

    /// True in one of so many worlds.
    pub(super) fn is_one_of(&self, worlds: u64) -> bool {
        self.plan.seed.is_multiple_of(worlds)
    }

    pub(super) fn is_group(&self) -> bool {
        self.plan.deployment.is_group()
    }

    /// The servers learn from each other what is due.
    pub(super) fn turn_servers(&mut self) {
        let loss = self.servers.turn(&mut self.network.borrow_mut());
        if self.is_quorum() {
            self.servers.slew(&mut self.network.borrow_mut());
        }
        if let Some(loss) = loss {
            group_faults::lost(self, loss);
        }
    }

    /// Does something to the network at that time.
    pub(super) fn later(&mut self, at: Micros, change: impl FnOnce(&mut Network) + 'static) {
        self.next_later += 1;
        self.later.insert((at, self.next_later), Box::new(change));
    }

    /// Does what is due.
    pub(super) fn catch_up(&mut self) {
        let now = self.now();
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 <= now) {
            let change = entry.remove();
            change(&mut self.network());
        }
        let well: Vec<_> =
            self.links_until.iter().filter(|(_, at)| **at <= now).map(|(link, _)| *link).collect();
        for link in well {
            self.links_until.remove(&link);
            self.network().links.end(link.0, link.1);
        }
        if self.may_be_deaf() {
            self.excuse_unaware();
        }
    }

    /// Ends all faults, at once.
    pub(super) fn heal(&mut self) {
        self.is_healed = true;
        for change in std::mem::take(&mut self.later).into_values() {
            change(&mut self.network());
        }
        self.links_until.clear();
        self.network().heal();
        let now = self.now();
        self.note("healed", Effect::Away, now, now, 0);
        self.set_clocks();
    }

    /// Looks whether a lock stands free for too long or is kept for nobody, and who is not heard.
    pub(super) fn look_at_locks(&mut self) {
        let mut liveness = std::mem::take(&mut self.liveness);
        let mut listeners = std::mem::take(&mut self.listeners);
        let mut orphans = std::mem::take(&mut self.orphans);
        let mut recalls = std::mem::take(&mut self.recalls);
        let mut logs = std::mem::take(&mut self.logs);
        liveness.look(self);
        listeners.look(self);
        orphans.look(self);
        recalls.look(self);
        logs.look(self);
        (self.liveness, self.listeners) = (liveness, listeners);
        (self.orphans, self.recalls, self.logs) = (orphans, recalls, logs);
    }

    /// True if a client may have a connection for messages that is half open, and does not know it yet.
    pub(super) fn may_be_deaf(&self) -> bool {
        self.plan.faults.contains(&Fault::HalfOpen)
    }

    /// True if a process may use a lock: it holds it, or asks for it, or has let it go to another process.
    pub(super) fn uses(&self, process: usize, lock: &str, now: Micros) -> bool {
        let process = self.processes.iter().find(|it| it.id() == process);
        process.is_some_and(|it| self.shared.uses(&it.name, lock, now))
    }

    /// How many requests of a process for a lock its server may have.
    pub(super) fn claims(&self, process: usize, lock: &str, now: Micros) -> usize {
        let process = self.processes.iter().find(|it| it.id() == process);
        process.map_or(0, |it| self.shared.claims(&it.name, lock, now))
    }
}
