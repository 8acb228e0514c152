//! The same work done by peers, by the bare commands and by leasehold, in one run.

mod bench;
mod clock;
mod contender;
mod contest;
mod crew;
mod failure;
mod far;
mod foreign;
mod held;
mod link;
mod load;
mod machine;
mod names;
mod participant;
mod plot;
mod records;
mod scenario;
mod script;
mod server;
mod stats;
mod table;
mod worker;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use crate::bench::Bench;
use crate::failure::Failure;
use crate::scenario::Scenario;
use crate::worker::Work;

/// The same work done by peers, by the bare commands and by leasehold, in one run
#[derive(Parser)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
struct Arguments {
    /// Fewer and shorter rounds: some minutes in all
    #[arg(long)]
    quick: bool,
    /// These scenarios alone, such as `pairs,hot`
    #[arg(long, value_delimiter = ',')]
    only: Vec<Scenario>,
    /// Lists the scenarios
    #[arg(long)]
    list: bool,
    /// Peers in other languages too, installed below `target/bench`; a full run has them
    #[arg(long)]
    foreign: bool,
    /// The argument that `cargo bench` passes to each bench
    #[arg(long, hide = true)]
    bench: bool,
    #[command(subcommand)]
    work: Option<Work>,
}

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let arguments = Arguments::parse();
    if let Some(work) = arguments.work {
        work.run().await?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.list {
        for scenario in Scenario::value_variants() {
            println!("{}", scenario.title());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut bench = Bench::new(arguments.quick, folder())?;
    if arguments.foreign || !arguments.quick {
        eprintln!("== installing peers in other languages");
        let (programs, missing) = foreign::install(&bench.folder);
        for why in missing {
            println!("{why}");
        }
        bench.foreign = programs;
    }
    let chosen = if arguments.only.is_empty() { Scenario::all() } else { arguments.only };
    for scenario in chosen {
        eprintln!("== {}", scenario.title());
        scenario.run(&mut bench).await?;
    }
    println!("written to {}", bench.folder.display());
    Ok(if bench.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `target/bench`, wherever `target` is: above the folder that this program is in.
fn folder() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let target = program.ancestors().nth(3).unwrap_or(Path::new("target"));
    target.join("bench")
}
