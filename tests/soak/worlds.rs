//! The deployments, and the faults of their servers.

pub(crate) mod cluster;
pub(crate) mod durable;
pub(crate) mod forgetful;
pub(crate) mod quiet;
pub(crate) mod quorum;
pub(crate) mod sentinel;

use std::path::Path;

use fastrand::Rng;
use leasehold_history::Effect;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{until_some, work_for};

use crate::Failure;
use crate::clock::{millis, now};
use crate::journal::Journal;
use crate::links::Link;

/// A deployment.
pub(crate) trait World: Sized + Send {
    /// How the processes connect.
    const CLIENT: &'static str;

    async fn start(folder: &Path, processes: usize) -> Result<Self, Failure>;

    /// The URLs for each process.
    fn urls(&self, processes: usize) -> Vec<Vec<String>>;

    /// The links between processes and servers, if they can be disturbed.
    fn links(&self) -> Vec<Link> {
        Vec::new()
    }

    /// One fault of a server, from its beginning to its end.
    async fn disturb(&mut self, journal: &Journal, rng: &mut Rng) -> Result<(), Failure>;

    /// Notices what happened to the servers without the director.
    async fn watch(&mut self, _journal: &Journal) -> Result<(), Failure> {
        Ok(())
    }
}

/// A fault that each server may have, and that takes nothing back.
async fn disturb_one(server: &Server, journal: &Journal, rng: &mut Rng, longest_freeze: u64) {
    let from = now();
    let name = match rng.u8(..5) {
        0 => {
            command(server, &["SCRIPT", "FLUSH"]).await;
            "script-flushes"
        }
        1 => {
            command(server, &["CONFIG", "SET", "maxmemory", "1"]).await;
            work_for(millis(rng, 50..1_500)).await;
            command(server, &["CONFIG", "SET", "maxmemory", "0"]).await;
            "full-servers"
        }
        2 => {
            // All at once, so all come back at once.
            for kind in ["normal", "pubsub"] {
                command(server, &["CLIENT", "KILL", "TYPE", kind]).await;
            }
            "kills-of-all-connections"
        }
        3 => {
            let pause = millis(rng, 20..1_000);
            command(server, &["CLIENT", "PAUSE", &pause.as_millis().to_string(), "ALL"]).await;
            work_for(pause).await;
            "pauses"
        }
        _ => {
            let frozen = server.freeze().await;
            work_for(millis(rng, 50..longest_freeze)).await;
            drop(frozen);
            "freezes"
        }
    };
    journal.fault(name, Effect::Away, from);
}

async fn command(server: &Server, words: &[&str]) {
    let mut command = redis::cmd(words[0]);
    let done = command.arg(&words[1..]).exec_async(&mut server.redis().await).await;
    done.expect("the server does what its director says");
}

/// Starts a server on the port of one that was killed. A connection of somebody else may have that
/// port for a moment.
async fn start_on(port: u16, arguments: &[&str]) -> Server {
    let start = async || Server::try_start_on(port, arguments);
    until_some("a server starts on its port", start).await
}
