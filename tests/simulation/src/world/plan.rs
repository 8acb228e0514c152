//! What a world is made of. A seed chooses all that is not said.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::faults::Fault;
use crate::clocks::Clocks;
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
    /// Nothing goes wrong in its second half, so what the first has left behind is seen.
    pub has_calm: bool,
    /// The longest pause between two faults, in seconds. Where it is long, rules judge what is left of a fault.
    pub pause: u64,
    /// Clients may end the connections that they have left. If not, what they sent there arrives, though not
    /// later than they wait for it.
    pub may_kill: bool,
    pub deployment: Deployment,
    /// How many times as long as usual a lock is held. Where it is long, others wait for seconds.
    pub pace: u64,
    /// How far clocks drift, where they do.
    pub clocks: Clocks,
    /// A text of the scripts, and what is run in its place: a planted mistake.
    pub altered: Option<(String, String)>,
    /// It is over when an oracle has found something.
    pub ends_early: bool,
}

/// The servers of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deployment {
    /// One server.
    Single,
    /// So many servers that vote, each with a clock of its own.
    Quorum(u8),
    /// Three masters, each with a replica.
    Cluster,
    /// A master with two replicas, and three sentinels. With `syncs`, grants wait for a replica.
    Sentinel { syncs: bool },
}

impl Deployment {
    const ALL: [(&'static str, Self); 6] = [
        ("single", Self::Single),
        ("quorum3", Self::Quorum(3)),
        ("quorum5", Self::Quorum(5)),
        ("cluster", Self::Cluster),
        ("sentinel", Self::Sentinel { syncs: false }),
        ("sentinel-sync", Self::Sentinel { syncs: true }),
    ];

    /// The deployment of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.0 == name).map(|it| it.1)
    }

    /// Its name, one word.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|it| it.1 == self).map_or("other", |it| it.0)
    }

    /// Returns true if grants wait for a replica.
    pub(super) fn syncs(self) -> bool {
        self == Self::Sentinel { syncs: true }
    }

    /// Returns true if its servers follow one another.
    pub(super) fn is_group(self) -> bool {
        matches!(self, Self::Cluster | Self::Sentinel { .. })
    }
}

/// The worlds in which a mistake is looked for. A seed chooses what they leave open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Only {
    pub deployment: Option<Deployment>,
    pub faults: Option<&'static [Fault]>,
    pub may_kill: Option<bool>,
    pub processes: Option<usize>,
}

impl Only {
    /// All worlds.
    pub const ANY: Self = Self { deployment: None, faults: None, may_kill: None, processes: None };
}

/// Most worlds have clocks as a client expects them: a server's and a process's together are wrong by a
/// hundredth at most. In the others a holder may believe in its lease for too long.
fn clocks(rng: &mut Rng) -> Clocks {
    let both = if rng.u8(..5) == 0 { 50_000 } else { 10_000 };
    let servers = rng.i64(0..=both);
    Clocks { servers, processes: both - servers }
}

impl Plan {
    /// How far clocks drift in it.
    pub(super) fn drift(&self) -> Clocks {
        if self.faults.contains(&Fault::Drifts) { self.clocks } else { Clocks::default() }
    }

    /// The world of a seed, on the servers that it chooses, or on these.
    pub fn of(seed: u64, seconds: u64, chosen: Option<Deployment>) -> Self {
        // The world's own choices are apart from what happens in it.
        let mut rng = Rng::with_seed(seed ^ 0x9e37_79b9_7f4a_7c15);
        let deployment = match rng.u8(..8) {
            0 => Deployment::Quorum(3),
            1 => Deployment::Quorum(5),
            2 => Deployment::Cluster,
            3 => Deployment::Sentinel { syncs: seed.is_multiple_of(2) },
            _ => Deployment::Single,
        };
        let deployment = chosen.unwrap_or(deployment);
        let processes = rng.usize(2..5);
        let tasks = rng.usize(1..6);
        // Some worlds are quiet. In others a third of the faults come, or just a few: what one takes back
        // from the promises hides what another one shows.
        let faults: BTreeSet<Fault> = if rng.u8(..6) == 0 {
            BTreeSet::new()
        } else {
            let one_of = if rng.bool() { 3 } else { 15 };
            // Those of servers that belong together are what such a world is for.
            let is_there =
                |it: &Fault| rng.u8(..if it.is_of_group() { one_of / 3 * 2 } else { one_of }) == 0;
            Fault::ALL.into_iter().filter(is_there).collect()
        };
        let has_calm = rng.bool();
        let clocks = clocks(&mut rng);
        let may_kill = rng.u8(..6) > 0;
        let pace = if rng.u8(..5) == 0 { 20 } else { 1 };
        let pause = if rng.u8(..3) == 0 { 15 } else { 3 };
        let printed = Printed::Nothing;
        let mut plan = Self {
            seed,
            seconds,
            printed,
            processes,
            tasks,
            faults: BTreeSet::new(),
            has_calm,
            pause,
            may_kill,
            deployment,
            pace,
            clocks,
            altered: None,
            ends_early: false,
        };
        plan.let_happen(faults);
        plan
    }

    /// Lets these faults happen and no others, of those that its servers can have.
    pub fn let_happen(&mut self, mut faults: BTreeSet<Fault>) {
        faults.retain(|fault| self.deployment.is_group() || !fault.is_of_group());
        self.faults = faults;
    }
}
