//! A client that locks many names once, and says how much memory its process has.

use clap::Args;

use super::setup::{ready, signal};
use crate::clock::{nanos, now};
use crate::contender::Contender;
use crate::failure::Failure;
use crate::machine::resident_memory;
use crate::names::lock_each;

#[derive(Args, Clone, Debug)]
pub(crate) struct Memory {
    #[arg(long)]
    pub(crate) url: String,
    #[arg(long)]
    pub(crate) names: usize,
}

impl Memory {
    pub(crate) fn arguments(&self) -> Vec<String> {
        ["--url", &self.url, "--names", &self.names.to_string()].map(str::to_owned).to_vec()
    }

    /// Prints its memory at the start, after a tenth of the names and after all of them, and how
    /// long that took. It goes on until the next signal, and prints its memory again.
    pub(super) async fn run(self) -> Result<(), Failure> {
        let client = Contender::Ours.connect(&self.url).await?;
        // The scripts are loaded, and the server has the client's record.
        client.mutex("first").acquire().await?.release().await?;
        ready().await?;
        let (begun, start, tenth) = (now(), resident_memory()?, self.names / 10);
        lock_each(&client, 0..tenth).await?;
        let after_a_tenth = resident_memory()?;
        lock_each(&client, tenth..self.names).await?;
        let took = nanos(now().saturating_sub(begun));
        println!("[{start},{after_a_tenth},{},{took}]", resident_memory()?);
        signal().await?;
        println!("[{}]", resident_memory()?);
        drop(client);
        Ok(())
    }
}
