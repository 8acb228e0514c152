//! The processes of a deployment: killed, stopped, ended, and started anew.

use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use fastrand::Rng;
use leasehold_history::Line;
use leasehold_tests::server::signal;
use leasehold_tests::waiting::work_for;
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

use crate::Failure;
use crate::clock::{millis, now};
use crate::journal::Journal;
use crate::worker::Worker;

/// A process that is told to end does so within this time, although its servers may be away.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// What all processes of a deployment have in common.
pub(crate) struct Crew {
    pub(crate) folder: PathBuf,
    pub(crate) deployment: String,
    /// The URLs for each process.
    pub(crate) urls: Vec<Vec<String>>,
    pub(crate) is_planted: bool,
    pub(crate) journal: Journal,
    pub(crate) rng: Rng,
}

/// A running process.
struct Running {
    name: String,
    child: Child,
}

impl Crew {
    /// Starts the processes, and disturbs one after another until all are killed in the end.
    pub(crate) async fn run(mut self, until: Instant) -> Result<(), Failure> {
        let mut started = vec![0_u32; self.urls.len()];
        let mut running = Vec::new();
        for (slot, count) in started.iter_mut().enumerate() {
            running.push(self.start(slot, count)?);
        }
        while Instant::now() < until {
            work_for(millis(&mut self.rng, 100..2_500)).await;
            let slot = self.rng.usize(..running.len());
            self.notice_ended(&mut running)?;
            let is_over = match self.rng.u8(..10) {
                0..=3 => {
                    self.kill(&mut running[slot]).await?;
                    true
                }
                4 => {
                    self.end(&mut running[slot]).await?;
                    true
                }
                _ => {
                    self.stop(&running[slot]).await;
                    false
                }
            };
            if is_over {
                work_for(millis(&mut self.rng, 0..800)).await;
                running[slot] = self.start(slot, &mut started[slot])?;
            }
        }
        self.notice_ended(&mut running)?;
        // Half of them are dead all of a sudden, and the others end in order.
        for (nth, process) in running.iter_mut().enumerate() {
            if nth % 2 == 0 {
                self.kill(process).await?;
            } else {
                self.end(process).await?;
            }
        }
        Ok(())
    }

    fn start(&mut self, slot: usize, started: &mut u32) -> Result<Running, Failure> {
        *started += 1;
        let name = format!("w{slot}.{started}");
        let file = |end| self.folder.join(format!("{name}.{end}"));
        let worker = Worker {
            name: name.clone(),
            file: file("history").to_string_lossy().into_owned(),
            seed: self.rng.u64(..),
            is_planted: self.is_planted,
            deployment: self.deployment.clone(),
            urls: self.urls[slot].clone(),
        };
        let child = Command::new(std::env::current_exe()?)
            .arg("worker")
            .args(worker.words())
            .stdin(Stdio::piped())
            .stderr(File::create(file("log"))?)
            .kill_on_drop(true)
            .spawn()?;
        Ok(Running { name, child })
    }

    /// A process that ended by itself is a violation. Nothing else is done about it.
    fn notice_ended(&self, running: &mut [Running]) -> Result<(), Failure> {
        for process in running {
            if process.child.id().is_some() && process.child.try_wait()?.is_some() {
                self.dead(process, false);
            }
        }
        Ok(())
    }

    fn dead(&self, process: &Running, was_planned: bool) {
        let worker = process.name.clone();
        self.journal.note(&Line::Dead { worker, at: now(), was_planned });
    }

    async fn kill(&self, process: &mut Running) -> Result<(), Failure> {
        if process.child.id().is_some() {
            process.child.kill().await?;
            self.dead(process, true);
        }
        Ok(())
    }

    /// Lets a process shut down.
    async fn end(&self, process: &mut Running) -> Result<(), Failure> {
        if process.child.id().is_some() {
            drop(process.child.stdin.take());
            let is_good = match timeout(ENDS_WITHIN, process.child.wait()).await {
                Ok(ended) => ended?.success(),
                Err(_) => false,
            };
            process.child.kill().await?;
            self.dead(process, is_good);
        }
        Ok(())
    }

    /// Stops a process, often for longer than its leases last.
    async fn stop(&mut self, process: &Running) {
        let Some(pid) = process.child.id().map(|pid| pid.to_string()) else { return };
        let from = now();
        signal("-STOP", &pid);
        work_for(millis(&mut self.rng, 50..4_000)).await;
        signal("-CONT", &pid);
        let worker = process.name.clone();
        self.journal.note(&Line::Stopped { worker, from, to: now() });
    }
}
