//! Runs one deployment: its processes, its links and its servers, each with faults of their own.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use fastrand::Rng;
use leasehold_history::{Effect, Kind, Line};
use leasehold_tests::waiting::work_for;

use crate::Failure;
use crate::clock::{millis, nanos, now};
use crate::journal::Journal;
use crate::links;
use crate::processes::Crew;
use crate::stalls;
use crate::worker::{Client, LIMIT, LONGEST_TTL, PROBES, Probe};
use crate::worlds::World;

/// The processes of a deployment.
const PROCESSES: usize = 3;

/// What a deployment is run with.
pub(crate) struct Plan {
    pub(crate) folder: PathBuf,
    pub(crate) rng: Rng,
    pub(crate) until: Instant,
    pub(crate) is_planted: bool,
}

/// Runs one deployment, if there is a plan for it.
pub(crate) async fn run<W: World>(plan: Option<Plan>) -> Result<(), Failure> {
    let Some(Plan { folder, mut rng, until, is_planted }) = plan else { return Ok(()) };
    fs::create_dir_all(&folder)?;
    let until = tokio::time::Instant::from_std(until);
    let journal = Journal::create(&folder.join("director.history"))?;
    let machine = journal.clone();
    stalls::watch(move |from, to| {
        let name = "stalls".to_owned();
        let effect = Effect::Away;
        machine.note(&Line::Fault { effect, from, to, amount: 0, name, whose: None });
    });
    let mut world = W::start(&folder, PROCESSES).await?;
    let (links, urls) = (world.links(), world.urls(PROCESSES));
    let crew = Crew {
        folder,
        deployment: W::CLIENT.to_owned(),
        urls: urls.clone(),
        is_planted,
        journal: journal.clone(),
        rng: rng.fork(),
    };
    let (mut of_links, mut of_servers) = (rng.fork(), rng.fork());
    let servers = async {
        while tokio::time::Instant::now() < until {
            world.watch(&journal).await?;
            work_for(millis(&mut of_servers, 100..2_500)).await;
            world.watch(&journal).await?;
            world.disturb(&journal, &mut of_servers).await?;
        }
        world.watch(&journal).await
    };
    let disturbed = async {
        links::disturb(&links, &journal, until, &mut of_links).await;
        Ok::<(), Failure>(())
    };
    tokio::try_join!(crew.run(until), disturbed, servers)?;
    probe(&Client::connect(W::CLIENT, &urls[0])?, &journal).await;
    Ok(())
}

/// Asks for all of each lock. Everybody else is dead, so each is free when the leases of the dead
/// are over.
async fn probe(client: &Client, journal: &Journal) {
    let probes = PROBES.iter().enumerate().filter(|(_, probe)| probe.is_on(client));
    let all: Vec<_> = probes.map(|(nth, probe)| one(client, journal, nth, probe)).collect();
    for each in all {
        each.await;
    }
}

async fn one(client: &Client, journal: &Journal, nth: usize, probe: &Probe) {
    let (id, units) = (format!("probe:{nth}"), if probe.kind == Kind::Permits { LIMIT } else { 1 });
    journal.note(&Line::Ask {
        id: id.clone(),
        at: now(),
        lock: probe.lock.to_owned(),
        kind: probe.kind,
        units,
        limit: units,
        owner: "probe".to_owned(),
        ttl: nanos(LONGEST_TTL),
        linger: 0,
    });
    let acquired = probe.acquire(client).await;
    let at = now();
    let lease = match acquired {
        Ok(lease) => lease,
        Err(error) => {
            let why = format!("{error}").replace(char::is_whitespace, "_");
            journal.note(&Line::Refused { id, at, why });
            return;
        }
    };
    let token = lease.fence().ok().map(u64::from);
    journal.note(&Line::Got { id: id.clone(), at, token });
    journal.note(&Line::Held { id: id.clone(), at: now(), left: nanos(lease.remaining()) });
    journal.note(&Line::End { id: id.clone(), at: now() });
    let how = if lease.release().await.is_ok() { "free" } else { "store" };
    journal.note(&Line::Freed { id, at: now(), how: how.to_owned() });
}
