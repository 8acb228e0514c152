//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::Failure;
use crate::worker::Worker;

const USAGE: &str =
    "soak [--planted] [--keep] [--only DEPLOYMENT]… [MINUTES] [SEED] | soak check FOLDER";

/// What to do.
pub(crate) enum Command {
    /// Run, and check.
    Soak(Arguments),
    /// Check the histories in a folder.
    Check(PathBuf),
    /// Be one of the processes.
    Worker(Worker),
}

/// How to run.
pub(crate) struct Arguments {
    pub(crate) time: Duration,
    pub(crate) seed: Option<u64>,
    /// The deployments; all if there are none.
    pub(crate) only: Vec<String>,
    /// True if some holders believe that their leases last longer than they do.
    pub(crate) is_planted: bool,
    /// True if the histories are kept, also if they are good.
    pub(crate) is_kept: bool,
}

impl Command {
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let words: Vec<_> = words.collect();
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["worker", ..] => return Ok(Self::Worker(Worker::parse(&words[1..])?)),
            ["check", folder] => return Ok(Self::Check(folder.into())),
            _ => {}
        }
        let (mut numbers, mut only) = (Vec::new(), Vec::new());
        let (mut is_planted, mut is_kept) = (false, false);
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            match &*word {
                "--planted" => is_planted = true,
                "--keep" => is_kept = true,
                "--only" => only.push(words.next().ok_or(USAGE)?),
                _ => numbers.push(word),
            }
        }
        let minutes: f64 = numbers.first().map_or("10", |text| text).parse().map_err(|_| USAGE)?;
        let time = Duration::try_from_secs_f64(minutes * 60.0).map_err(|_| USAGE)?;
        let seed = numbers.get(1).map(|text| text.parse()).transpose().map_err(|_| USAGE)?;
        let known = ["quiet", "durable", "forgetful", "sentinel", "cluster", "quorum"];
        if numbers.len() > 2 || only.iter().any(|name| !known.contains(&&**name)) {
            return Err(USAGE.into());
        }
        Ok(Self::Soak(Arguments { time, seed, only, is_planted, is_kept }))
    }
}
