use std::time::Duration;

use leasehold::{Locks, Wait};
use leasehold_simulation::group::Times;
use leasehold_simulation::network::Host;
use leasehold_simulation::server::cluster::{View, slot_of};
use leasehold_simulation::server::{Server, Settings};
use tokio::time::sleep;

use super::{MS, Notes, SECOND, World, address};

pub(crate) const URL: &str = "redis://10.0.0.1,10.0.0.2,10.0.0.3";

/// Three masters, each with a replica that is a little behind.
pub(crate) fn start() -> (World, View) {
    let mut world = World::new();
    let at = |nth: u8| (address(nth).ip().to_string(), address(nth).port());
    let view = View::of(&[1, 2, 3].map(at), &[4, 5, 6].map(|nth| vec![at(nth)]));
    for nth in 1..=6 {
        let node = |settings, now_us| {
            Server::start_node(settings, now_us, usize::from(nth) - 1, view.clone())
        };
        world.add(address(nth), Host::start_as(u32::from(nth), Settings::default(), node));
    }
    for nth in 1..=3 {
        let mut network = world.network.borrow_mut();
        world.group.follow(&mut network, address(nth + 3), address(nth), MS);
    }
    (world, view)
}

/// Holds the lock from the first second to the end of this time.
async fn hold(notes: Notes, time: Duration) {
    let locks = Locks::connect(URL).await.expect("the nodes are there");
    let held = locks.mutex("a").ttl(Duration::from_secs(6)).lock().await.unwrap();
    notes.add("held");
    sleep(time).await;
    assert!(held.is_held());
    held.release().await.unwrap();
    notes.add("released");
}

async fn wait(notes: Notes) {
    let locks = Locks::connect(URL).await.expect("the nodes are there");
    sleep(Duration::from_secs(1)).await;
    let lease = locks.mutex("a").wait(Wait::Forever).lock().await.unwrap();
    notes.add("got");
    lease.release().await.unwrap();
    notes.add("gave back");
}

#[test]
fn a_lock_is_handed_over_on_a_cluster() {
    let (mut world, _) = start();
    world.start(|notes| hold(notes, Duration::from_secs(20)));
    world.start(wait);
    world.run(30 * SECOND);
    let (released, got) = (world.notes.when("released"), world.notes.when("got"));
    // By a message: a waiter that polls would take longer.
    assert!(got.abs_diff(released) < 12 * MS, "{released} {got}");
    assert!(world.notes.has("gave back"));
}

/// The slot moves while the lock is held and waited for: the lease goes on, and the waiter subscribes
/// again, at the node that has the slot then.
#[test]
fn a_slot_moves_under_a_held_lock() {
    for to in [0, 1] {
        let (mut world, mut view) = start();
        world.start(|notes| hold(notes, Duration::from_secs(20)));
        world.start(wait);
        world.run(4 * SECOND);
        let (slot, now) = (slot_of(b"{a}"), world.now());
        assert_eq!(view.owner(slot), Some(2));
        world.group.move_slot(&mut view, slot, to, now, 100 * MS);
        world.run(7 * SECOND);
        assert!(world.group.is_settled());
        for nth in 1..=6 {
            let mut network = world.network.borrow_mut();
            let server = &network.host(address(nth)).server;
            assert_eq!(server.view().owner(slot), Some(to));
            // The new owner's replica has the keys, too.
            let has = server.keys_in(slot).len() > 1;
            assert_eq!(has, [to + 1, to + 4].contains(&usize::from(nth)));
        }
        world.run(30 * SECOND);
        let (released, got) = (world.notes.when("released"), world.notes.when("got"));
        assert!(got.abs_diff(released) < 12 * MS, "{released} {got}");
        assert!(world.notes.has("gave back"));
    }
}

/// The lock is released at any moment of the move: nobody waits for longer than the move takes.
#[test]
fn a_lock_is_released_while_its_slot_moves() {
    for after in (0..800).step_by(50) {
        let (mut world, mut view) = start();
        world.start(move |notes| hold(notes, Duration::from_millis(4_000 + after)));
        world.start(wait);
        world.run(4 * SECOND);
        let now = world.now();
        world.group.move_slot(&mut view, slot_of(b"{a}"), 0, now, 100 * MS);
        world.run(15 * SECOND);
        let (released, got) = (world.notes.when("released"), world.notes.when("got"));
        let bound = released.max(5 * SECOND) + 2 * SECOND;
        assert!(got < bound, "{after}: {released} {got}");
        assert!(world.notes.has("gave back"));
    }
}

/// A master dies, and its replica has the lock. The holder keeps it, and hands it over.
#[test]
fn a_replica_takes_over_a_held_lock() {
    let (mut world, mut view) = start();
    world.start(|notes| hold(notes, Duration::from_secs(20)));
    world.start(wait);
    world.run(4 * SECOND);
    world.network.borrow_mut().stop(address(3));
    let now = world.now();
    let times = Times { promoted: SECOND, pause: 50 * MS, demoted: 6 * SECOND, lag: MS };
    world.group.take_over(&mut view, 5, now, times);
    world.run(8 * SECOND);
    // It comes back with its keys, and believes that it is the master until it hears of the other.
    world.network.borrow_mut().host(address(3)).restart(true, now);
    world.run(30 * SECOND);
    assert!(world.group.is_settled());
    let (released, got) = (world.notes.when("released"), world.notes.when("got"));
    assert!(got.abs_diff(released) < 12 * MS, "{released} {got}");
    assert!(world.notes.has("gave back"));
}
