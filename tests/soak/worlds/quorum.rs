//! Three independent masters. One has a clock that jumps; the two others are killed, and start
//! again empty.

use std::path::Path;

use fastrand::Rng;
use leasehold_history::Effect;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::work_for;

use super::forgetful::jump;
use super::{World, disturb_one, start_on};
use crate::Failure;
use crate::clock::{millis, now};
use crate::journal::Journal;
use crate::links::{self, Link};

const COUNT: usize = 3;

pub(crate) struct Quorum {
    servers: Vec<Server>,
    /// One for each server, from each process.
    links: Vec<Vec<Link>>,
}

impl World for Quorum {
    const CLIENT: &'static str = "quorum";

    async fn start(_: &Path, processes: usize) -> Result<Self, Failure> {
        let servers = vec![Server::start_skewed(), Server::start(), Server::start()];
        let mut links = Vec::new();
        for server in &servers {
            links.push(links::to(server, processes).await?);
        }
        Ok(Self { servers, links })
    }

    fn urls(&self, processes: usize) -> Vec<Vec<String>> {
        let of = |process: usize| {
            self.links.iter().map(|of_server| links::url(&of_server[process])).collect()
        };
        (0..processes).map(of).collect()
    }

    fn links(&self) -> Vec<Link> {
        self.links.concat()
    }

    async fn disturb(&mut self, journal: &Journal, rng: &mut Rng) -> Result<(), Failure> {
        let place = rng.usize(..COUNT);
        match rng.u8(..4) {
            // A clock that jumps ahead ends leases early on one server. Where another server has
            // not voted for such a lease, its majority is gone.
            0 if place == 0 => jump(&self.servers[0], journal, rng).await,
            1 if place > 0 => {
                let from = now();
                self.servers[place].kill().await;
                work_for(millis(rng, 0..1_000)).await;
                self.servers[place] = start_on(self.servers[place].port(), &[]).await;
                journal.fault("restarts-empty", Effect::Away, from);
            }
            _ => disturb_one(&self.servers[place], journal, rng, 3_000).await,
        }
        Ok(())
    }
}
