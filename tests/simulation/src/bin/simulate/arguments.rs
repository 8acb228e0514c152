//! What the program is asked for.

use std::collections::BTreeSet;

use clap::error::ErrorKind;
use clap::{ArgGroup, CommandFactory, Parser};
use leasehold_simulation::trace::Printed;
use leasehold_simulation::world::{
    ClientMistake, Deployment, Fault, Mistake, Only, Plan, ScriptLine,
};

#[derive(Clone, Debug)]
pub(crate) enum Mode {
    Many {
        from: u64,
        count: u64,
    },
    One(u64),
    Shrink(u64),
    /// Plants all mistakes, one after another; those of the `scripts` or the `client`; or those whose
    /// names have this in them.
    Mistakes(String),
    /// Leaves out all lines of the scripts, one after another; or those of the files whose names
    /// begin so.
    Lines(String),
    /// Those in which something was found once.
    Known,
    /// Judges hostile commands of so many seeds instead of a world.
    Traffic(u64),
}

/// What is wrong in the worlds, on purpose.
#[derive(Clone, Debug)]
pub(crate) enum Planted {
    Mistake(&'static Mistake),
    /// A copy of the client has it built in.
    InClient(&'static ClientMistake),
    /// A line of a script is left out.
    Without(ScriptLine),
}

impl Planted {
    /// The words that plant it.
    fn words(&self) -> [String; 2] {
        match self {
            Self::Mistake(mistake) => ["--mistake".to_owned(), mistake.name.to_owned()],
            Self::InClient(mistake) => ["--mistake".to_owned(), mistake.name().to_owned()],
            Self::Without(line) => ["--without-line".to_owned(), line.to_string()],
        }
    }

    fn mistake(name: &str) -> Result<Self, String> {
        let in_client = || ClientMistake::named(name).map(Self::InClient);
        let found = Mistake::named(name).map(Self::Mistake).or_else(in_client);
        found.ok_or_else(|| "no mistake has this name".to_owned())
    }

    /// What it changes in the scripts.
    pub(crate) fn altered(&self) -> Option<(String, String)> {
        match self {
            Self::Mistake(mistake) => Some((mistake.from.to_owned(), mistake.to.to_owned())),
            Self::InClient(_) => None,
            Self::Without(line) => Some(line.deleted()),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    pub(crate) mode: Mode,
    pub(crate) seconds: u64,
    pub(crate) only: Option<String>,
    pub(crate) is_quiet: bool,
    /// The faults that may happen; `None`: those that each seed chooses.
    pub(crate) among: Option<BTreeSet<Fault>>,
    pub(crate) without: BTreeSet<Fault>,
    pub(crate) processes: Option<usize>,
    pub(crate) tasks: Option<usize>,
    pub(crate) planted: Option<Planted>,
    pub(crate) deployment: Option<Deployment>,
    /// Whether clients may end connections that they have left; `None`: as each seed chooses.
    pub(crate) may_kill: Option<bool>,
}

/// More would fill the memory with the world's history.
const MOST_SECONDS: u64 = 3_600;

/// Runs worlds, each decided by its seed: the client, the scripts and all faults.
///
/// Each world is a process of its own, whose random numbers of the system are always the same. So
/// nothing of a world follows from those before it.
#[derive(Clone, Debug, Parser)]
#[command(name = "simulate")]
#[command(override_usage = "simulate [SEEDS] [SECONDS] [--from SEED]
       simulate --seed SEED [SECONDS] [--only NAME]
       simulate --shrink SEED [SECONDS]
       simulate --mistakes[=NAMES] [SECONDS]
       simulate --lines[=FILES] [SECONDS]
       simulate --known
       simulate --traffic SEEDS")]
#[command(group = ArgGroup::new("mode").args(["from", "seed", "shrink", "mistakes", "lines", "known", "traffic"]))]
struct Words {
    /// How many worlds, and for how many simulated seconds each; with another mode, the seconds alone
    #[arg(num_args = 0..=2)]
    numbers: Vec<u64>,
    /// The first of the seeds
    #[arg(long, value_name = "SEED")]
    from: Option<u64>,
    /// Shows one world, with its events
    #[arg(long)]
    seed: Option<u64>,
    /// Looks for the smallest world of a seed that still fails
    #[arg(long, value_name = "SEED")]
    shrink: Option<u64>,
    /// Plants each mistake, or those that have this in their names, and says which seed finds it
    #[arg(long, value_name = "NAMES", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    mistakes: Option<String>,
    /// Leaves out each line of the scripts, or of those whose names begin so, and lists the lines that
    /// no seed misses
    #[arg(long, value_name = "FILES", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    lines: Option<String>,
    /// Runs the worlds in which something was found once
    #[arg(long)]
    known: bool,
    /// Judges hostile commands of so many seeds instead of a world
    #[arg(long, value_name = "SEEDS")]
    traffic: Option<u64>,
    /// Shows the events with this in them
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Shows no events
    #[arg(long)]
    quiet: bool,
    /// Lets these faults happen and no others; without a name, none
    #[arg(long, value_name = "FAULTS", value_delimiter = ',', num_args = 0.., require_equals = true, value_parser = fault)]
    among: Option<Vec<Fault>>,
    /// Leaves out faults
    #[arg(long, value_name = "FAULT", value_delimiter = ',', value_parser = fault)]
    without: Vec<Fault>,
    /// How many processes work at a time
    #[arg(long, value_name = "NUMBER", value_parser = within::<1, 64>)]
    processes: Option<usize>,
    /// How many tasks each process has
    #[arg(long, value_name = "NUMBER", value_parser = within::<1, 1_000>)]
    tasks: Option<usize>,
    /// Plants a mistake
    #[arg(long, value_name = "NAME", value_parser = Planted::mistake, conflicts_with = "without_line")]
    mistake: Option<Planted>,
    /// Leaves out a line of a script
    #[arg(long, value_name = "FILE:NUMBER", value_parser = without_line)]
    without_line: Option<Planted>,
    /// Puts the world on other servers: single, quorum3, quorum5, cluster, sentinel, sentinel-sync
    #[arg(long, value_name = "NAME", value_parser = deployment)]
    deployment: Option<Deployment>,
    /// Says whether clients may end connections that they have left
    #[arg(long, value_name = "BOOLEAN")]
    may_kill: Option<bool>,
}

fn fault(name: &str) -> Result<Fault, String> {
    let all = || Fault::ALL.map(Fault::name).join(", ");
    Fault::named(name).ok_or_else(|| format!("the faults are {}", all()))
}

fn deployment(name: &str) -> Result<Deployment, String> {
    Deployment::named(name).ok_or_else(|| "no servers have this name".to_owned())
}

fn without_line(name: &str) -> Result<Planted, String> {
    let line = ScriptLine::named(name).map(Planted::Without);
    line.ok_or_else(|| "no script has this line".to_owned())
}

fn within<const LEAST: usize, const MOST: usize>(word: &str) -> Result<usize, String> {
    let number = word.parse().ok().filter(|it| (LEAST..=MOST).contains(it));
    number.ok_or_else(|| format!("it is a number from {LEAST} to {MOST}"))
}

impl Arguments {
    /// Worlds of which the seed chooses everything.
    pub(crate) fn new(mode: Mode, seconds: u64) -> Self {
        Self {
            mode,
            seconds,
            only: None,
            is_quiet: false,
            among: None,
            without: BTreeSet::new(),
            processes: None,
            tasks: None,
            planted: None,
            deployment: None,
            may_kill: None,
        }
    }

    /// Takes the program's arguments. Where they are wrong, says so and ends the program.
    pub(crate) fn parse() -> Self {
        Self::of(Words::parse())
    }

    /// The world of a line of the file of seeds: its seed, its seconds, and what the seed does not choose.
    pub(crate) fn of_seed<'a>(
        seed: &'a str,
        seconds: &'a str,
        rest: impl Iterator<Item = &'a str>,
    ) -> Self {
        let words = ["simulate", "--seed", seed, seconds].into_iter().chain(rest);
        Self::of(Words::parse_from(words))
    }

    fn of(words: Words) -> Self {
        let mut numbers = words.numbers.iter().copied();
        let mode = match words.clone() {
            Words { seed: Some(seed), .. } => Mode::One(seed),
            Words { shrink: Some(seed), .. } => Mode::Shrink(seed),
            Words { mistakes: Some(names), .. } => Mode::Mistakes(names),
            Words { lines: Some(files), .. } => Mode::Lines(files),
            Words { known: true, .. } => Mode::Known,
            Words { traffic: Some(seeds), .. } => Mode::Traffic(seeds),
            Words { from, .. } => {
                Mode::Many { from: from.unwrap_or(1), count: numbers.next().unwrap_or(20) }
            }
        };
        let seconds = numbers.next().unwrap_or(60);
        let problem = match mode {
            _ if !(1..=MOST_SECONDS).contains(&seconds) => Some(format!(
                "a world lasts from 1 to {MOST_SECONDS} simulated seconds, not {seconds}"
            )),
            Mode::Many { from, count } if from.checked_add(count).is_none() => {
                Some(format!("there are no {count} seeds from {from} on"))
            }
            _ => numbers.next().map(|next| format!("nothing is left that could be {next}")),
        };
        if let Some(problem) = problem {
            Words::command().error(ErrorKind::ValueValidation, problem).exit();
        }
        Self {
            only: words.only,
            is_quiet: words.quiet,
            among: words.among.map(|all| all.into_iter().collect()),
            without: words.without.into_iter().collect(),
            processes: words.processes,
            tasks: words.tasks,
            planted: words.mistake.or(words.without_line),
            deployment: words.deployment,
            may_kill: words.may_kill,
            ..Self::new(mode, seconds)
        }
    }

    /// The same, in these worlds alone. What was asked for comes first.
    pub(crate) fn in_worlds(self, only: Only) -> Self {
        let faults = only.faults.map(|faults| faults.iter().copied().collect());
        Self {
            deployment: self.deployment.or(only.deployment),
            among: self.among.or(faults),
            may_kill: self.may_kill.or(only.may_kill),
            processes: self.processes.or(only.processes),
            ..self
        }
    }

    /// The words for a process that is the world of this seed.
    pub(crate) fn words(&self, seed: u64) -> Vec<String> {
        if let Mode::Traffic(seeds) = self.mode {
            let planted = self.planted.iter().flat_map(Planted::words);
            return ["--traffic".to_owned(), seeds.to_string()]
                .into_iter()
                .chain(planted)
                .collect();
        }
        let mut words = vec!["--seed".to_owned(), seed.to_string(), self.seconds.to_string()];
        let names =
            |all: &BTreeSet<Fault>| all.iter().map(|it| it.name()).collect::<Vec<_>>().join(",");
        words.extend(self.among.as_ref().map(|among| match names(among) {
            none if none.is_empty() => "--among".to_owned(),
            some => format!("--among={some}"),
        }));
        if !self.without.is_empty() {
            words.extend(["--without".to_owned(), names(&self.without)]);
        }
        for (word, number) in [("--processes", self.processes), ("--tasks", self.tasks)] {
            words.extend(number.map(|it| [word.to_owned(), it.to_string()]).into_iter().flatten());
        }
        words.extend(self.planted.iter().flat_map(Planted::words));
        if let Some(deployment) = self.deployment {
            words.extend(["--deployment".to_owned(), deployment.name().to_owned()]);
        }
        if let Some(may_kill) = self.may_kill {
            words.extend(["--may-kill".to_owned(), may_kill.to_string()]);
        }
        if let Some(only) = &self.only {
            words.extend(["--only".to_owned(), only.clone()]);
        }
        if self.is_quiet {
            words.push("--quiet".to_owned());
        }
        words
    }

    /// Returns true if each seed chooses what its world is, but for the servers.
    pub(crate) fn is_usual(&self) -> bool {
        self.planted.is_none()
            && self.among.is_none()
            && self.without.is_empty()
            && self.processes.is_none()
            && self.tasks.is_none()
            && self.may_kill.is_none()
    }

    pub(crate) fn plan(&self, seed: u64) -> Plan {
        let mut plan = Plan::of(seed, self.seconds, self.deployment);
        plan.printed = match &self.only {
            _ if self.is_quiet => Printed::Nothing,
            None => Printed::All,
            Some(name) => Printed::Only(name.clone()),
        };
        if let Some(among) = self.among.clone() {
            plan.let_happen(among);
        }
        plan.faults.retain(|fault| !self.without.contains(fault));
        plan.altered = self.planted.as_ref().and_then(Planted::altered);
        plan.ends_early = self.planted.is_some();
        plan.may_kill = self.may_kill.unwrap_or(plan.may_kill);
        plan.processes = self.processes.unwrap_or(plan.processes);
        plan.tasks = self.tasks.unwrap_or(plan.tasks);
        plan
    }
}
