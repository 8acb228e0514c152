//! Who lets things go wrong: starts processes, disturbs links and servers, stops and kills.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use fastrand::Rng;
use leasehold_history::{Effect, Line};

use super::client::{Client, connect};
use super::group_faults;
use super::liveness::Liveness;
use super::plan::{Deployment, Plan};
use super::servers::Servers;
use super::shared::Shared;
use super::turns::Worker;
use super::version::Version;
use super::wishes::PROBES;
use crate::network::{LONGEST_STALL, LinkFaults, Micros, Network};
use crate::process::Process;

/// So long after a fault nothing is promised to those who wait: they ask again every two seconds, and
/// connect again before.
const GRACE: Micros = 3_000_000;

type Later = Box<dyn FnOnce(&mut Network)>;

pub(super) struct Director {
    plan: Plan,
    network: Rc<RefCell<Network>>,
    pub(super) servers: Servers,
    shared: Arc<Shared>,
    pub(super) processes: Vec<Process>,
    /// All processes that were ever started.
    started: usize,
    /// What the next process is.
    version: Version,
    rng: Rng,
    later: BTreeMap<(Micros, u64), Later>,
    /// Of two changes at one time, the one that was planned first comes first.
    next_later: u64,
    /// When links are well again.
    links_until: BTreeMap<usize, Micros>,
    /// Until when nothing is promised to those who wait: to all of them, and to those of a process.
    disturbed_until: Micros,
    processes_disturbed_until: BTreeMap<usize, Micros>,
    liveness: Liveness,
}

impl Director {
    pub(super) fn new(
        plan: Plan,
        network: Rc<RefCell<Network>>,
        servers: Servers,
        shared: Arc<Shared>,
        rng: Rng,
    ) -> Self {
        Self {
            plan,
            network,
            servers,
            shared,
            processes: Vec::new(),
            started: 0,
            version: Version::FIRST,
            rng,
            later: BTreeMap::new(),
            next_later: 0,
            links_until: BTreeMap::new(),
            disturbed_until: 0,
            processes_disturbed_until: BTreeMap::new(),
            liveness: Liveness::default(),
        }
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

    /// Notes a fault in the history.
    pub(super) fn note(
        &mut self,
        name: &str,
        effect: Effect,
        from: Micros,
        to: Micros,
        by: Micros,
    ) {
        self.disturbed_until = self.disturbed_until.max(to + by + GRACE);
        self.note_of_links(name, effect, from, to, by);
    }

    /// The same of a fault that only some processes notice.
    pub(super) fn note_of_links(
        &self,
        name: &str,
        effect: Effect,
        from: Micros,
        to: Micros,
        by: Micros,
    ) {
        self.shared.note(
            self.now(),
            Line::Fault {
                effect,
                from: from * 1_000,
                to: to * 1_000,
                amount: by * 1_000,
                name: name.to_owned(),
            },
        );
    }

    /// Nothing is promised to the waiters of a process until then.
    pub(super) fn disturb(&mut self, process: usize, until: Micros) {
        let known = self.processes_disturbed_until.entry(process).or_default();
        *known = (*known).max(until + GRACE);
    }

    /// True while nothing is promised to any waiter.
    pub(super) fn is_disturbed(&self) -> bool {
        self.now() < self.disturbed_until
    }

    /// True if nothing is in the way of a process's waiters, and was not for some time.
    pub(super) fn is_promised(&self, process: usize, now: Micros) -> bool {
        let own = self.processes_disturbed_until.get(&process).copied().unwrap_or_default();
        self.processes.iter().any(|it| it.id() == process && !it.is_stopped())
            && now >= self.disturbed_until.max(own)
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

    pub(super) fn is_group(&self) -> bool {
        self.plan.deployment.is_group()
    }

    /// The servers learn from each other what is due.
    pub(super) fn turn_servers(&mut self) {
        let loss = self.servers.turn(&mut self.network.borrow_mut());
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
            self.links_until.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id).collect();
        for process in well {
            self.links_until.remove(&process);
            self.network().set_faults(process, LinkFaults::default());
        }
    }

    /// Ends all faults, at once.
    pub(super) fn heal(&mut self) {
        for change in std::mem::take(&mut self.later).into_values() {
            change(&mut self.network());
        }
        self.links_until.clear();
        self.network().heal();
        self.disturbed_until = self.disturbed_until.max(self.now() + GRACE);
        // Where several clocks decide, they must agree. One that is hours behind keeps leases for as
        // long.
        let now = self.now();
        let is_alone = self.plan.deployment == Deployment::Single;
        let addresses = self.servers.data().to_vec();
        // Where one of them may take over, none goes back: leases would last for longer.
        let ahead_of = |address: &SocketAddr| self.network().host(*address).ahead_us;
        let most = addresses.iter().map(ahead_of).max().unwrap_or_default();
        let to = if self.is_group() { most.max(0) } else { 0 };
        for address in addresses {
            let ahead = self.network().host(address).ahead_us;
            if is_alone && ahead >= 0 || self.is_group() && ahead == to {
                continue;
            }
            self.network().host(address).ahead_us = to;
            self.note("clocks-set", Effect::Forgets, now, now, 0);
            self.note("clocks-set-back", Effect::Behind, now, now, ahead.unsigned_abs());
        }
    }

    /// The next process, and what makes a worker of it once it runs.
    fn next_process(
        &mut self,
        name: impl FnOnce(usize) -> String,
    ) -> (Process, impl FnOnce() -> Worker + Send + 'static) {
        let id = self.started;
        self.started += 1;
        let name = name(id);
        let process = Process::start(id, name.clone(), &self.network, 0, self.rng.fork());
        let (shared, urls, deployment, version) =
            (self.shared.clone(), self.servers.urls(), self.plan.deployment, self.version);
        (process, move || Worker::new(name, connect(deployment, &urls), shared, version))
    }

    /// Starts a process that works.
    pub(super) fn start_one(&mut self) {
        let (process, worker) = self.next_process(|id| format!("p{id}"));
        let (tasks, rng) = (self.plan.tasks, self.rng.fork());
        process.spawn(async move { worker().work(tasks, rng).await });
        self.say(&format!("{} starts", process.name));
        self.processes.push(process);
    }

    /// Starts a process that does just this.
    #[cfg(test)]
    pub(super) fn start_with<F: Future<Output = ()> + Send>(
        &mut self,
        does: impl FnOnce(Worker) -> F + Send + 'static,
    ) {
        let (process, worker) = self.next_process(|id| format!("p{id}"));
        process.spawn(async move { does(worker()).await });
        self.processes.push(process);
    }

    /// The process that asks for all locks in the end.
    pub(super) fn start_last(&mut self) {
        let (process, worker) = self.next_process(|_| "last".to_owned());
        process.spawn(async move { super::end::ask_for_all(worker()).await });
        self.processes.push(process);
    }

    /// Disturbs the way of one process, or of all.
    pub(super) fn disturb_links(&mut self, faults: LinkFaults, time: Micros, rng: &mut Rng) {
        let until = self.now() + time;
        let all: Vec<_> = self.processes.iter().map(Process::id).collect();
        let ids =
            if rng.bool() || all.is_empty() { all } else { vec![all[rng.usize(..all.len())]] };
        for id in ids {
            self.network().set_faults(id, faults);
            self.links_until.insert(id, until);
            self.disturb(id, until + LONGEST_STALL);
        }
    }

    fn any_process(&self, rng: &mut Rng) -> Option<usize> {
        let running = |(at, process): (usize, &Process)| (!process.is_stopped()).then_some(at);
        let all: Vec<_> = self.processes.iter().enumerate().filter_map(running).collect();
        rng.choice(all)
    }

    /// Stops a process for a while.
    pub(super) fn stop_one(&mut self, time: Micros, clock_stops: bool, rng: &mut Rng) {
        let Some(at) = self.any_process(rng) else { return };
        let now = self.now();
        // Whole milliseconds, as all timers.
        let until = self.processes[at].stop(now, time / 1_000 * 1_000, clock_stops);
        self.disturb(self.processes[at].id(), until);
        let worker = self.processes[at].name.clone();
        let line = Line::Stopped { worker, from: now * 1_000, to: until * 1_000 };
        self.shared.note(now, line);
    }

    /// Kills a process. Another takes its place.
    pub(super) fn kill_one(&mut self, rng: &mut Rng) {
        let Some(at) = self.any_process(rng) else { return };
        let mut process = self.processes.remove(at);
        process.kill();
        let now = self.now();
        let line = Line::Dead { worker: process.name.clone(), at: now * 1_000, was_planned: true };
        self.shared.note(now, line);
        self.start_one();
    }

    /// Tells a process to end. Another takes its place meanwhile, often of another version. The
    /// others stay as they are.
    pub(super) fn replace_one(&mut self, rng: &mut Rng) {
        if let Some(at) = self.any_process(rng) {
            if rng.bool() {
                self.version = if rng.u8(..4) == 0 { Version::FIRST } else { Version::random(rng) };
                self.say(&format!("the next process is {:?}", self.version));
            }
            let name = self.processes[at].name.clone();
            self.say(&format!("{name} is to end"));
            self.shared.end(&name);
            self.start_one();
        }
    }

    /// Looks whether a lock stands free for too long.
    pub(super) fn look_for_waiters(&mut self) {
        let mut liveness = std::mem::take(&mut self.liveness);
        for late in liveness.look(self) {
            self.shared.violation(late);
        }
        self.liveness = liveness;
    }

    /// Forgets the processes that have ended.
    pub(super) fn remove_ended(&mut self) {
        let shared = self.shared.clone();
        self.processes.retain(|process| !shared.has_ended(&process.name));
    }

    /// Frees a lock by force, from another process.
    pub(super) fn force_one(&mut self, rng: &mut Rng) {
        if matches!(self.plan.deployment, Deployment::Quorum(_)) {
            return;
        }
        let (name, _) = PROBES[rng.usize(..PROBES.len())];
        let (process, worker) = self.next_process(|id| format!("operator{id}"));
        process.spawn(async move {
            let worker = worker();
            if let Client::All(locks) = &worker.client {
                let _ = locks.force_release(name).await;
            }
            worker.client.shut_down().await;
            worker.shared.ended(&worker.name);
        });
        self.say(&format!("{} frees {name}", process.name));
        self.processes.push(process);
    }
}
