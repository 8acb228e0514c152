//! The end of a world's jobs, when nothing else is in the way: processes of two versions with different
//! periods run one job, one of them dies in the middle of a run, some runs fail, and operators let the work
//! run again.
//!
//! Each tick that somebody can run has a success within [`BOUND`]; and work that may run again does so within
//! [`AGAIN`]. That no tick has two successes is for the oracle.

use std::time::Duration;

use super::client::Client;
use super::director::Director;
use super::job_runs::micros;
use super::jobs::{JITTER, JOB, RETRY};
use super::shared::Shared;
use super::turns::Worker;
use super::{run_until_ended, turn};
use crate::network::{LinkFaults, Micros};
use crate::process;

/// The periods of the two versions, and one that is longer than a world.
const OLD: Duration = Duration::from_secs(4);
const NEW: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(3600);

const TTL: Duration = Duration::from_millis(500);

/// How long a run takes. Two of five fail, in a row.
const LASTS: Duration = Duration::from_millis(100);
const FAILS: std::ops::Range<usize> = 1..3;

/// Whoever has found the lock held asks again when the lease would have ended, and up to so much later.
const ASKS: Duration = Duration::from_millis(200);

/// What travels, and what a process does meanwhile.
const NEWS: Duration = Duration::from_millis(100);

/// Within this time a tick has a success. As it begins, another run may just have got the lock, and ask for
/// no other tick soon. Then a process dies in the middle of a run, and two runs fail.
const BOUND: Duration = JITTER
    .saturating_add(TTL.saturating_add(ASKS).saturating_mul(2))
    .saturating_add(LASTS.saturating_mul(3))
    .saturating_add(RETRY.saturating_add(ASKS).saturating_mul(2).saturating_add(RETRY))
    .saturating_add(NEWS);

/// Within this time after an operator has had the answer, work runs again.
const AGAIN: Duration = Duration::from_millis(100).saturating_add(JITTER).saturating_add(NEWS);

/// For so long nobody reaches a server.
const DEAF: Micros = SECOND / 2;

/// The same where nobody has heard it: who connects again asks; at once, or a minute after it did so before.
const UNHEARD: Duration = Duration::from_secs(6).saturating_add(AGAIN);
const UNHEARD_AGAIN: Duration = Duration::from_secs(60).saturating_add(AGAIN);

const SECOND: Micros = 1_000_000;

/// For so long after it has lost all connections a client may miss messages.
const CONNECTS: Micros = 3 * SECOND;

impl Worker {
    /// Offers to run the job until the process is to end.
    async fn offer_a_job(self, period: Duration) {
        if let Client::All(locks) = &self.client {
            let (job, wish) = (self.job(locks, TTL, period), &self.wish_of_a_job(TTL));
            let running = job.run(|lease| {
                let nth = self.shared.with_job_runs(|runs| runs.count());
                self.run_of_a_job(lease, wish, LASTS, !FAILS.contains(&(nth % 5)))
            });
            tokio::select! {
                ended = running => self.shared.violation(format!("job: it ends: {ended:?}")),
                () = self.shared.ending(&self.name) => {}
            }
        }
        self.ends().await;
    }

    /// Lets the job run again, and asks until that is answered.
    async fn let_run_again(self) {
        if let Client::All(locks) = &self.client {
            while locks.run_again(JOB, &self.name, "a test").await.is_err() {}
        }
        self.shared.note_asked_again(process::now());
        self.ends().await;
    }
}

/// Returns `None` if somebody does not end.
pub(super) fn look(director: &mut Director, shared: &Shared) -> Option<()> {
    if director.is_quorum() {
        return Some(());
    }
    // What counts as done may lie ahead of a clock that was set back.
    run_again(director, shared, AGAIN);
    two_versions(director, shared);
    end_all(director, shared)?;
    again_and_again(director, shared);
    end_all(director, shared)
}

/// A deploy changes the period, and a process dies.
fn two_versions(director: &mut Director, shared: &Shared) {
    let began = director.now();
    let old = [(); 2].map(|()| offer(director, OLD));
    drive(director, 6 * SECOND);
    let deployed = director.now();
    offer(director, NEW);
    offer(director, NEW);
    drive(director, 3 * SECOND);
    shared.end(&old[0]);
    drive(director, 2 * SECOND);
    let dead = die_in_a_run(director, shared);
    let died = director.now();
    offer(director, NEW);
    drive(director, 7 * SECOND);
    let now = director.now();
    let old_until = if dead.as_ref() == Some(&old[1]) { died } else { now };
    let ticks = shared.with_job_runs(|runs| {
        let old = runs.ticks(OLD, (began, old_until), BOUND);
        [old, runs.ticks(NEW, (deployed, now), BOUND)].concat()
    });
    for missed in ticks {
        shared.judge("job", missed);
    }
}

/// While all sleep for long, an operator lets the work run again; and once more while nobody hears it.
fn again_and_again(director: &mut Director, shared: &Shared) {
    offer(director, LONG);
    offer(director, LONG);
    drive(director, 2 * SECOND);
    run_again(director, shared, AGAIN);
    deafen(director);
    run_again(director, shared, UNHEARD);
    drive(director, CONNECTS);
    run_again(director, shared, AGAIN);
    // A minute takes a while.
    if director.is_one_of(3) {
        deafen(director);
        run_again(director, shared, UNHEARD_AGAIN);
    }
}

/// Ends all connections, and lets nobody connect again for some time.
fn deafen(director: &mut Director) {
    let blocked_until = Some(director.now() + DEAF);
    for process in &director.processes {
        let faults = LinkFaults { blocked_until, ..LinkFaults::default() };
        director.network().links.disturb(process.id(), None, faults);
    }
    director.end_connections();
}

/// Lets the work run again, and finds out whether it does in time, if somebody is there.
fn run_again(director: &mut Director, shared: &Shared, bound: Duration) {
    let (began, has_processes) = (director.now(), !director.processes.is_empty());
    let process = director.start_to("again", Worker::let_run_again);
    while !shared.has_ended(&process) && director.now() < began + 20 * SECOND {
        drive(director, SECOND / 10);
    }
    let Some(answered) = shared.asked_again().filter(|at| *at >= began) else {
        shared.violation("job: an operator can't let it run again".to_owned());
        return;
    };
    // And it succeeds.
    drive(director, micros(bound) + SECOND);
    let until = answered + micros(bound);
    let runs = shared.with_job_runs(|runs| runs.first(began, until).is_some());
    if has_processes {
        let wrong = (!runs).then(|| format!("it may run again, and does not for {bound:?}"));
        shared.judge("runs again", wrong);
    }
}

/// A process offers to run the job. Returns its name.
fn offer(director: &mut Director, period: Duration) -> String {
    director.start_to("job", move |worker| worker.offer_a_job(period))
}

/// The next process that is in the middle of a run dies. Returns its name.
fn die_in_a_run(director: &mut Director, shared: &Shared) -> Option<String> {
    let until = director.now() + 6 * SECOND;
    while director.now() < until {
        turn(director);
        let runs = |name: &str| shared.with_job_runs(|runs| runs.is_running(name));
        if let Some(at) = director.processes.iter().position(|it| runs(&it.name)) {
            let name = director.processes[at].name.clone();
            director.kill(at);
            return Some(name);
        }
    }
    None
}

fn drive(director: &mut Director, time: Micros) {
    let until = director.now() + time;
    while director.now() < until {
        director.remove_ended();
        turn(director);
    }
}

/// Ends all processes in order.
fn end_all(director: &mut Director, shared: &Shared) -> Option<()> {
    for process in &director.processes {
        shared.end(&process.name);
    }
    run_until_ended(director).then_some(())
}
