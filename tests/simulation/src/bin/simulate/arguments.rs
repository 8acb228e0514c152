//! What the program is asked for.

use std::collections::BTreeSet;

use leasehold_simulation::trace::Printed;
use leasehold_simulation::world::{ClientMistake, Deployment, Fault, Mistake, Plan, ScriptLine};

#[derive(Clone, Debug)]
pub(crate) enum Mode {
    Many {
        from: u64,
        count: u64,
    },
    One(u64),
    Shrink(u64),
    /// Plants all mistakes, one after another.
    Mistakes,
    /// Leaves out all lines of the scripts, one after another; or those of the files whose names
    /// begin so.
    Lines(String),
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

    fn mistake(name: &str) -> Option<Self> {
        let in_client = || ClientMistake::named(name).map(Self::InClient);
        Mistake::named(name).map(Self::Mistake).or_else(in_client)
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
    pub(crate) without: BTreeSet<Fault>,
    pub(crate) processes: Option<usize>,
    pub(crate) tasks: Option<usize>,
    pub(crate) planted: Option<Planted>,
    pub(crate) deployment: Option<Deployment>,
}

impl Arguments {
    pub(crate) fn parse(words: &[String]) -> Option<Self> {
        let mut arguments = Self {
            mode: Mode::Many { from: 1, count: 20 },
            seconds: 60,
            only: None,
            is_quiet: false,
            without: BTreeSet::new(),
            processes: None,
            tasks: None,
            planted: None,
            deployment: None,
        };
        let (mut plain, mut first) = (Vec::new(), 1);
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--seed" => arguments.mode = Mode::One(words.next()?.parse().ok()?),
                "--shrink" => arguments.mode = Mode::Shrink(words.next()?.parse().ok()?),
                "--from" => first = words.next()?.parse().ok()?,
                "--mistakes" => arguments.mode = Mode::Mistakes,
                "--lines" => {
                    let files = words.next_if(|word| word.contains('/'));
                    arguments.mode = Mode::Lines(files.cloned().unwrap_or_default());
                }
                "--mistake" => {
                    arguments.planted = Some(Planted::mistake(words.next()?)?);
                }
                "--traffic" => arguments.mode = Mode::Traffic(words.next()?.parse().ok()?),
                "--without-line" => {
                    arguments.planted = Some(Planted::Without(ScriptLine::named(words.next()?)?));
                }
                "--deployment" => {
                    arguments.deployment = Some(Deployment::named(words.next()?)?);
                }
                "--only" => arguments.only = Some(words.next()?.clone()),
                "--quiet" => arguments.is_quiet = true,
                "--processes" => arguments.processes = Some(words.next()?.parse().ok()?),
                "--tasks" => arguments.tasks = Some(words.next()?.parse().ok()?),
                "--without" => {
                    let faults = words.next()?.split(',').map(Fault::named);
                    arguments.without = faults.collect::<Option<_>>()?;
                }
                plain_word => plain.push(plain_word.parse().ok()?),
            }
        }
        let mut plain = plain.into_iter();
        if let Mode::Many { from, count } = &mut arguments.mode {
            *from = first;
            *count = plain.next().unwrap_or(*count);
        }
        arguments.seconds = plain.next().unwrap_or(arguments.seconds);
        plain.next().is_none().then_some(arguments)
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
        if !self.without.is_empty() {
            let names: Vec<_> = self.without.iter().map(|fault| fault.name()).collect();
            words.extend(["--without".to_owned(), names.join(",")]);
        }
        for (word, number) in [("--processes", self.processes), ("--tasks", self.tasks)] {
            words.extend(number.map(|it| [word.to_owned(), it.to_string()]).into_iter().flatten());
        }
        words.extend(self.planted.iter().flat_map(Planted::words));
        if let Some(deployment) = self.deployment {
            words.extend(["--deployment".to_owned(), deployment.name().to_owned()]);
        }
        if let Some(only) = &self.only {
            words.extend(["--only".to_owned(), only.clone()]);
        }
        if self.is_quiet {
            words.push("--quiet".to_owned());
        }
        words
    }

    pub(crate) fn plan(&self, seed: u64) -> Plan {
        let mut plan = Plan::of(seed, self.seconds, self.deployment);
        plan.printed = match &self.only {
            _ if self.is_quiet => Printed::Nothing,
            None => Printed::All,
            Some(name) => Printed::Only(name.clone()),
        };
        plan.faults.retain(|fault| !self.without.contains(fault));
        plan.altered = self.planted.as_ref().and_then(Planted::altered);
        plan.ends_early = self.planted.is_some();
        plan.processes = self.processes.unwrap_or(plan.processes);
        plan.tasks = self.tasks.unwrap_or(plan.tasks);
        plan
    }
}
