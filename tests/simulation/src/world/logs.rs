//! What the clients' logs tell their operators, as `docs/guide/operating.md` says it under "What the log says":
//! each warning is one that stands there; it says the label of a lock, and not its name; nothing is told of the
//! servers while nothing is wrong; and what is told seldom is.

use std::collections::BTreeMap;
use std::sync::Arc;

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::director::Director;
use super::metrics::NO_LABEL;
use super::plan::Plan;
use super::rates::RATES;
use super::shared::Shared;
use super::told::LABEL;
use super::told_losses::ToldLosses;
use super::wishes::PROBES;
use crate::network::Micros;
use crate::process;
use crate::telemetry::{LogLine, Telemetry};

const GUIDE: &str = include_str!("../../../../docs/guide/operating.md");

/// The lines of which the guide shows a part alone.
const SHORT: [&str; 3] = [
    "a lease could not be ",
    "the lock store's settings put locks at risk: ",
    "a server of the quorum does not count yet: ",
];

/// What is told only where a server, or the way to it, was away.
const TROUBLES: [&str; 13] = [
    "a lock could not be released; its TTL ends it",
    "leases could not be renewed; trying again",
    "work succeeded, and an answer was lost; whether it counts as done is unknown",
    "a lease could not be ",
    "the lock store failed; retrying until it answers",
    "the connection to the lock store failed; a new one replaces it",
    "not connected to the lock store yet; retrying",
    "the lock store refuses the flags of scripts",
    "the limits that operators set can't be read",
    "a job: lock store unavailable; retrying",
    "leader election: lock store unavailable; retrying",
    "leader election: the lock could not be released",
    "not all locks were released in time; their TTLs end them",
];

/// What comes once in ten seconds for each lock, or for each server.
const SELDOM: [&str; 3] = [
    "leases could not be renewed; trying again",
    "the lock store failed; retrying until it answers",
    "the connection to the lock store failed; a new one replaces it",
];

/// Ten seconds of the fastest clock.
const PAUSE: Micros = 9_500_000;

/// Reads the clients' logs.
pub(super) struct LogListener {
    losses: ToldLosses,
}

impl LogListener {
    pub(super) fn new(plan: &Plan, shared: Arc<Shared>) -> Self {
        Self { losses: ToldLosses::new(plan, shared) }
    }
}

impl Subscriber for LogListener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let Some(telemetry) = process::telemetry() else { return };
        let mut line = LogLine::new(process::now(), *event.metadata().level());
        event.record(&mut line);
        self.losses.look(&line);
        telemetry.log(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Looks at all lines, soon after they were told.
#[derive(Debug, Default)]
pub(super) struct Logs {
    /// Who last told a line of a lock or a server, and when.
    last: BTreeMap<(String, String), (String, Micros)>,
}

impl Logs {
    pub(super) fn look(&mut self, director: &Director) {
        let shared = &director.shared;
        for process in &director.processes {
            for line in process.telemetry().take_lines() {
                let (name, at) = (&process.name, line.at * 1_000);
                let told = |problem| format!("{name}: {problem}: {line:?}");
                let wrong = problem(&line, process.telemetry())
                    .or_else(|| self.too_often(name, &line))
                    .map(told);
                shared.judge("logs", wrong);
                let is_trouble = TROUBLES.iter().any(|it| line.message.starts_with(*it));
                let wrong = is_trouble.then(|| told("nothing was wrong"));
                shared.suspect("logs", name, (at, at), wrong);
            }
        }
    }

    /// Another process may have told the line meanwhile: all those of a world are one program, which remembers
    /// for all of them when it has told it.
    fn too_often(&mut self, process: &str, line: &LogLine) -> Option<&'static str> {
        SELDOM.iter().find(|it| line.message.starts_with(**it))?;
        let of = [line.field("lock"), line.field("server")].concat();
        let told = (process.to_owned(), line.at);
        let (last, at) = self.last.insert((line.message.clone(), of), told)?;
        (last == process && line.at < at + PAUSE).then_some("it was told before")
    }
}

/// What is wrong with a line.
fn problem(line: &LogLine, telemetry: &Telemetry) -> Option<&'static str> {
    let begins = |with: &&str| line.message.starts_with(*with);
    let is_known = GUIDE.contains(&format!("`{}`", line.message)) || SHORT.iter().any(begins);
    if !is_known {
        return Some("the guide does not know it");
    }
    if let Some(lock) = line.fields.get("lock") {
        // The layer takes a text that stands in the code for a template.
        let is_template = RATES.iter().any(|(rate, _)| lock == rate);
        if lock != LABEL && lock != NO_LABEL && !is_template {
            return Some("it names a lock otherwise than by a label");
        }
        // A lock has no label for an operator who frees it, or lets work run again.
        if lock == LABEL && !telemetry.series().iter().any(|(_, label)| label == lock) {
            return Some("this process has no lock of this label");
        }
    }
    let names_one =
        |text: &String| PROBES.iter().any(|(lock, _)| text.contains(&format!("`{lock}`")));
    line.fields
        .values()
        .chain([&line.message])
        .any(names_one)
        .then_some("it says the name of a lock")
}

#[cfg(test)]
mod tests {
    use super::super::turn;
    use super::*;

    /// What is found in a world where somebody logs this.
    fn found(log: impl FnOnce() + Send + 'static) -> Vec<String> {
        let (mut director, shared) = Director::quiet();
        let plan = Plan::of(1, 1, None);
        let _listening = tracing::subscriber::set_default(LogListener::new(&plan, shared.clone()));
        while director.now() < 6_000_000 {
            turn(&mut director);
        }
        director.start_with(async move |worker| {
            let _free = worker.client.mutex("mutex").lock().await;
            log();
        });
        while director.now() < 7_000_000 {
            turn(&mut director);
        }
        shared.judge_suspected();
        let verdict = shared.take_verdict();
        assert!(verdict.judged.get("logs") > 0);
        verdict.wrong.into_iter().filter(|it| it.starts_with("logs")).collect()
    }

    fn assert_told(problem: &str, log: impl FnOnce() + Send + 'static) {
        let found = found(log);
        assert!(found.len() == 1 && found[0].contains(problem), "{found:?}");
    }

    #[test]
    fn a_line_of_the_guide_is_right() {
        let lock = NO_LABEL;
        let said = found(move || tracing::warn!(lock, reason = "expired", "a lease was lost"));
        assert_eq!(said, [""; 0]);
    }

    #[test]
    fn a_line_that_the_guide_does_not_know_is_told() {
        assert_told("the guide does not know it", || tracing::warn!("something is odd"));
    }

    #[test]
    fn a_name_is_told() {
        let told = "it says the name of a lock";
        assert_told(told, || tracing::warn!(error = "`mutex` was lost", "a lease was lost"));
        let told = "it names a lock otherwise";
        assert_told(told, || tracing::warn!(lock = "mutex", "a lease was lost"));
        let told = "no lock of this label";
        assert_told(told, || tracing::warn!(lock = LABEL, "a lease was lost"));
    }

    #[test]
    fn trouble_where_there_is_none_is_told() {
        let lock = NO_LABEL;
        assert_told("nothing was wrong", move || {
            tracing::warn!(lock, "leases could not be renewed; trying again");
        });
    }

    #[test]
    fn a_line_that_comes_too_often_is_told() {
        let mut logs = Logs::default();
        let mut is_told = |process: &str, seconds: u64| {
            let mut line = LogLine::new(seconds * 1_000_000, Level::WARN);
            SELDOM[0].clone_into(&mut line.message);
            logs.too_often(process, &line).is_some()
        };
        assert!(!is_told("p0", 1));
        assert!(is_told("p0", 10));
        assert!(!is_told("p0", 20));
        assert!(!is_told("p1", 21), "nobody knows whether the other has told it before");
        assert!(!is_told("p0", 22));
    }
}
