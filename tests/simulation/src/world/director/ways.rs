//! What happens to the ways of processes to the servers.

use std::net::SocketAddr;

use fastrand::Rng;
use leasehold_history::Effect;

use super::{Director, Link};
use crate::network::{LONGEST_STALL, LinkFaults, Micros};
use crate::process::Process;
use crate::world::faults::Fault;
use crate::world::plan::Deployment;

/// A client notices that a connection is half open when it has had no answer for a second; and a
/// waiter asks two seconds later at most.
const NOTICES: Micros = 3_000_000;

/// A client that may not kill the connection that it has left cancels once more half a second after it has
/// cancelled for the first time, and that is not before it has had no answer for 300 ms.
const LATE_ARRIVAL: Micros = 750_000;

impl Director {
    /// How late bytes may be.
    pub(in crate::world) fn longest_stall(&self) -> Micros {
        if self.plan.may_kill { LONGEST_STALL } else { LATE_ARRIVAL }
    }

    /// Disturbs the way of one process, or of all; to all servers, or to one of them.
    pub(in crate::world) fn disturb_links(
        &mut self,
        name: &str,
        faults: LinkFaults,
        time: Micros,
        rng: &mut Rng,
    ) {
        let all: Vec<_> = self.processes.iter().map(Process::id).collect();
        let ids =
            if rng.bool() || all.is_empty() { all } else { vec![all[rng.usize(..all.len())]] };
        let is_one = self.plan.deployment != Deployment::Single && rng.bool();
        let server = is_one.then(|| self.any_host(rng));
        for id in ids {
            self.disturb_link(name, (id, server), faults, time);
        }
    }

    fn disturb_link(&mut self, name: &str, link: Link, faults: LinkFaults, time: Micros) {
        let (now, before) = (self.now(), self.links_until.get(&link).copied());
        let until = (now + time).max(before.unwrap_or_default());
        self.network().links.disturb(link.0, link.1, faults);
        self.links_until.insert(link, until);
        self.note_of(link.0, name, Effect::Away, (now, until + faults.longest_stall));
    }

    /// For some time, some of the processes reach this server alone, and the others all but this one.
    pub(in crate::world) fn part(&mut self, server: SocketAddr, time: Micros, rng: &mut Rng) {
        let until = Some(self.now() + time);
        let faults = LinkFaults { blocked_until: until, ..LinkFaults::default() };
        let servers = self.network().addresses();
        let ids: Vec<_> = self.processes.iter().map(Process::id).collect();
        for id in ids {
            let is_beside = rng.bool();
            for other in servers.iter().filter(|it| (**it == server) != is_beside) {
                self.disturb_link("parts", (id, Some(*other)), faults, time);
            }
        }
    }

    /// Who has not tried a connection that is half open can't know that it is.
    pub(super) fn excuse_unaware(&mut self) {
        let (now, until, name) = (self.now(), self.now() + NOTICES, Fault::HalfOpen.name());
        let unaware = self.network().unaware();
        for process in unaware {
            self.note_of(process, &name, Effect::Deaf, (now, until));
        }
        let tried = self.network().take_tried();
        for process in tried {
            self.note_of(process, &name, Effect::Away, (now, until));
        }
    }

    /// Some connections of a process lose all that takes one way.
    pub(in crate::world) fn half_open_one(&mut self, rng: &mut Rng) {
        let Some(process) = self.any_process(rng).map(|at| self.processes[at].id()) else { return };
        let count = self.network().lose_a_way(process, rng);
        if count > 0 {
            self.say(&format!("{count} connections of p{process} are half open"));
            let (now, until) = (self.now(), self.now() + NOTICES);
            self.note_of(process, &Fault::HalfOpen.name(), Effect::Away, (now, until));
        }
    }
}
