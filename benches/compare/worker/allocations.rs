//! Tasks that acquire and release, in a process that counts its allocations.

use clap::Args;
use leasehold_tests::shim::allocations;

use super::setup::ready;
use crate::contender::Contender;
use crate::failure::Failure;
use crate::load::so_many;

/// The pairs that come first, so that what is allocated once is not counted.
const WARM_UP: usize = 2_000;

#[derive(Args, Clone, Debug)]
pub(crate) struct Allocations {
    #[arg(long)]
    pub(crate) url: String,
    #[arg(long, value_enum)]
    pub(crate) contender: Contender,
    #[arg(long)]
    pub(crate) tasks: usize,
    #[arg(long)]
    pub(crate) pairs: usize,
}

impl Allocations {
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--url".to_owned(), self.url.clone()];
        arguments.extend(["--contender".to_owned(), self.contender.name()]);
        for (name, number) in [("--tasks", self.tasks), ("--pairs", self.pairs)] {
            arguments.extend([name.to_owned(), number.to_string()]);
        }
        arguments
    }

    /// Prints the number of allocations and of their bytes.
    pub(super) async fn run(self) -> Result<(), Failure> {
        let client = self.contender.connect(&self.url).await?;
        so_many(&client, self.tasks, WARM_UP).await?;
        ready().await?;
        let count = || allocations().ok_or("the process does not count its allocations");
        let before = count()?;
        so_many(&client, self.tasks, self.pairs).await?;
        let after = count()?;
        println!("[{},{}]", after.0 - before.0, after.1 - before.1);
        Ok(())
    }
}
