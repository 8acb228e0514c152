//! The shipped client on a simulated cluster, and on a master that sentinels name.

mod cluster;
mod ending;
mod random;
mod sentinels;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use leasehold_simulation::group::Group;
use leasehold_simulation::network::{Host, Micros, Network};
use leasehold_simulation::process::{self, Process};
use leasehold_simulation::trace::{Printed, Trace};

const SECOND: Micros = 1_000_000;
const MS: Micros = 1_000;

fn address(nth: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, nth], 6379))
}

/// Servers, processes, and what goes on between them.
struct World {
    network: Rc<RefCell<Network>>,
    group: Group,
    processes: Vec<Process>,
    notes: Notes,
}

impl World {
    fn new() -> Self {
        let network = Network::new(Rng::with_seed(7), Trace::new(Printed::Nothing));
        Self {
            network: Rc::new(RefCell::new(network)),
            group: Group::default(),
            processes: Vec::new(),
            notes: Notes::default(),
        }
    }

    fn add(&mut self, address: SocketAddr, host: Host) {
        self.network.borrow_mut().add(address, host);
    }

    /// Starts a process with a task.
    fn start<F>(&mut self, task: impl FnOnce(Notes) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let id = self.processes.len();
        let rng = Rng::with_seed(id as u64);
        let process = Process::start(id, format!("p{id}"), &self.network, 0, rng);
        process.spawn(task(self.notes.clone()));
        self.processes.push(process);
    }

    fn now(&self) -> Micros {
        self.network.borrow().now()
    }

    fn run(&mut self, until: Micros) {
        while self.now() < until {
            let next = self.now() + MS;
            for process in &mut self.processes {
                process.drive(next);
            }
            let mut network = self.network.borrow_mut();
            network.run_until(next);
            self.group.turn(&mut network);
        }
    }
}

/// What happened, and when.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<(&'static str, Micros)>>>);

impl Notes {
    fn add(&self, what: &'static str) {
        self.0.lock().unwrap().push((what, process::now()));
    }

    /// When it happened.
    #[track_caller]
    fn when(&self, what: &str) -> Micros {
        let all = self.0.lock().unwrap();
        let found = all.iter().find(|(name, _)| *name == what);
        found.unwrap_or_else(|| panic!("{what}: {all:?}")).1
    }

    fn has(&self, what: &str) -> bool {
        self.0.lock().unwrap().iter().any(|(name, _)| *name == what)
    }
}
