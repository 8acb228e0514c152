//! Clocks that drift, each by a rate of its own, and that are right in the end.

use std::net::SocketAddr;

use fastrand::Rng;
use leasehold_history::Effect;

use super::Director;
use crate::clocks::Clocks;
use crate::world::faults::{IDLE, NEXT_ASK};
use crate::world::plan::Deployment;

impl Director {
    /// How far clocks drift.
    pub(in crate::world) fn drift(&self) -> Clocks {
        self.plan.drift()
    }

    /// Each server gets a clock that drifts, where they do.
    pub(in crate::world) fn let_clocks_drift(&mut self, rng: &mut Rng) {
        let (now, most) = (self.now(), self.drift().servers);
        for server in self.servers.data().to_vec() {
            self.network().host(server).set_drift(now, rate(most, rng));
        }
    }

    /// A clock of a quorum that was set is right again after some time: where most of them disagree, nobody
    /// gets a lock.
    pub(in crate::world) fn set_right_later(&mut self, host: SocketAddr, rng: &mut Rng) {
        let now = self.now();
        let until = now + rng.u64(500_000..8_000_000);
        let ahead = self.network().host(host).ahead_us(now);
        self.later(until, move |network| {
            let now = network.now();
            let host = network.host(host);
            host.set_ahead_us(now, host.drifted_us(now));
        });
        let name = "clock-is-right";
        self.note(name, Effect::Away, now, until + NEXT_ASK, 0);
        if ahead < 0 {
            self.note(name, Effect::Forgets, until, until + IDLE, 0);
        } else {
            self.note(name, Effect::Behind, until, until, ahead.unsigned_abs());
        }
    }

    /// A clock gets another rate.
    pub(in crate::world) fn change_a_rate(&mut self, rng: &mut Rng) {
        let (now, clocks) = (self.now(), self.drift());
        if rng.bool() {
            let server = self.any_with_data(rng);
            self.network().host(server).set_drift(now, rate(clocks.servers, rng));
        } else if let Some(at) = self.any_process(rng) {
            self.processes[at].set_drift(now, rate(-clocks.processes, rng));
        }
    }

    /// All clocks are right from now on.
    pub(super) fn set_clocks(&mut self) {
        // Where several clocks decide, they must agree. One that is hours behind keeps leases for as
        // long.
        let now = self.now();
        let is_alone = self.plan.deployment == Deployment::Single;
        let addresses = self.servers.data().to_vec();
        for address in &addresses {
            self.network().host(*address).set_drift(now, 0);
        }
        for process in &mut self.processes {
            process.set_drift(now, 0);
        }
        // Where one of them may take over, none goes back: leases would last for longer.
        let ahead_of = |address: &SocketAddr| self.network().host(*address).ahead_us(now);
        let most = addresses.iter().map(ahead_of).max().unwrap_or_default();
        let to = match addresses[..] {
            [alone] if is_alone => self.network().host(alone).most_ahead_us(),
            _ if self.is_group() => most.max(0),
            _ => 0,
        };
        for address in addresses {
            let ahead = self.network().host(address).ahead_us(now);
            if is_alone && ahead >= to || self.is_group() && ahead == to {
                continue;
            }
            self.network().host(address).set_ahead_us(now, to);
            self.note("clocks-set", Effect::Forgets, now, now, 0);
            self.note("clocks-set-back", Effect::Behind, now, now, ahead.unsigned_abs());
        }
    }
}

/// How fast a clock is: `worst` often, for a server that is as fast and a process that is as slow as may
/// be; or as wrong as that the other way, or something between.
pub(super) fn rate(worst: i64, rng: &mut Rng) -> i64 {
    let most = worst.abs();
    match rng.u8(..4) {
        0 | 1 => worst,
        2 => -worst,
        _ => rng.i64(-most..=most),
    }
}
