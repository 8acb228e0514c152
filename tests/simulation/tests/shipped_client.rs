//! The shipped client in a simulated world: nothing of it but `system` knows.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use leasehold::{LockError, Locks, Wait};
use leasehold_simulation::network::{Host, Micros, Network};
use leasehold_simulation::process::{self, Process};
use leasehold_simulation::server::Settings;
use leasehold_simulation::trace::{Printed, Trace};
use tokio::time::sleep;

const SECOND: Micros = 1_000_000;

/// A network with one server.
fn network() -> Rc<RefCell<Network>> {
    let mut network = Network::new(Rng::with_seed(7), Trace::new(Printed::Nothing));
    network.add(SocketAddr::from(([10, 0, 0, 1], 6379)), Host::start(1, Settings::default()));
    Rc::new(RefCell::new(network))
}

/// Starts a process.
fn start(network: &Rc<RefCell<Network>>, id: usize) -> Process {
    Process::start(id, format!("p{id}"), network, 0, Rng::with_seed(id as u64))
}

/// Drives all of them until then.
fn run(network: &RefCell<Network>, processes: &mut [Process], until: Micros) {
    while network.borrow().now() < until {
        let next = network.borrow().now() + 1_000;
        for process in &mut *processes {
            process.drive(next);
        }
        network.borrow_mut().run_until(next);
    }
}

async fn client() -> Locks {
    Locks::connect("redis://10.0.0.1:6379").await.expect("the server is there")
}

/// What happened, and when.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<(&'static str, Micros)>>>);

impl Notes {
    fn add(&self, what: &'static str) {
        self.0.lock().unwrap().push((what, process::now()));
    }

    fn when(&self, what: &str) -> Option<Micros> {
        self.0.lock().unwrap().iter().find(|(name, _)| *name == what).map(|(_, at)| *at)
    }
}

#[test]
fn locks_exclude_each_other_and_are_handed_over() {
    let (network, notes) = (network(), Notes::default());
    let mut processes = [start(&network, 0), start(&network, 1)];
    let (holder, waiter) = (notes.clone(), notes.clone());
    processes[0].spawn(async move {
        let held = client().await.mutex("a").ttl(Duration::from_secs(1)).lock().await.unwrap();
        holder.add("held");
        // Renewals keep it for far longer than its TTL.
        sleep(Duration::from_secs(30)).await;
        assert!(held.is_held());
        held.release().await.unwrap();
        holder.add("released");
    });
    processes[1].spawn(async move {
        let locks = client().await;
        sleep(Duration::from_secs(1)).await;
        let busy = locks.mutex("a").try_lock().await;
        assert!(matches!(busy, Err(LockError::Busy { .. })), "{busy:?}");
        let lease = locks.mutex("a").wait(Wait::Forever).lock().await.unwrap();
        waiter.add("got");
        lease.release().await.unwrap();
    });
    run(&network, &mut processes, 40 * SECOND);
    let (released, got) = (notes.when("released").unwrap(), notes.when("got").unwrap());
    assert!(got.abs_diff(released) < 10_000, "{released} {got}");
    let mut network = network.borrow_mut();
    let host = network.host(SocketAddr::from(([10, 0, 0, 1], 6379)));
    let core = host.server.core().borrow();
    for (key, entry) in core.databases.values().flat_map(|keys| keys.live(core.now_us / 1_000)) {
        assert!(entry.expires_ms.is_some(), "{}", String::from_utf8_lossy(key));
    }
}

/// A killed process holds its lock for the rest of its TTL, and not longer.
#[test]
fn a_killed_process_loses_its_lock() {
    let (network, notes) = (network(), Notes::default());
    let mut processes = vec![start(&network, 0), start(&network, 1)];
    processes[0].spawn(async {
        let _held = client().await.mutex("a").ttl(Duration::from_secs(3)).lock().await.unwrap();
        std::future::pending::<()>().await;
    });
    let waiter = notes.clone();
    processes[1].spawn(async move {
        sleep(Duration::from_secs(1)).await;
        let lease = client().await.mutex("a").wait(Wait::Forever).lock().await.unwrap();
        waiter.add("got");
        lease.release().await.unwrap();
    });
    run(&network, &mut processes, 10 * SECOND);
    assert_eq!(notes.when("got"), None);
    processes[0].kill();
    run(&network, &mut processes, 20 * SECOND);
    let got = notes.when("got").unwrap();
    assert!((12 * SECOND..13 * SECOND + 100_000).contains(&got), "{got}");
}

/// A paused process holds nothing when it goes on, and learns that at once.
#[test]
fn a_paused_process_has_lost_its_lease() {
    for clock_stops in [false, true] {
        let (network, notes) = (network(), Notes::default());
        let mut processes = [start(&network, 0)];
        let holder = notes.clone();
        processes[0].spawn(async move {
            let held = client().await.mutex("a").ttl(Duration::from_secs(2)).lock().await.unwrap();
            holder.add("held");
            held.lost().await;
            holder.add("lost");
        });
        run(&network, &mut processes, 5 * SECOND);
        assert!(notes.when("held").is_some() && notes.when("lost").is_none());
        processes[0].stop(5 * SECOND, 60 * SECOND, clock_stops);
        run(&network, &mut processes, 70 * SECOND);
        let lost = notes.when("lost").unwrap();
        assert!((65 * SECOND..=66 * SECOND + 10_000).contains(&lost), "{lost}");
    }
}

/// The world's time is its own.
#[test]
fn minutes_go_by_at_once() {
    let (network, notes) = (network(), Notes::default());
    let mut processes = [start(&network, 0)];
    let holder = notes.clone();
    processes[0].spawn(async move {
        let held = client().await.mutex("a").ttl(Duration::from_secs(60)).lock().await.unwrap();
        sleep(Duration::from_secs(300)).await;
        assert!(held.is_held());
        held.release().await.unwrap();
        holder.add("released");
    });
    run(&network, &mut processes, 301 * SECOND);
    assert!(notes.when("released").is_some());
}
