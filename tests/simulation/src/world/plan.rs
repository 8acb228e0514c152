//! What a world is made of. A seed chooses all that is not said.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::faults::Fault;
use super::mistakes::Mistake;
use crate::trace::Printed;

/// A world to run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// For how long its processes work, in simulated seconds.
    pub seconds: u64,
    pub printed: Printed,
    /// The processes at a time.
    pub processes: usize,
    /// The tasks of each process.
    pub tasks: usize,
    /// The faults that may happen.
    pub faults: BTreeSet<Fault>,
    pub deployment: Deployment,
    /// A mistake in the scripts, planted.
    pub mistake: Option<&'static Mistake>,
}

/// The servers of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deployment {
    /// One server.
    Single,
    /// So many servers that vote, each with a clock of its own.
    Quorum(u8),
}

impl Plan {
    /// The world of a seed.
    pub fn of(seed: u64, seconds: u64) -> Self {
        // The world's own choices are apart from what happens in it.
        let mut rng = Rng::with_seed(seed ^ 0x9e37_79b9_7f4a_7c15);
        let deployment = match rng.u8(..8) {
            0 => Deployment::Quorum(3),
            1 => Deployment::Quorum(5),
            _ => Deployment::Single,
        };
        let processes = rng.usize(2..5);
        let tasks = rng.usize(1..6);
        // Some worlds are quiet. In others a few faults come often, and the others not at all.
        let faults = if rng.u8(..6) == 0 {
            BTreeSet::new()
        } else {
            Fault::ALL.into_iter().filter(|_| rng.u8(..3) == 0).collect()
        };
        let mistake = None;
        let printed = Printed::Nothing;
        Self { seed, seconds, printed, processes, tasks, faults, deployment, mistake }
    }
}
