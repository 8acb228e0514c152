//! How latency and cost grow: with the number of locks, with the number of clients, and with the
//! rate of the link.

mod clients;
mod figures;
mod links;
mod names;

use crate::bench::Bench;
use crate::failure::Failure;

pub(crate) async fn run(bench: &mut Bench) -> Result<(), Failure> {
    names::run(bench).await?;
    clients::run(bench).await?;
    links::run(bench).await
}
