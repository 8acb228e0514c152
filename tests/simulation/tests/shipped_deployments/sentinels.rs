use std::time::Duration;

use leasehold::{Locks, Wait};
use leasehold_simulation::group::Times;
use leasehold_simulation::network::{Host, Micros};
use leasehold_simulation::server::sentinel::Sentinel;
use leasehold_simulation::server::{Server, Settings};
use tokio::time::sleep;

use super::{MS, Notes, SECOND, World, address};

const URL: &str = "redis+sentinel://10.0.0.11:6379,10.0.0.12:6379,10.0.0.13:6379/m";

/// The sentinels.
const SENTINELS: [u8; 3] = [11, 12, 13];

/// A master, a replica that is behind by `lag`, and three sentinels.
fn start(lag: Micros) -> World {
    let mut world = World::new();
    for nth in [1, 2] {
        world.add(address(nth), Host::start(u32::from(nth), Settings::default()));
    }
    for nth in SENTINELS {
        let master = (address(1).ip().to_string(), address(1).port());
        let sentinel =
            |settings, now_us| Server::start_sentinel(settings, now_us, Sentinel::of("m", master));
        world.add(address(nth), Host::start_as(u32::from(nth), Settings::default(), sentinel));
    }
    world.group.follow(&mut world.network.borrow_mut(), address(2), address(1), lag);
    world
}

/// The master stops now, for this long.
fn fail_over(world: &mut World, away: Micros) {
    let now = world.now();
    world.network.borrow_mut().stop(address(1));
    let times = Times { promoted: 200 * MS, pause: 100 * MS, demoted: away + 300 * MS, lag: MS };
    let sentinels = SENTINELS.map(address);
    world.group.fail_over((address(1), address(2)), &sentinels, now, times);
    world.run(now + away);
    world.network.borrow_mut().host(address(1)).restart(true, now + away);
}

async fn hold(notes: Notes, time: Duration) {
    let locks = Locks::connect(URL).await.expect("the sentinels name a master");
    let held = locks.mutex("a").ttl(Duration::from_secs(6)).lock().await.unwrap();
    notes.add("held");
    tokio::select! {
        () = sleep(time) => {}
        _ = held.lost() => return notes.add("lost"),
    }
    held.release().await.unwrap();
    notes.add("released");
}

async fn wait(notes: Notes) {
    let locks = Locks::connect(URL).await.expect("the sentinels name a master");
    sleep(Duration::from_secs(1)).await;
    let lease = locks.mutex("a").wait(Wait::Forever).lock().await.unwrap();
    notes.add("got");
    lease.release().await.unwrap();
    notes.add("gave back");
}

/// The replica had the lock: the holder keeps it through the failover.
#[test]
fn a_held_lock_survives_a_failover() {
    let mut world = start(MS);
    world.start(|notes| hold(notes, Duration::from_secs(20)));
    world.start(wait);
    world.run(4 * SECOND);
    fail_over(&mut world, 3 * SECOND);
    world.run(30 * SECOND);
    assert!(world.group.is_settled());
    let (released, got) = (world.notes.when("released"), world.notes.when("got"));
    assert!(got.abs_diff(released) < 12 * MS, "{released} {got}");
    assert!(world.notes.has("gave back"));
}

/// The replica had not: somebody else gets the lock, as the documentation says, and the holder learns
/// it with its next renewal.
#[test]
fn a_failover_loses_a_lock_that_was_not_replicated() {
    let mut world = start(10 * SECOND);
    world.start(|notes| hold(notes, Duration::from_secs(20)));
    world.start(wait);
    world.run(4 * SECOND);
    assert!(world.notes.has("held") && !world.notes.has("got"));
    fail_over(&mut world, 3 * SECOND);
    world.run(30 * SECOND);
    let (lost, got) = (world.notes.when("lost"), world.notes.when("got"));
    assert!(got < 4 * SECOND + 3 * SECOND && lost < 11 * SECOND, "{got} {lost}");
    assert!(world.notes.has("gave back"));
}

/// With `sync_replicas`, a lock that the replica has not is not granted, and so is not lost.
#[test]
fn a_grant_that_is_not_replicated_does_not_count() {
    let mut world = start(10 * SECOND);
    for who in ["first", "second"] {
        world.start(move |notes| async move {
            let options = Locks::builder().sync_replicas(1, Duration::from_millis(300));
            let locks = options.connect(URL).await.expect("the sentinels name a master");
            let lock = locks.mutex("a").ttl(Duration::from_secs(6));
            if who == "first" {
                let error = lock.clone().try_lock().await.expect_err("no replica has it");
                assert!(error.to_string().contains("replicas have it in 300ms"), "{error}");
                notes.add("refused");
            }
            let lease = loop {
                match lock.clone().wait(Duration::from_secs(60)).lock().await {
                    Ok(lease) => break lease,
                    Err(_) => sleep(Duration::from_millis(100)).await,
                }
            };
            notes.add(who);
            sleep(Duration::from_secs(2)).await;
            assert!(lease.is_held());
            lease.release().await.unwrap();
        });
        world.run(SECOND);
    }
    world.run(4 * SECOND);
    assert!(world.notes.has("refused"));
    assert!(!world.notes.has("first") && !world.notes.has("second"));
    fail_over(&mut world, 3 * SECOND);
    world.run(40 * SECOND);
    // The former master confirms what the new one grants.
    let (first, second) = (world.notes.when("first"), world.notes.when("second"));
    assert!(first.min(second) > 7 * SECOND && first.abs_diff(second) >= 2 * SECOND);
}
