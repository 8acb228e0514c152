//! The scenarios and their targets.

mod allocations;
mod growth;
mod handover;
mod herd;
mod hot;
mod instructions;
pub(crate) mod layer;
mod linger;
mod linger_processes;
mod memory;
mod pairs;
mod processes;
mod quorum;
mod rates;
mod renewal;
mod scaling;
mod semaphore;
mod sets;

use clap::ValueEnum;

use crate::bench::Bench;
use crate::failure::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// acquire and release without contention
    Pairs,
    /// the same with a server that is half a millisecond away, each way
    PairsFar,
    /// what a process allocates for a pair
    Allocations,
    /// one lock that all tasks of a process want
    Hot,
    /// one lock that the tasks of four processes want, for a millisecond each
    Processes,
    /// the time from a release until the next process has the lock
    Handover,
    /// commands of the server for each grant, by the number of waiters
    Growth,
    /// a limit of 64 for 512 tasks in four processes
    Semaphore,
    /// two permits in one admission, and an operator's limit
    Sets,
    /// a rate on a route, beside other limiters
    Rates,
    /// processor time for each renewal of 50,000 leases
    Renewal,
    /// what is left in memory of a million names that were locked once
    Memory,
    /// latency and cost by the number of locks, of clients, and by the rate of the link
    #[value(alias = "curves")]
    Scaling,
    /// many clients that lose their connections at once, and come back
    Herd,
    /// the layer beside tower's own limit
    Layer,
    /// locks that stay with the process after their release
    Linger,
    /// five masters, some of which are dead or frozen
    Quorum,
    /// instructions of the server for each script, and of the layer for a request, by callgrind; runs only
    /// if named
    Instructions,
}

impl Scenario {
    /// All that run unless others are asked for.
    pub(crate) fn all() -> Vec<Self> {
        let all = Self::value_variants().iter().copied();
        all.filter(|&scenario| scenario != Self::Instructions).collect()
    }

    /// Its name and its description.
    pub(crate) fn title(self) -> String {
        let value = self.to_possible_value().expect("none is skipped");
        let help = value.get_help().map(ToString::to_string).unwrap_or_default();
        format!("{}: {help}", value.get_name())
    }

    pub(crate) async fn run(self, bench: &mut Bench) -> Result<(), Failure> {
        match self {
            Self::Pairs => pairs::run(bench, self.title()).await,
            Self::PairsFar => pairs::run_far(bench, self.title()).await,
            Self::Allocations => allocations::run(bench, self.title()).await,
            Self::Hot => hot::run(bench, self.title()).await,
            Self::Processes => processes::run(bench, self.title()).await,
            Self::Handover => handover::run(bench, self.title()).await,
            Self::Growth => growth::run(bench, self.title()).await,
            Self::Semaphore => semaphore::run(bench, self.title()).await,
            Self::Sets => sets::run(bench, self.title()).await,
            Self::Rates => rates::run(bench, self.title()).await,
            Self::Renewal => renewal::run(bench, self.title()).await,
            Self::Herd => herd::run(bench, self.title()).await,
            Self::Memory => memory::run(bench, self.title()).await,
            Self::Scaling => scaling::run(bench).await,
            Self::Layer => layer::run(bench, self.title()).await,
            Self::Linger => linger::run(bench, self.title()).await,
            Self::Quorum => quorum::run(bench, self.title()).await,
            Self::Instructions => instructions::run(bench, self.title()).await,
        }
    }
}
