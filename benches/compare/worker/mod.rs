//! A process that the benches start: themselves, with a hidden command. It prints `ready`,
//! waits for a line, works, and prints its results as JSON lines.

mod allocations;
mod herd;
mod layer_calls;
mod memory;
mod paced;
mod relay;
mod renewals;
mod sections;
mod setup;

use clap::Subcommand;

pub(crate) use self::allocations::Allocations;
pub(crate) use self::herd::Herd;
pub(crate) use self::layer_calls::LayerCalls;
pub(crate) use self::memory::Memory;
pub(crate) use self::paced::Paced;
pub(crate) use self::relay::Relay;
pub(crate) use self::renewals::Renewals;
pub(crate) use self::sections::Sections;
use crate::failure::Failure;

#[derive(Subcommand)]
pub(crate) enum Work {
    /// Comes and goes under a lock
    Sections(Sections),
    /// Holds many leases, and lets them be renewed
    Renewals(Renewals),
    /// Has many clients, which lose their connections
    Herd(Herd),
    /// Locks many names once
    Memory(Memory),
    /// Has many clients, which acquire and release at a pace
    Paced(Paced),
    /// Counts what it allocates for its pairs
    Allocations(Allocations),
    /// Answers requests under a layer
    LayerCalls(LayerCalls),
    /// Passes bytes on to a server, and back, some time later
    Relay(Relay),
}

impl Work {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Sections(sections) => sections.run().await,
            Self::Renewals(renewals) => renewals.run().await,
            Self::Herd(herd) => herd.run().await,
            Self::Memory(memory) => memory.run().await,
            Self::Paced(paced) => paced.run().await,
            Self::Allocations(allocations) => allocations.run().await,
            Self::LayerCalls(calls) => calls.run().await,
            Self::Relay(relay) => relay.run(),
        }
    }
}
