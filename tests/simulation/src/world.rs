//! A world: clients whose tasks use locks at random, a server that meets faults, and what must hold
//! meanwhile. One number decides all of it.

mod holders;
mod workload;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use leasehold::Locks;
use leasehold::system::simulation::enter;
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep};

use self::holders::Holders;
use crate::network::{Faults, Network};
use crate::trace::Trace;

const URL: &str = "redis://10.0.0.1:6379";

/// What a run was, and what it found.
#[derive(Debug)]
pub struct Report {
    /// Of all events, with their times.
    pub hash: u64,
    pub grants: u64,
    pub violations: Vec<String>,
}

/// Runs the world of a seed for so many simulated seconds. Prints its events if it is `told`.
///
/// # Panics
///
/// If there is no runtime.
#[must_use]
pub fn run(seed: u64, seconds: u64, told: bool) -> Report {
    fastrand::seed(seed);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let report = LocalSet::new().block_on(&runtime.expect("a runtime"), async {
        let network = Network::start(seed);
        enter(Some(network.clone()));
        live(&network, seed, seconds, told).await
    });
    enter(None);
    report
}

async fn live(network: &Rc<Network>, seed: u64, seconds: u64, told: bool) -> Report {
    let mut rng = Rng::with_seed(seed);
    let trace = Rc::new(RefCell::new(Trace::new(told)));
    let holders = Rc::new(RefCell::new(Holders::default()));
    let ends = Instant::now() + Duration::from_secs(seconds);
    let (mut clients, mut tasks) = (Vec::new(), Vec::new());
    for client in 0..3 {
        let locks = Locks::connect(URL).await.expect("there are no faults yet");
        for task in 0..4 {
            let who = format!("client {client}, task {task}");
            let task = workload::Task {
                who,
                locks: locks.clone(),
                rng: rng.fork(),
                trace: trace.clone(),
                holders: holders.clone(),
            };
            tasks.push(spawn_local(task.work(ends)));
        }
        clients.push(locks);
    }
    let faults = spawn_local(meet_faults(network.clone(), rng.fork(), trace.clone(), ends));
    for task in tasks {
        if let Err(error) = task.await {
            holders.borrow_mut().violations.push(format!("a task panicked: {error}"));
        }
    }
    // Nothing is in the way any more: each lock is free soon.
    faults.abort();
    network.heal();
    let last = Locks::connect(URL).await.expect("there are no faults any more");
    for name in workload::MUTEXES {
        let begun = Instant::now();
        match last.mutex(name).wait(Duration::from_secs(60)).lock().await {
            Ok(lease) => drop(lease.release().await),
            Err(error) => holders.borrow_mut().violations.push(format!("at the end: {error}")),
        }
        trace.borrow_mut().say(&format!("{name} was free after {:?}", begun.elapsed()));
    }
    for client in clients {
        let _ = client.shutdown().await;
    }
    let _ = last.shutdown().await;
    let Holders { grants, violations, .. } = holders.take();
    Report { hash: trace.borrow().hash(), grants, violations }
}

async fn meet_faults(network: Rc<Network>, mut rng: Rng, trace: Rc<RefCell<Trace>>, ends: Instant) {
    while Instant::now() < ends {
        sleep(Duration::from_millis(rng.u64(200..6000))).await;
        let (faults, text) = match rng.u8(0..4) {
            0 => (Faults::default(), "the network is well"),
            1 => (Faults { cut_before: 20, cut_after: 20, stall: 10 }, "the network is bad"),
            2 => {
                network.freeze(Duration::from_millis(rng.u64(50..5000)));
                (Faults::default(), "the server freezes")
            }
            _ => (Faults { cut_before: 2, cut_after: 2, stall: 1 }, "the network is poor"),
        };
        trace.borrow_mut().say(text);
        network.set_faults(faults);
    }
}
