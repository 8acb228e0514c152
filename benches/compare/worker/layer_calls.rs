//! Requests under a layer in memory, in a process whose instructions are counted.

use clap::Args;
use leasehold::Locks;

use crate::failure::Failure;
use crate::scenario::layer;

#[derive(Args)]
pub(crate) struct LayerCalls {
    /// One of the layers that the scenario compares.
    #[arg(long)]
    pub(crate) layer: String,
    #[arg(long)]
    pub(crate) calls: usize,
}

impl LayerCalls {
    pub(crate) fn arguments(&self) -> [String; 4] {
        let (layer, calls) = (self.layer.clone(), self.calls.to_string());
        ["--layer".to_owned(), layer, "--calls".to_owned(), calls]
    }

    pub(super) async fn run(self) -> Result<(), Failure> {
        let app = layer::app(&self.layer, &Locks::in_memory());
        for _ in 0..self.calls / 10 {
            layer::calls(&app, 10).await?;
        }
        Ok(())
    }
}
