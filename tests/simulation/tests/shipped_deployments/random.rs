//! Several clients on a cluster where slots move and masters die, at random moments. No change is
//! lost in a failover here: so no lock may ever have two holders, and nobody may wait for long.
//!
//! `SEEDS` says how many worlds; `SEED` the first.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use leasehold::{Locks, Wait};
use leasehold_simulation::group::Times;
use leasehold_simulation::network::{Condition, LONGEST_STALL, LinkFaults, Micros};
use leasehold_simulation::process;
use leasehold_simulation::repeat::let_repeat;
use leasehold_simulation::server::cluster::{View, slot_of};
use tokio::time::sleep;

use super::cluster::{URL, start};
use super::{MS, SECOND, World, address};

const LOCKS: [&str; 4] = ["a", "b", "c", "d"];

/// When clients stop asking, and when the last of them must have ended.
const ENDS: Micros = 40 * SECOND;
const ENDED: Micros = ENDS + 30 * SECOND;

/// The longest that a fault keeps a lock from its waiters, and a lease from ending.
const LONGEST: Micros = 12 * SECOND;

/// Who holds what, and what was wrong.
#[derive(Default)]
struct Seen {
    holders: BTreeMap<&'static str, (usize, u64)>,
    tokens: BTreeMap<&'static str, u64>,
    grants: u64,
    /// A hash of all grants, with their times.
    hash: u64,
    ended: usize,
    wrong: Vec<String>,
}

type Shared = Arc<Mutex<Seen>>;

async fn work(who: usize, mut rng: Rng, seen: Shared) {
    let locks = Locks::connect(URL).await.expect("the nodes are there");
    while process::now() < ENDS {
        let name = LOCKS[rng.usize(..LOCKS.len())];
        sleep(Duration::from_millis(rng.u64(..300))).await;
        let lock = locks.mutex(name).ttl(Duration::from_secs(3)).wait(Wait::Forever);
        let asked = process::now();
        let Ok(lease) = lock.lock().await else { continue };
        let (granted, token) = (process::now(), lease.fence().map_or(0, u64::from));
        {
            let seen = &mut *seen.lock().unwrap();
            seen.grants += 1;
            for part in [granted, who as u64, token] {
                seen.hash = (seen.hash ^ part).wrapping_mul(0x0100_0000_01b3).rotate_left(7);
            }
            if granted - asked > 3 * LONGEST {
                seen.wrong.push(format!("{granted}: {who} waited {} for {name}", granted - asked));
            }
            let last = seen.tokens.entry(name).or_default();
            if token <= *last {
                seen.wrong.push(format!("{granted}: {who} got {name} {token} after {last}"));
            }
            *last = token;
            if let Some(other) = seen.holders.insert(name, (who, token)) {
                seen.wrong.push(format!("{granted}: {who} got {name} {token}, held by {other:?}"));
            }
        }
        // Some are held for longer than their TTL.
        let longest = if rng.u8(..4) == 0 { 5_000 } else { 400 };
        let until = Duration::from_millis(rng.u64(..longest));
        tokio::select! {
            () = sleep(until) => {}
            _ = lease.lost() => {}
        }
        let own = (who, token);
        seen.lock().unwrap().holders.retain(|_, holder| *holder != own);
        let _ = lease.release().await;
    }
    let _ = locks.shutdown().await;
    seen.lock().unwrap().ended += 1;
}

/// Lets one thing go wrong. Returns when it is over.
fn disturb(world: &mut World, view: &mut View, rng: &mut Rng) -> Micros {
    let now = world.now();
    let masters: Vec<_> = (0..6).filter(|nth| view.nodes[*nth].master.is_none()).collect();
    let master = masters[rng.usize(..masters.len())];
    let at = address(u8::try_from(master).unwrap() + 1);
    match rng.u8(..6) {
        4 | 5 => {
            let process = rng.usize(..world.processes.len());
            let often = [5, 50, 200][rng.usize(..3)];
            let (cuts, stall) = if rng.bool() { (often, 0) } else { (0, often) };
            let faults = LinkFaults {
                cut_before: cuts,
                cut_halfway: cuts,
                cut_after: cuts,
                stall,
                longest_stall: LONGEST_STALL,
                blocked_until: None,
            };
            world.network.borrow_mut().links.disturb(process, None, faults);
            world.run(now + rng.u64(..3 * SECOND));
            world.network.borrow_mut().links.end(process, None);
        }
        0 | 1 => {
            let name = LOCKS[rng.usize(..LOCKS.len())];
            let pause = rng.u64(MS..200 * MS);
            world.group.move_slot(
                view,
                slot_of(format!("{{{name}}}").as_bytes()),
                master,
                now,
                pause,
            );
            while !world.group.is_settled() {
                world.run(world.now() + 10 * MS);
            }
        }
        2 => {
            let until = now + rng.u64(10 * MS..1500 * MS);
            world.network.borrow_mut().host(at).condition = Condition::FrozenUntil(until);
            return until;
        }
        _ => {
            let heirs: Vec<_> =
                (0..6).filter(|nth| view.nodes[*nth].master == Some(master)).collect();
            let Some(heir) = heirs.first() else { return now };
            world.network.borrow_mut().stop(at);
            let (promoted, pause) = (rng.u64(100 * MS..2 * SECOND), rng.u64(MS..300 * MS));
            let back = promoted + 6 * pause;
            let times = Times { promoted, pause, demoted: back, lag: MS };
            world.group.take_over(view, *heir, now, times);
            world.run(now + back);
            // It starts again, and hears of its end before any client asks it.
            let mut network = world.network.borrow_mut();
            network.host(at).restart(true, now + back);
            network.host(at).server.hear(view);
        }
    }
    world.now()
}

#[test]
fn locks_hold_while_slots_move_and_masters_die() {
    let number = |name| std::env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    let (first, count) = (number("SEED").unwrap_or(1), number("SEEDS").unwrap_or(1));
    for seed in first..first + count {
        let mut rng = Rng::with_seed(seed);
        fastrand::seed(rng.u64(..));
        let (mut world, mut view) = start();
        let seen = Shared::default();
        for who in 0..6 {
            let (rng, seen) = (rng.fork(), seen.clone());
            world.start(move |_| work(who, rng, seen));
        }
        world.run(2 * SECOND);
        while world.now() < ENDS {
            let over = disturb(&mut world, &mut view, &mut rng);
            let pause = rng.u64(..3 * SECOND);
            world.run(over.max(world.now()) + pause);
        }
        world.network.borrow_mut().heal();
        world.run(ENDED);
        let seen = seen.lock().unwrap();
        println!("seed {seed}: {} grants, {:016x}", seen.grants, seen.hash);
        assert!(seen.wrong.is_empty(), "seed {seed}: {:#?}", seen.wrong);
        assert_eq!(seen.ended, 6, "seed {seed}: somebody still waits");
        assert!(seen.grants > 50, "seed {seed}: {} grants", seen.grants);
    }
}

/// The driver's connections to a cluster are a part of it, with all that they choose at random.
#[test]
fn the_same_seed_gives_the_same_events() {
    let run = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let_repeat(&mut command);
        command.args(["locks_hold_while", "--nocapture", "--test-threads", "1"]);
        let output = command.env("SEED", "5").env("SEEDS", "1").output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{said}");
        let line = said.lines().find(|line| line.contains("seed 5: ")).map(str::to_owned);
        line.expect("a line about the seed")
    };
    assert_eq!(run(), run());
}
