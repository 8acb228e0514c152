//! One server that forgets nothing: it appends each change to its file before it answers, is
//! killed, and starts again with its file.

use std::path::Path;

use fastrand::Rng;
use leasehold_history::Effect;
use leasehold_tests::server::{Server, free_port};
use leasehold_tests::waiting::work_for;

use super::{World, disturb_one, start_on};
use crate::Failure;
use crate::clock::{millis, now};
use crate::journal::Journal;
use crate::ledger::Ledger;
use crate::links::{self, Link};

pub(crate) struct Durable {
    server: Server,
    arguments: Vec<String>,
    links: Vec<Link>,
}

impl Durable {
    fn arguments(&self) -> Vec<&str> {
        self.arguments.iter().map(String::as_str).collect()
    }
}

impl World for Durable {
    const CLIENT: &'static str = "server";

    async fn start(folder: &Path, processes: usize) -> Result<Self, Failure> {
        Ledger::create(folder)?;
        let data = folder.join("data");
        std::fs::create_dir_all(&data)?;
        // The system's cache outlives the process, so nothing has to be on the disk. With
        // `everysec` a change may be written after its answer.
        let data = data.to_string_lossy().into_owned();
        let arguments = ["--dir", &data, "--appendonly", "yes", "--appendfsync", "no"];
        let arguments: Vec<_> = arguments.map(str::to_owned).into();
        let words: Vec<_> = arguments.iter().map(String::as_str).collect();
        let server = start_on(free_port(), &words).await;
        let links = links::to(&server, processes).await?;
        Ok(Self { server, arguments, links })
    }

    fn urls(&self, _: usize) -> Vec<Vec<String>> {
        self.links.iter().map(|link| vec![links::url(link)]).collect()
    }

    fn links(&self) -> Vec<Link> {
        self.links.clone()
    }

    async fn disturb(&mut self, journal: &Journal, rng: &mut Rng) -> Result<(), Failure> {
        if rng.u8(..3) > 0 {
            disturb_one(&self.server, journal, rng, 3_000).await;
            return Ok(());
        }
        let from = now();
        self.server.kill().await;
        work_for(millis(rng, 0..1_500)).await;
        self.server = start_on(self.server.port(), &self.arguments()).await;
        journal.fault("restarts", Effect::Away, from);
        Ok(())
    }
}
