//! One server without a fault, whose clients die and are stopped. Elsewhere there is always a reason
//! why a waiter may have lost its place; here, first come, first served can be checked.

use std::path::Path;

use fastrand::Rng;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::work_for;

use super::World;
use crate::Failure;
use crate::clock::millis;
use crate::journal::Journal;

pub(crate) struct Quiet(Server);

impl World for Quiet {
    const CLIENT: &'static str = "server";

    async fn start(_: &Path, _: usize) -> Result<Self, Failure> {
        Ok(Self(Server::start()))
    }

    fn urls(&self, processes: usize) -> Vec<Vec<String>> {
        vec![vec![self.0.url()]; processes]
    }

    async fn disturb(&mut self, _: &Journal, rng: &mut Rng) -> Result<(), Failure> {
        work_for(millis(rng, 100..200)).await;
        Ok(())
    }
}
