//! What the program is asked for.

use std::collections::BTreeSet;

use leasehold_simulation::trace::Printed;
use leasehold_simulation::world::{Deployment, Fault, Mistake, Plan};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    Many {
        from: u64,
        count: u64,
    },
    One(u64),
    Shrink(u64),
    /// Plants all mistakes, one after another.
    Mistakes,
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
    pub(crate) mistake: Option<&'static Mistake>,
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
            mistake: None,
            deployment: None,
        };
        let (mut plain, mut first) = (Vec::new(), 1);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--seed" => arguments.mode = Mode::One(words.next()?.parse().ok()?),
                "--shrink" => arguments.mode = Mode::Shrink(words.next()?.parse().ok()?),
                "--from" => first = words.next()?.parse().ok()?,
                "--mistakes" => arguments.mode = Mode::Mistakes,
                "--mistake" => arguments.mistake = Some(Mistake::named(words.next()?)?),
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
        let mut words = vec!["--seed".to_owned(), seed.to_string(), self.seconds.to_string()];
        if !self.without.is_empty() {
            let names: Vec<_> = self.without.iter().map(|fault| fault.name()).collect();
            words.extend(["--without".to_owned(), names.join(",")]);
        }
        for (word, number) in [("--processes", self.processes), ("--tasks", self.tasks)] {
            words.extend(number.map(|it| [word.to_owned(), it.to_string()]).into_iter().flatten());
        }
        if let Some(mistake) = self.mistake {
            words.extend(["--mistake".to_owned(), mistake.name.to_owned()]);
        }
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
        plan.mistake = self.mistake;
        plan.processes = self.processes.unwrap_or(plan.processes);
        plan.tasks = self.tasks.unwrap_or(plan.tasks);
        plan
    }
}
