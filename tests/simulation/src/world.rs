//! A world: processes whose tasks use locks at random, servers and links that meet faults, and what
//! must hold meanwhile. One number decides all of it.

mod acquire;
mod answers;
mod claims;
mod client;
mod client_mistakes;
mod director;
mod elections;
mod end;
mod faults;
mod forgeries;
mod front_doors;
mod group_faults;
mod holding;
mod job_runs;
mod jobs;
mod kept;
mod last_jobs;
mod lasting;
mod listeners;
mod liveness;
mod logs;
mod metrics;
mod mistakes;
mod odd_servers;
mod operators;
mod orphans;
mod overview;
mod plan;
#[cfg(test)]
mod quiet;
mod rates;
mod recalls;
mod rules;
mod script_lines;
mod servers;
mod shared;
mod standstill;
mod told;
mod told_losses;
mod turns;
mod upgrades;
mod version;
mod wishes;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use fastrand::Rng;
use leasehold_history::{Judged, Verdict, check};

pub use self::client_mistakes::{CLIENT_MISTAKES, ClientMistake};
use self::director::Director;
pub use self::faults::Fault;
use self::logs::LogListener;
pub use self::mistakes::{MISTAKES, Mistake};
pub use self::plan::{Deployment, Only, Plan};
pub use self::rules::{rule_named, rules_that_judged_nothing};
pub use self::script_lines::ScriptLine;
use self::servers::Servers;
use self::shared::Shared;
use crate::network::{LATENCY, Micros, Network};
use crate::trace::Trace;

/// How far a process is driven ahead of the network. Its timers are late by up to a millisecond, so
/// this is less than bytes travel by as much.
const TURN: Micros = LATENCY - 1_000;

const SECOND: Micros = 1_000_000;

/// Within so many nanoseconds a request is in its server's queue.
const QUEUED: u64 = 300_000_000;

/// Within this time all is over when nothing is in the way any more.
const END: Micros = 120 * SECOND;

/// What a run was, and what it found.
#[derive(Debug)]
pub struct Report {
    /// A hash of all events, with their times.
    pub hash: u64,
    pub requests: u64,
    pub grants: u64,
    pub violations: Vec<String>,
    /// How often each rule has judged something.
    pub judged: Judged,
}

/// Runs a world.
pub fn run(plan: &Plan) -> Report {
    let mut rng = Rng::with_seed(plan.seed);
    fastrand::seed(rng.u64(..));
    let trace = Trace::new(plan.printed.clone());
    let network = Rc::new(RefCell::new(Network::new(rng.fork(), trace)));
    let servers = Servers::start(plan, &mut network.borrow_mut());
    let shared = Arc::new(Shared::new(Trace::new(plan.printed.clone())));
    let _listening = tracing::subscriber::set_default(LogListener::new(plan, shared.clone()));
    let mut director =
        Director::new(plan.clone(), network.clone(), servers, shared.clone(), rng.fork());
    work(plan, &mut director, &mut rng);
    let is_found = plan.ends_early && has_violation(&mut director);
    if !is_found {
        finish(&mut director, &shared);
    }
    answers::look(&shared);
    rates::check_order(&shared);
    shared.judge_suspected();
    let Verdict { wrong: mut violations, mut judged } = shared.take_verdict();
    let (history, hash) = shared.take_history();
    if !is_found {
        let has_queue = !matches!(plan.deployment, Deployment::Quorum(_));
        let of_history = check(&history, has_queue.then_some(QUEUED));
        violations.extend(of_history.wrong);
        judged += &of_history.judged;
    }
    let addresses = director.servers.data().to_vec();
    for address in addresses {
        let mut network = network.borrow_mut();
        let server = &mut network.host(address).server;
        violations.extend(server.take_violations());
        if let Some(oracle) = server.oracle() {
            judged += &oracle.judged;
        }
    }
    violations.truncate(20);
    let figures = history.figures();
    let hash = hash ^ network.borrow().trace.hash().rotate_left(1);
    let (requests, grants) = (figures.get("asked"), figures.get("granted"));
    Report { hash, requests, grants, violations, judged }
}

/// The processes work, and things go wrong.
fn work(plan: &Plan, director: &mut Director, rng: &mut Rng) {
    director.let_clocks_drift(rng);
    for _ in 0..plan.processes {
        director.start_one();
    }
    let ends = plan.seconds * SECOND;
    let troubled = if plan.has_calm { ends / 2 } else { ends };
    let mut next = rng.u64(..2 * SECOND);
    let faults: Vec<_> = plan.faults.iter().copied().collect();
    while director.now() < ends && !(plan.ends_early && has_violation(director)) {
        director.catch_up();
        if (next..troubled).contains(&director.now()) && !faults.is_empty() {
            let fault = faults[rng.usize(..faults.len())];
            director.say(&format!("fault: {}", fault.name()));
            let over = fault.happen(director, rng);
            // Faults overlap now and then.
            let pause = rng.u64(..plan.pause * SECOND);
            next = if rng.u8(..4) == 0 { director.now() + pause / 10 } else { over + pause };
        }
        director.remove_ended();
        turn(director);
    }
}

/// Returns true if the oracle of a server has found something.
fn has_violation(director: &mut Director) -> bool {
    let addresses = director.network().addresses();
    let mut network = director.network();
    addresses.into_iter().any(|address| {
        network.host(address).server.oracle().is_some_and(|it| !it.violations.is_empty())
    })
}

/// Everybody acts for so long.
fn turn(director: &mut Director) {
    let until = director.now() + TURN;
    for process in &mut director.processes {
        process.drive(until);
    }
    director.network().run_until(until);
    director.turn_servers();
    director.look_at_locks();
}

/// Nothing goes wrong any more: all processes end in order, each lock is free soon, and then nothing
/// is left.
fn finish(director: &mut Director, shared: &Shared) {
    director.heal();
    for process in &director.processes {
        shared.end(&process.name);
    }
    if !run_until_ended(director) {
        shared.violation(standstill::told(director, shared));
        return;
    }
    director.start_last();
    if !run_until_ended(director) {
        shared.violation(standstill::told(director, shared));
        return;
    }
    if last_jobs::look(director, shared).is_none() {
        shared.violation(standstill::told(director, shared));
        return;
    }
    let over = director.now() + 4 * 60 * SECOND;
    while director.now() < over {
        let until = director.now() + SECOND / 10;
        director.network().run_until(until);
        director.turn_servers();
    }
    rates::check(director);
    let left = end::leftovers(&mut director.network());
    if !left.is_empty() {
        shared.violation(format!("left: {left:?}"));
    }
}

/// Returns false if somebody does not end.
fn run_until_ended(director: &mut Director) -> bool {
    let until = director.now() + END;
    while director.now() < until {
        director.remove_ended();
        if director.processes.is_empty() {
            return true;
        }
        turn(director);
    }
    false
}
