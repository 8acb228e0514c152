//! Processes that begin together, and their reports.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::clock::now;
use crate::failure::Failure;
use crate::records::{Record, Records};

/// Processes that are ready to begin; they are killed when this is dropped.
pub(crate) struct Crew {
    workers: Vec<Worker>,
}

struct Worker {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
    pings: Option<[Duration; 2]>,
}

/// This program again, as a worker.
pub(crate) fn ourselves(work: &str) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(work);
    Ok(command)
}

impl Crew {
    /// Starts this many processes, one after another, and waits until each is ready.
    pub(crate) fn start(
        processes: usize,
        command: impl Fn() -> Result<Command, Failure>,
    ) -> Result<Self, Failure> {
        let mut workers = Vec::new();
        for _ in 0..processes {
            workers.push(Worker::start(&mut command()?)?);
        }
        Ok(Self { workers })
    }

    /// The median times of a PING: paced, and one after another.
    pub(crate) fn pings(&self) -> Option<[Duration; 2]> {
        self.workers.first()?.pings
    }

    /// Lets all begin, and returns the time.
    pub(crate) fn go(&mut self) -> Result<Duration, Failure> {
        let begun = now();
        for worker in &mut self.workers {
            let input = worker.child.stdin.as_mut().ok_or("its input is piped")?;
            input.write_all(b"go\n")?;
        }
        Ok(begun)
    }

    /// Waits for all processes, and gathers their records.
    pub(crate) fn records(mut self) -> Result<Records, Failure> {
        let mut records = Vec::new();
        for (process, worker) in self.workers.iter_mut().enumerate() {
            for row in worker.rows()? {
                let [task, stamps @ ..] = &row[..] else { return Err("an empty record".into()) };
                let task = usize::try_from(*task)?;
                let &[asked, start, end] = stamps else { return Err("a short record".into()) };
                let [asked, start, end] = [asked, start, end].map(Duration::from_nanos);
                records.push(Record { process, task, asked, start, end });
            }
        }
        Ok(Records::new(records))
    }

    /// Waits for the next row of numbers of the only process, which goes on.
    pub(crate) fn row(&mut self) -> Result<Vec<u64>, Failure> {
        let worker = self.workers.first_mut().ok_or("there is no process")?;
        let line = worker.output.next().ok_or("it ended without a row")??;
        Ok(serde_json::from_str(&line)?)
    }

    /// Waits for the only process, and returns its only row of numbers.
    pub(crate) fn answer(self) -> Result<Vec<u64>, Failure> {
        self.answers()?.pop().ok_or_else(|| "it said nothing".into())
    }

    /// Waits for all processes, and returns their rows of numbers.
    pub(crate) fn answers(mut self) -> Result<Vec<Vec<u64>>, Failure> {
        let rows = self.workers.iter_mut().map(Worker::rows).collect::<Result<Vec<_>, _>>()?;
        Ok(rows.concat())
    }
}

impl Worker {
    fn start(command: &mut Command) -> Result<Self, Failure> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or("its output is piped")?).lines();
        let mut worker = Self { child, output, pings: None };
        while let Some(line) = worker.output.next().transpose()? {
            let said: Value = serde_json::from_str(&line)?;
            if said == "ready" {
                return Ok(worker);
            }
            let ping = |n: usize| said["ping"][n].as_u64().map(Duration::from_nanos);
            worker.pings = ping(0).zip(ping(1)).map(Into::into);
        }
        Err(format!("{command:?} ended before it was ready").into())
    }

    fn rows(&mut self) -> Result<Vec<Vec<u64>>, Failure> {
        let rows = self.output.by_ref().map(|line| Ok(serde_json::from_str(&line?)?));
        let rows = rows.collect::<Result<_, Failure>>()?;
        let status = self.child.wait()?;
        if status.success() { Ok(rows) } else { Err(format!("a worker failed: {status}").into()) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
