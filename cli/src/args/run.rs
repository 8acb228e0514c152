//! The options of `run`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use crate::time::time;

/// How long `run` waits for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    For(Duration),
    Forever,
}

#[derive(Args, Debug)]
pub(crate) struct Run {
    /// The name of the lock
    pub(crate) key: String,
    /// How long the lock stays held if this machine dies. It is renewed every third of it
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    pub(crate) ttl: Duration,
    /// How long to wait for the lock, such as 5m, or `forever`
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = waiting)]
    pub(crate) wait: Waiting,
    /// Lets this many hold the lock at a time
    #[arg(long, value_name = "COUNT")]
    pub(crate) permits: Option<u32>,
    /// How many of the permits the command takes
    #[arg(long, value_name = "COUNT", default_value_t = 1, requires = "permits")]
    pub(crate) weight: u32,
    /// Ends the command when it has held the lock for so long
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) max_hold: Option<Duration>,
    /// Runs nothing for so long after the command has succeeded
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with_all = ["permits", "once_per"])]
    pub(crate) once: Option<Duration>,
    /// Lets the command succeed once in each such period of the server's clock: UTC, weeks from Monday
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "permits")]
    pub(crate) once_per: Option<Duration>,
    /// Shifts the periods of --once-per
    #[arg(long, value_name = "TIME", value_parser = time, requires = "once_per")]
    pub(crate) offset: Option<Duration>,
    /// Lets the command succeed once in each tick of a calendar: a pattern of cron, or hourly, daily,
    /// weekly, monthly or yearly, in a time zone, such as 'daily in Europe/Berlin'
    #[arg(
        long,
        value_name = "PATTERN in ZONE",
        conflicts_with_all = ["permits", "once", "once_per", "offset"]
    )]
    pub(crate) schedule: Option<String>,
    /// Ends the command when another one waits for the lock; with --once-per or --schedule, at the end
    /// of its tick
    #[arg(long, requires = "wait", conflicts_with_all = ["permits", "once"])]
    pub(crate) replace: bool,
    /// What `ls` and `show` say about the holder
    #[arg(long)]
    pub(crate) note: Option<String>,
    /// A name for the holder
    #[arg(long)]
    pub(crate) owner: Option<String>,
    /// The time between TERM and KILL when the lock is lost [default: a quarter of the TTL, at
    /// most 5s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) grace: Option<Duration>,
    /// Says nothing if others hold the lock, or the work is done
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// The command and its arguments. No shell reads them
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

fn waiting(text: &str) -> Result<Waiting, String> {
    if text == "forever" { Ok(Waiting::Forever) } else { time(text).map(Waiting::For) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_has_a_unit_or_no_end() {
        assert_eq!(waiting("5m"), Ok(Waiting::For(Duration::from_secs(300))));
        assert_eq!(waiting("forever"), Ok(Waiting::Forever));
        assert!(waiting("5").is_err());
    }
}
