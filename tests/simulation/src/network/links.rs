//! What bytes meet on their way from a process to a server.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fastrand::Rng;

use super::{Micros, ProcessId};

/// How often something happens to bytes of a process, out of 1,000 times.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkFaults {
    /// The connection is lost before the server has them.
    pub cut_before: u32,
    /// The connection is lost when the server has half of them.
    pub cut_halfway: u32,
    /// The connection is lost when the server has them, and before its answer arrives.
    pub cut_after: u32,
    /// They are late, by less than `longest_stall`. What comes after them on the connection waits.
    pub stall: u32,
    pub longest_stall: Micros,
    /// Nothing arrives until then, either way.
    pub blocked_until: Option<Micros>,
}

/// When a connection is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    Before,
    Halfway,
    After,
}

/// What becomes of some bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    pub cut: Option<Cut>,
    pub delay: Micros,
}

/// The longest that bytes are late.
pub const LONGEST_STALL: Micros = 3_000_000;

/// The same where nothing is wrong.
const LONGEST_JITTER: Micros = 300;

impl LinkFaults {
    pub(super) fn fate(&self, rng: &mut Rng) -> Fate {
        let mut at = rng.u32(..1_000);
        for (often, cut) in [
            (self.cut_before, Cut::Before),
            (self.cut_halfway, Cut::Halfway),
            (self.cut_after, Cut::After),
        ] {
            if at < often {
                return Fate { cut: Some(cut), delay: rng.u64(..LONGEST_JITTER) };
            }
            at -= often;
        }
        let longest = if at < self.stall { self.longest_stall } else { LONGEST_JITTER };
        Fate { cut: None, delay: rng.u64(..longest) }
    }
}

/// The faults that there are: of all links of a process, or of the one to a server.
#[derive(Debug, Default)]
pub struct Links(BTreeMap<(ProcessId, Option<SocketAddr>), LinkFaults>);

impl Links {
    /// From now on, bytes meet these faults on their way. A way that is blocked stays so: what was sent on it
    /// arrives when it is open, and not later.
    pub fn disturb(&mut self, process: ProcessId, server: Option<SocketAddr>, faults: LinkFaults) {
        let before = self.0.get(&(process, server)).and_then(|it| it.blocked_until);
        let blocked_until = faults.blocked_until.max(before);
        self.0.insert((process, server), LinkFaults { blocked_until, ..faults });
    }

    /// These faults are over.
    pub fn end(&mut self, process: ProcessId, server: Option<SocketAddr>) {
        self.0.remove(&(process, server));
    }

    /// What bytes of a process meet on their way to a server, and back.
    pub(super) fn faults(&self, process: ProcessId, server: SocketAddr) -> LinkFaults {
        let of = |server| self.0.get(&(process, server)).copied();
        let all = of(None).unwrap_or_default();
        let one = of(Some(server)).unwrap_or(all);
        LinkFaults { blocked_until: one.blocked_until.max(all.blocked_until), ..one }
    }
}
