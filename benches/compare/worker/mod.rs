//! A process that the benches start: themselves, with a hidden command. It prints `ready`,
//! waits for a line, works, and prints what it did as JSON lines.

mod herd;
mod renewals;
mod sections;

use std::io::BufRead;
use std::time::Duration;

use clap::Subcommand;

pub(crate) use self::herd::Herd;
pub(crate) use self::renewals::Renewals;
pub(crate) use self::sections::Sections;
use crate::clock::now;
use crate::stats::Times;
use crate::{Failure, server};

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

/// Says that all is set up, and waits for the word.
async fn ready() -> Result<(), Failure> {
    println!("\"ready\"");
    let wait = || std::io::stdin().lock().read_line(&mut String::new());
    tokio::task::spawn_blocking(wait).await??;
    Ok(())
}

/// How long a PING takes over a connection of its own that is quiet between them.
async fn ping(url: &str, pause: Duration) -> Result<Duration, Failure> {
    let mut redis = server::connect(url).await?;
    let mut times = Vec::new();
    for _ in 0..200 {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let sent = now();
        redis::cmd("PING").exec_async(&mut redis).await?;
        times.push(now().saturating_sub(sent));
    }
    // The first ones find cold caches.
    Ok(times.drain(20..).collect::<Times>().p50())
}
