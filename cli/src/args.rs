//! The command line: its commands and their options.

#[cfg(unix)]
mod run;

#[cfg(unix)]
use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

#[cfg(unix)]
pub(super) use self::run::{Run, Waiting};
use super::choice::{Choice, Sort};
use super::time::time;

/// Looks at locks, frees them, and runs commands under them.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, after_help = CODES)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) server: Server,
    /// Prints JSON: one object per line on stdout, and errors as JSON on stderr
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(super) json: bool,
    /// Logs what the client does to stderr; twice for more
    #[arg(long, short, global = true, help_heading = GLOBAL, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// The prefix of a client that names none.
pub(super) const DEFAULT_PREFIX: &str = "leasehold";

/// The heading of the options that each command has.
const GLOBAL: &str = "Global options";

const CODES: &str = "\
Exit codes:
  0    done
  1    force: nobody held the lock; limit unset: none was set; doctor: there is a problem; jobs: one
       is overdue, or has a success in the future
  120  run: others hold the lock, or an operator has closed it
  121  run: the lock was lost, and the command was ended; or its success was not recorded
  122  run: the work is done already (--once, --once-per)
  123  the server can't be reached, or refuses
  125  wrong arguments, or the tool itself failed
  126  run: the command can't be started
  127  run: there is no such command
Otherwise `run` ends with its command's code, or 128 plus the number of the signal that ended it.";

#[cfg(unix)]
const RUN_CODES: &str = "\
Exit codes:
  120  others hold the lock, or an operator has closed it
  121  the lock was lost, and the command was ended; or its success was not recorded
  122  the work is done already (--once, --once-per, --schedule)
  123  the server can't be reached, or refuses
  125  wrong arguments, or the tool itself failed
  126  the command can't be started
  127  there is no such command
Otherwise it ends with its command's code, or 128 plus the number of the signal that ended it.";

/// Where the locks are.
#[derive(Args, Clone, Debug)]
pub(super) struct Server {
    /// The server: redis://, rediss://, unix://, redis+sentinel://, or several nodes of a cluster.
    /// Other users of this machine see it; `REDIS_URL` is safer for a password
    #[arg(long, global = true, help_heading = GLOBAL, env = "REDIS_URL", hide_env_values = true)]
    pub(super) url: Option<String>,
    /// The prefix of the service's keys
    #[arg(long, global = true, help_heading = GLOBAL, env = "LEASEHOLD_PREFIX", default_value = DEFAULT_PREFIX)]
    pub(super) prefix: String,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Runs a command while a lock is held
    #[cfg(unix)]
    #[command(after_help = RUN_CODES)]
    Run(Box<Run>),
    /// Lists the locks that are held or waited for, those in trouble first
    Ls(Ls),
    /// Shows one lock: all its holders and waiters
    Show(Key),
    /// Shows the table of `ls`, and refreshes it
    Watch(Watch),
    /// Lists the prefixes under which the server has locks
    Prefixes,
    /// Lists jobs, the overdue ones first: work with --once-per or --schedule that has run
    Jobs(Pattern),
    /// Lets work run again that is done
    RunAgain(RunAgain),
    /// Takes a lock from its holders
    Force(Force),
    /// Lists and changes the limits of semaphores, in all processes at once
    #[command(subcommand)]
    Limit(Limit),
    /// Looks for what puts the locks at risk
    Doctor(Doctor),
    /// Serves the console, a web page that shows the locks
    Serve(Serve),
    /// Prints a script that completes this tool's arguments in a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Prints the manual page, or writes one for each command
    Man {
        /// The folder for the pages
        #[arg(long, value_name = "FOLDER")]
        out: Option<std::path::PathBuf>,
    },
    /// Guards the command of `run`. `run` starts it
    #[cfg(unix)]
    #[command(hide = true)]
    Guard {
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

#[derive(Args, Debug)]
pub(super) struct Key {
    /// The name of the lock
    pub(super) key: String,
}

#[derive(Args, Debug)]
pub(super) struct RunAgain {
    /// The name of the job, or of the lock with --once
    pub(super) key: String,
    /// Why. `jobs` and `show` say it for a day
    #[arg(long)]
    pub(super) why: Option<String>,
    /// Who lets it run again [default: $USER]
    #[arg(long)]
    pub(super) by: Option<String>,
}

#[derive(Args, Debug)]
pub(super) struct Pattern {
    /// Which names: `*` is any text, `?` any one character
    #[arg(default_value = "*")]
    pub(super) pattern: String,
}

#[derive(Args, Debug)]
pub(super) struct Ls {
    #[command(flatten)]
    pub(super) choice: Choice,
    /// What comes first [default: trouble; with --json, each lock as soon as it is known]
    #[arg(long, value_enum)]
    pub(super) sort: Option<Sort>,
    /// How many locks to print [default: 1000; with --json, all]
    #[arg(long, value_name = "COUNT")]
    pub(super) limit: Option<usize>,
}

#[derive(Args, Debug)]
pub(super) struct Watch {
    #[command(flatten)]
    pub(super) choice: Choice,
    /// What comes first
    #[arg(long, value_enum, default_value_t)]
    pub(super) sort: Sort,
    /// The pause between two looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    pub(super) interval: Duration,
}

#[derive(Args, Debug)]
pub(super) struct Force {
    /// The name of the lock
    pub(super) key: String,
    /// Takes it from these holders alone: a service, a host, HOST:PROCESS, SERVICE@HOST:PROCESS, an
    /// owner, or an id
    #[arg(long, value_name = "HOLDER")]
    pub(super) holder: Vec<String>,
    /// Why. `show` says it for a day, with your name
    #[arg(long)]
    pub(super) reason: Option<String>,
    /// Does not ask
    #[arg(long, short)]
    pub(super) yes: bool,
}

/// What to do with the limits that operators set.
#[derive(Debug, Subcommand)]
pub(super) enum Limit {
    /// Lists the limits that are set
    Ls,
    /// Sets a limit, in place of that of the code
    Set {
        #[command(flatten)]
        of: LimitName,
        /// How many permits there are. With 0 nobody gets in
        limit: u32,
        /// Why. Whoever is refused reads it, and so does `limit ls`
        #[arg(long)]
        why: Option<String>,
        /// Who sets it [default: $USER]
        #[arg(long)]
        by: Option<String>,
    },
    /// Takes a limit back: that of the code holds again
    Unset {
        #[command(flatten)]
        of: LimitName,
    },
}

#[derive(Args, Debug)]
pub(super) struct LimitName {
    /// The name of the semaphore; with --label, the label of all that the limit is for
    pub(super) name: String,
    /// The limit is for all names with this label, such as tenant:{id}
    #[arg(long)]
    pub(super) label: bool,
}

#[derive(Args, Debug)]
pub(super) struct Doctor {
    /// Ends with 1 for warnings, too
    #[arg(long)]
    pub(super) strict: bool,
}

#[derive(Args, Debug)]
pub(super) struct Serve {
    /// The address and port; a port alone is one of 127.0.0.1
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8517", value_parser = address)]
    pub(super) listen: std::net::SocketAddr,
    #[command(flatten)]
    pub(super) people: People,
    /// Serves other machines, too. The console has no login
    #[arg(long)]
    pub(super) allow_remote: bool,
}

fn address(text: &str) -> Result<std::net::SocketAddr, String> {
    if let Ok(port) = text.trim_start_matches(':').parse() {
        return Ok((std::net::Ipv4Addr::LOCALHOST, port).into());
    }
    let wrong =
        |_| "write an address and a port, such as 127.0.0.1:8517, or a port alone".to_owned();
    text.replace("localhost", "127.0.0.1").parse().map_err(wrong)
}

/// What people may do in the console.
#[derive(Args, Debug)]
pub(super) struct People {
    /// Lets people free locks by force
    #[arg(long)]
    pub(super) allow_force: bool,
    /// Lets people set and unset limits of semaphores
    #[arg(long)]
    pub(super) allow_limits: bool,
    /// Lets people run done work again
    #[arg(long)]
    pub(super) allow_run_again: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_options_fit_together() {
        Cli::command().debug_assert();
    }
}
