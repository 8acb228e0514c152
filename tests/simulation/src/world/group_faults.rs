//! What goes wrong only where several servers belong together.

use fastrand::Rng;
use leasehold_history::Effect;

use super::director::Director;
use super::faults::{Fault, IDLE, NEXT_ASK};
use super::servers::Loss;
use super::wishes::PROBES;
use crate::group::Times;
use crate::network::{Condition, Micros};

const MS: Micros = 1_000;

/// The most keys of a lock, each of which moves after a pause; the nodes hear of it after as many.
const MOVES: Micros = 40;

/// A replica takes its master's place: because that died, is frozen, or is cut off from the others,
/// and goes on granting for a while. Later the former master is a replica.
pub(super) fn fail_over(director: &mut Director, rng: &mut Rng) -> Micros {
    let now = director.now();
    let Some((heir, former)) = director.any_pair(rng).filter(|_| director.servers.is_settled())
    else {
        return now;
    };
    let promoted = rng.u64(20 * MS..2_000 * MS);
    let demoted = promoted + rng.u64(100 * MS..3_000 * MS);
    let times = Times { promoted, pause: rng.u64(MS..200 * MS), demoted, lag: MS };
    let back = now + rng.u64(promoted..demoted + 1_000 * MS);
    let why = match rng.u8(..4) {
        0 | 1 => {
            director.network().stop(former);
            let keeps = rng.u8(..4) > 0;
            if !keeps {
                // It may be a master for a while yet, and has forgotten its own grants.
                let until = now.max(back) + demoted + IDLE;
                director.note(&Fault::Failovers.name(), Effect::Forgets, now, until, 0);
            }
            director.later(back, move |network| {
                if network.host(former).condition == Condition::Down {
                    network.restart(former, keeps);
                }
            });
            "dies"
        }
        2 => {
            director.network().host(former).condition = Condition::FrozenUntil(back);
            "is frozen"
        }
        _ => {
            // Those beside it have it for their master until the others have told it.
            if rng.bool() {
                director.part(former, demoted, rng);
            }
            "is cut off"
        }
    };
    director.say(&format!("{former} {why}, {heir} takes over: {times:?}"));
    director.servers.fail_over((former, heir), now, times);
    let over = back.max(now + demoted) + 8 * times.pause;
    director.took(Fault::Failovers, over);
    over
}

/// A replica is behind by more than usual for a while; or all are, and no grant is confirmed.
pub(super) fn lag(director: &mut Director, time: Micros, rng: &mut Rng) -> Micros {
    let now = director.now();
    if let Some((replica, _)) = director.any_pair(rng) {
        let lag = [50 * MS, 300 * MS, 2_000 * MS][rng.usize(..3)];
        let all = director.servers.data().to_vec();
        let behind = if rng.u8(..3) == 0 { all } else { vec![replica] };
        for replica in behind {
            director.servers.lag(replica, lag, now + time);
        }
        // With `sync_replicas` a grant waits for it, and is taken back if it does not come.
        director.took(Fault::Lags, now + time + lag);
    }
    now + time
}

/// The slot of a lock moves to another master.
pub(super) fn move_slot(director: &mut Director, rng: &mut Rng) -> Micros {
    let now = director.now();
    if !director.servers.is_settled() {
        return now;
    }
    let (lock, _) = PROBES[rng.usize(..PROBES.len())];
    // A client sends a command again for two seconds.
    let pause = rng.u64(MS..40 * MS);
    let Some(nodes) = director.servers.move_slot(lock, (now, pause), rng) else { return now };
    director.say(&format!("the slot of {lock} moves: {nodes:?}"));
    let over = now + MOVES * pause;
    let name = Fault::Moves.name();
    director.took(Fault::Moves, over);
    let [from, to] = nodes.map(|node| director.network().host(node).ahead_us(now));
    other_clock(director, &name, (now, over), to - from);
    over
}

/// A node of a cluster can reach too few of the others.
pub(super) fn cut_off(director: &mut Director, time: Micros, rng: &mut Rng) -> Micros {
    let now = director.now();
    if !director.servers.is_cluster() {
        return now;
    }
    let node = director.any_with_data(rng);
    director.network().host(node).server.set_cut_off(true);
    director.later(now + time, move |network| {
        network.host(node).server.set_cut_off(false);
    });
    director.took(Fault::CutOffs, now + time);
    now + time
}

/// A failover is over: notes what it takes back from the promises. Where the heir had all that its
/// master had granted, that is nothing.
pub(super) fn lost(director: &mut Director, loss: Loss) {
    let (now, name) = (director.now(), Fault::Failovers.name());
    // Whoever lost its place has it again with its next command.
    director.note(&name, Effect::Away, loss.promoted, now + NEXT_ASK, 0);
    if let Some(since) = loss.since {
        director.say("the failover has lost something");
        director.revived.extend(loss.revived);
        director.note(&name, Effect::Replaced, since, now + IDLE, 0);
        for (lock, token, until) in loss.forgotten {
            director.note_forgotten(lock, token, until);
        }
    }
    other_clock(director, &name, (loss.promoted, now), loss.ahead_us);
}

/// A lock comes under another clock within this time.
fn other_clock(director: &mut Director, name: &str, (from, to): (Micros, Micros), ahead_us: i64) {
    // Clocks that drift get apart meanwhile.
    let apart = i64::try_from(director.drift().apart(to - from)).expect("it is little");
    if ahead_us + apart > 0 {
        director.note(name, Effect::Forgets, from, to + IDLE, 0);
    }
    if ahead_us - apart < 0 {
        director.note(name, Effect::Behind, from, to, (ahead_us - apart).unsigned_abs());
    }
}
