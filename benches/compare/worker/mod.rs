//! A process that the benches start: themselves, with a hidden command. It prints `ready`,
//! waits for a line, works, and prints its results as JSON lines.

mod herd;
mod renewals;
mod sections;
mod setup;

use clap::Subcommand;

pub(crate) use self::herd::Herd;
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
}

impl Work {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Sections(sections) => sections.run().await,
            Self::Renewals(renewals) => renewals.run().await,
            Self::Herd(herd) => herd.run().await,
        }
    }
}
