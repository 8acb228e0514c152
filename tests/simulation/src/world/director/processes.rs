//! The processes of a world: they start, stop, end and die, and others take their places.

use fastrand::Rng;
use leasehold_history::{Effect, Line};

use super::super::client::{Client, connect};
use super::super::end;
use super::super::turns::Worker;
use super::super::version::Version;
use super::super::wishes::PROBES;
use super::Director;
use super::clocks::rate;
use crate::network::Micros;
use crate::process::Process;

impl Director {
    /// The next process, and what makes a worker of it once it runs.
    fn next_process(
        &mut self,
        name: impl FnOnce(usize) -> String,
    ) -> (Process, impl FnOnce() -> Worker + Send + 'static) {
        let id = self.started;
        self.started += 1;
        let name = name(id);
        // The last one is there when all faults are over.
        let most = if self.is_healed { 0 } else { self.drift().processes };
        let drift = rate(-most, &mut self.rng);
        let process = Process::start(id, name.clone(), &self.network, drift, self.rng.fork());
        let (shared, urls, deployment, version) =
            (self.shared.clone(), self.servers.urls(), self.plan.deployment, self.version);
        let clocks = self.drift();
        (process, move || {
            let client = connect(deployment, &urls);
            Worker::new(name, client, shared, version, (deployment, clocks))
        })
    }

    /// Starts a process that works. Few are of a version of their own: one that is tried out, or a wrong
    /// one.
    pub(in crate::world) fn start_one(&mut self) {
        let usual = self.version;
        if self.rng.u8(..8) == 0 {
            self.version = Version::random(&mut self.rng, self.plan.pace);
        }
        let (process, worker) = self.next_process(|id| format!("p{id}"));
        let (tasks, rng) = (self.plan.tasks, self.rng.fork());
        self.version = usual;
        process.spawn(async move { worker().work(tasks, rng).await });
        self.say(&format!("{} starts", process.name));
        self.processes.push(process);
    }

    /// Starts a process that does just this.
    #[cfg(test)]
    pub(in crate::world) fn start_with<F: Future<Output = ()> + Send>(
        &mut self,
        does: impl FnOnce(Worker) -> F + Send + 'static,
    ) {
        let (process, worker) = self.next_process(|id| format!("p{id}"));
        process.spawn(async move { does(worker()).await });
        self.processes.push(process);
    }

    /// Starts a process of this kind that does just this. Returns its name.
    pub(in crate::world) fn start_to<F: Future<Output = ()> + Send>(
        &mut self,
        kind: &str,
        does: impl FnOnce(Worker) -> F + Send + 'static,
    ) -> String {
        let (process, worker) = self.next_process(|id| format!("{kind}{id}"));
        process.spawn(async move { does(worker()).await });
        self.say(&format!("{} starts", process.name));
        let name = process.name.clone();
        self.processes.push(process);
        name
    }

    /// The process that asks for all locks in the end.
    pub(in crate::world) fn start_last(&mut self) {
        let (process, worker) = self.next_process(|_| "last".to_owned());
        process.spawn(async move { end::ask_for_all(worker()).await });
        self.processes.push(process);
    }

    pub(super) fn any_process(&self, rng: &mut Rng) -> Option<usize> {
        let running = |(at, process): (usize, &Process)| (!process.is_stopped()).then_some(at);
        let all: Vec<_> = self.processes.iter().enumerate().filter_map(running).collect();
        rng.choice(all)
    }

    /// Stops a process for a while.
    pub(in crate::world) fn stop_one(&mut self, time: Micros, clock_stops: bool, rng: &mut Rng) {
        let Some(at) = self.any_process(rng) else { return };
        let now = self.now();
        // Whole milliseconds, as all timers.
        let until = self.processes[at].stop(now, time / 1_000 * 1_000, clock_stops);
        let worker = self.processes[at].name.clone();
        let line = Line::Stopped { worker, from: now * 1_000, to: until * 1_000 };
        self.shared.note(now, line);
    }

    /// Kills a process: often one that is in the middle of a run of a job. Another takes its place.
    pub(in crate::world) fn kill_one(&mut self, rng: &mut Rng) {
        let Some(any) = self.any_process(rng) else { return };
        let runs = |name: &str| self.shared.with_job_runs(|runs| runs.is_running(name));
        let mut all = self.processes.iter();
        let in_a_run = all.position(|it| !it.is_stopped() && runs(&it.name));
        self.kill(in_a_run.filter(|_| rng.bool()).unwrap_or(any));
        self.start_one();
    }

    pub(in crate::world) fn kill(&mut self, at: usize) {
        let mut process = self.processes.remove(at);
        process.kill();
        let now = self.now();
        let line = Line::Dead { worker: process.name.clone(), at: now * 1_000, was_planned: true };
        self.shared.note(now, line);
    }

    /// Tells a process to end. Another takes its place meanwhile, often of another version. The
    /// others stay as they are.
    pub(in crate::world) fn replace_one(&mut self, rng: &mut Rng) {
        if let Some(at) = self.any_process(rng) {
            if rng.bool() {
                let (first, pace) =
                    (Version::first(self.plan.may_kill, self.plan.pace), self.plan.pace);
                self.version = if rng.u8(..4) == 0 { first } else { Version::random(rng, pace) };
                self.say(&format!("the next process is {:?}", self.version));
            }
            let name = self.processes[at].name.clone();
            self.say(&format!("{name} is to end"));
            self.shared.end(&name);
            self.start_one();
        }
    }

    /// Ends all connections to the servers.
    pub(in crate::world) fn end_connections(&mut self) {
        let now = self.now();
        self.note("connections-end", Effect::Away, now, now, 0);
        for address in self.servers.data().to_vec() {
            self.network().host(address).server.end_connections();
        }
    }

    /// Forgets the processes that have ended.
    pub(in crate::world) fn remove_ended(&mut self) {
        let shared = self.shared.clone();
        self.processes.retain(|process| !shared.has_ended(&process.name));
    }

    /// Frees a lock by force, from another process.
    pub(in crate::world) fn force_one(&mut self, rng: &mut Rng) {
        if self.is_quorum() {
            return;
        }
        let (name, _) = PROBES[rng.usize(..PROBES.len())];
        let (process, worker) = self.next_process(|id| format!("operator{id}"));
        process.spawn(async move {
            let worker = worker();
            if let Client::All(locks) = &worker.client {
                let _ = locks.force_release(name).await;
            }
            worker.ends().await;
        });
        self.say(&format!("{} frees {name}", process.name));
        self.processes.push(process);
    }
}
