//! What the clients tell of losses. Where no server has forgotten anything, no clock was set, and all run
//! as fast as a client expects, no record is gone before its time: a client that says so takes its own
//! release for somebody else's.

use std::sync::Arc;

use super::plan::{Deployment, Plan};
use super::shared::Shared;
use crate::telemetry::{LOSS, LogLine};

pub(super) struct ToldLosses {
    shared: Arc<Shared>,
    /// A minority of a quorum can lose records.
    is_sure: bool,
}

impl ToldLosses {
    pub(super) fn new(plan: &Plan, shared: Arc<Shared>) -> Self {
        Self { shared, is_sure: is_sure(plan) }
    }

    /// Looks at a line of a client's log.
    pub(super) fn look(&self, line: &LogLine) {
        if line.message == LOSS && self.is_sure {
            let (is_gone, at) = (line.field("reason") == "gone", line.at * 1_000);
            let wrong = is_gone.then(|| format!("a lease is told to be gone, at {at} ns"));
            self.shared.suspect("told losses", "", (at, at), wrong);
        }
    }
}

fn is_sure(plan: &Plan) -> bool {
    plan.deployment == Deployment::Single && plan.drift().are_close()
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
