//! What the clients tell of losses. Where no server has forgotten anything, no clock was set, and all run
//! as fast as a client expects, no record is gone before its time: a client that says so takes its own
//! release for somebody else's.

use std::fmt;
use std::sync::Arc;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::plan::{Deployment, Plan};
use super::shared::Shared;
use super::turns::now;

/// Reads the clients' log.
pub(super) struct LossListener {
    shared: Arc<Shared>,
    /// A minority of a quorum can lose records.
    is_sure: bool,
}

impl LossListener {
    pub(super) fn new(plan: &Plan, shared: Arc<Shared>) -> Self {
        Self { shared, is_sure: is_sure(plan) }
    }
}

fn is_sure(plan: &Plan) -> bool {
    plan.deployment == Deployment::Single && plan.drift().are_close()
}

impl Subscriber for LossListener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        if line.is_loss && self.is_sure && !self.shared.excuse("told losses", "", (now(), now())) {
            let is_gone = line.reason == "gone";
            let wrong = is_gone.then(|| format!("a lease is told to be gone, at {} ns", now()));
            self.shared.judge("told losses", wrong);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line {
    is_loss: bool,
    reason: String,
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "reason" {
            value.clone_into(&mut self.reason);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.is_loss = format!("{value:?}") == "a lease was lost";
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule once looked at no world at all, and nothing said so.
    #[test]
    fn most_worlds_of_one_server_are_looked_at() {
        let plans = || (0..100).map(|seed| Plan::of(seed, 30, None));
        let single = plans().filter(|plan| plan.deployment == Deployment::Single).count();
        let sure = plans().filter(is_sure).count();
        assert!(2 * sure > single, "{sure} of {single}");
    }
}
