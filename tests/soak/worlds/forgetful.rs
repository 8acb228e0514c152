//! One server whose data is deleted, and whose clock jumps.

use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use leasehold_history::{Effect, Line};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::work_for;

use super::{World, command, disturb_one};
use crate::Failure;
use crate::clock::{millis, nanos, now};
use crate::journal::Journal;
use crate::links::{self, Link};

pub(crate) struct Forgetful {
    server: Server,
    links: Vec<Link>,
}

impl World for Forgetful {
    const CLIENT: &'static str = "server";

    async fn start(_: &Path, processes: usize) -> Result<Self, Failure> {
        let server = Server::start_skewed();
        let links = links::to(&server, processes).await?;
        Ok(Self { server, links })
    }

    fn urls(&self, _: usize) -> Vec<Vec<String>> {
        self.links.iter().map(|link| vec![links::url(link)]).collect()
    }

    fn links(&self) -> Vec<Link> {
        self.links.clone()
    }

    async fn disturb(&mut self, journal: &Journal, rng: &mut Rng) -> Result<(), Failure> {
        match rng.u8(..5) {
            0 => {
                let from = now();
                command(&self.server, &["FLUSHALL"]).await;
                journal.fault("flushes", Effect::Forgets, from);
            }
            1 | 2 => jump(&self.server, journal, rng).await,
            _ => disturb_one(&self.server, journal, rng, 3_000).await,
        }
        Ok(())
    }
}

/// Moves the clock of a server.
pub(super) async fn jump(server: &Server, journal: &Journal, rng: &mut Rng) {
    let (from, time) = (now(), millis(rng, 50..1_500));
    if rng.bool() {
        server.jump(time);
        // The server looks at its clock when it does something.
        command(server, &["PING"]).await;
        // Leases end early.
        journal.fault("jumps-ahead", Effect::Forgets, from);
        return;
    }
    server.jump_back(time);
    let name = "jumps-back".to_owned();
    let (effect, amount) = (Effect::Behind, nanos(time));
    journal.note(&Line::Fault { effect, from, to: now(), amount, name, whose: None });
    // The next jump comes when the clock has made up for this one.
    work_for(time + Duration::from_secs(1)).await;
}
