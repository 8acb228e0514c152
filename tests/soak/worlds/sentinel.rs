//! A master with two replicas. The sentinels replace it when it dies, and the new master may lack
//! its last grants. One link leads to each server, for all clients, sentinels and replicas.

use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use leasehold_history::{Effect, Nanos};
use leasehold_tests::sentinel::Sentinel;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{until, until_some};
use tokio::time::timeout;

use super::{World, disturb_one};
use crate::Failure;
use crate::clock::now;
use crate::journal::Journal;
use crate::links::{self, Link};

/// After this time without an answer a master counts as dead.
const DEAD: Duration = Duration::from_secs(2);

/// Sentinels wait for some time before they replace a master once more.
const PATIENCE: Duration = Duration::from_secs(45);

/// A sentinel hears of a failover this much later, at most.
const NEWS: Nanos = 5_000_000_000;

pub(crate) struct Replicas {
    sentinel: Sentinel,
    links: Vec<Link>,
    /// The master's port.
    master: u16,
    /// When it was last seen to be the master.
    seen: Nanos,
}

impl Replicas {
    /// Waits until there is one master, and the others follow it.
    async fn until_settled(&self) -> u16 {
        let settled = async || self.sentinel.settled_master().await;
        until_some("the replicas follow one master", settled).await
    }

    /// Waits until another than the killed master is the master.
    async fn until_replaced(&self) {
        until("another becomes the master", async || {
            self.sentinel.master().await.is_some_and(|master| master.port() != self.master)
        })
        .await;
    }
}

impl World for Replicas {
    const CLIENT: &'static str = "replicated";

    async fn start(_: &Path, _: usize) -> Result<Self, Failure> {
        let mut all = Vec::new();
        let port_to = async |server: &Server| {
            // A sentinel tells all clients the same port.
            all.extend(links::to(server, 1).await.expect("a free port"));
            all[all.len() - 1].addr().port()
        };
        let sentinel = Sentinel::start_behind(2, DEAD, port_to).await;
        let master = sentinel.servers()[0].port();
        Ok(Self { sentinel, links: all, master, seen: now() })
    }

    fn urls(&self, processes: usize) -> Vec<Vec<String>> {
        vec![vec![self.sentinel.url()]; processes]
    }

    fn links(&self) -> Vec<Link> {
        self.links.clone()
    }

    async fn disturb(&mut self, journal: &Journal, rng: &mut Rng) -> Result<(), Failure> {
        let servers = self.sentinel.servers();
        let place = servers.iter().position(|server| server.port() == self.master);
        let place = place.ok_or("the master is one of the servers")?;
        if rng.u8(..3) > 0 {
            let place = if rng.bool() { place } else { rng.usize(..servers.len()) };
            disturb_one(&servers[place], journal, rng, 700).await;
            return Ok(());
        }
        let from = now();
        servers[place].kill().await;
        // Sentinels that get no processor time give up for a while.
        let is_replaced = timeout(PATIENCE, self.until_replaced()).await.is_ok();
        if is_replaced {
            self.sentinel.restart_as_replica(place).await;
        } else {
            self.sentinel.restart_as_master(place).await;
        }
        self.master = self.until_settled().await;
        self.seen = now();
        let name = if is_replaced { "failovers" } else { "failovers-missed" };
        journal.fault(name, Effect::Forgets, from);
        Ok(())
    }

    /// The sentinels may also replace a master that was only slow.
    async fn watch(&mut self, journal: &Journal) -> Result<(), Failure> {
        let looked = now();
        if self.sentinel.settled_master().await != Some(self.master) {
            let master = self.until_settled().await;
            if master != self.master {
                let from = self.seen.saturating_sub(NEWS);
                journal.fault("failovers-unplanned", Effect::Forgets, from);
                self.master = master;
            }
        }
        self.seen = looked;
        Ok(())
    }
}
