//! The rules that look at worlds, by the names under which they say what they have judged; and where, and in
//! how much time, each has something to judge. One that judges nothing is broken, or the worlds do not reach it.

use leasehold_history::Judged;

use super::plan::Deployment::{self, Quorum, Single};

/// A rule, the servers on which it judges, and how many simulated seconds of these have something for it.
type Rule = (&'static str, fn(Deployment) -> bool, u64);

/// So many seconds are several worlds of a minute: not all of them are full of faults.
const OFTEN: u64 = 150;
const SELDOM: u64 = 1_000;
const RARELY: u64 = 10_000;
const VERY_RARELY: u64 = 50_000;

fn all(_: Deployment) -> bool {
    true
}

/// Where servers do not vote.
fn ordered(deployment: Deployment) -> bool {
    !matches!(deployment, Quorum(_))
}

fn single(deployment: Deployment) -> bool {
    deployment == Single
}

const RULES: [Rule; 51] = [
    // tests/history
    ("answer", all, OFTEN),
    ("exclusion", all, OFTEN),
    ("limit", ordered, OFTEN),
    ("loss", all, OFTEN),
    ("max-hold", all, OFTEN),
    ("once", ordered, OFTEN),
    ("once: lasts", ordered, OFTEN),
    ("order", ordered, SELDOM),
    ("refusals", all, OFTEN),
    ("token", all, OFTEN),
    ("turns", ordered, RARELY),
    ("waiting", all, VERY_RARELY),
    // The worlds' own
    ("asks again", ordered, OFTEN),
    ("at the end", all, OFTEN),
    ("belief", single, OFTEN),
    ("catches up", ordered, SELDOM),
    ("closed", ordered, RARELY),
    ("granted", all, OFTEN),
    ("idle", ordered, SELDOM),
    ("in time", all, OFTEN),
    ("job", ordered, OFTEN),
    ("lasting", all, SELDOM),
    ("listeners", ordered, OFTEN),
    ("liveness", ordered, RARELY),
    ("logs", all, OFTEN),
    ("metrics", all, OFTEN),
    ("orphans", all, OFTEN),
    ("overview", ordered, SELDOM),
    ("own limit", ordered, RARELY),
    ("rate", ordered, OFTEN),
    ("rate order", ordered, OFTEN),
    ("recalls", ordered, OFTEN),
    ("renewed", all, OFTEN),
    ("runs again", ordered, OFTEN),
    ("shutdown", ordered, RARELY),
    ("store", all, OFTEN),
    ("sync", Deployment::syncs, OFTEN),
    ("told", all, OFTEN),
    ("told losses", single, SELDOM),
    ("used rates", ordered, OFTEN),
    // The oracle's, which looks at each call
    ("call", all, OFTEN),
    ("change", all, OFTEN),
    ("limits of operators", ordered, RARELY),
    ("rates of a server", ordered, OFTEN),
    ("repeats", all, RARELY),
    ("sent", all, OFTEN),
    ("shadow", all, OFTEN),
    ("shape", all, OFTEN),
    ("successes of a server", ordered, OFTEN),
    ("tokens of a server", all, OFTEN),
    ("unwritten", all, OFTEN),
];

/// The name of a rule, if there is one.
pub fn rule_named(name: &str) -> Option<&'static str> {
    RULES.iter().find(|it| it.0 == name).map(|it| it.0)
}

/// The rules that have judged nothing, of those that should have in so many seconds on these servers.
pub fn rules_that_judged_nothing(
    deployment: Deployment,
    seconds: u64,
    judged: &Judged,
) -> Vec<&'static str> {
    let should = RULES.iter().filter(|(_, can, within)| can(deployment) && *within <= seconds);
    should.map(|(name, ..)| *name).filter(|name| judged.get(name) == 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_judges_nothing_is_named() {
        let mut judged = Judged::default();
        for (name, ..) in RULES.iter().filter(|it| it.0 != "sync" && it.0 != "waiting") {
            judged.note(name);
        }
        let sync = Deployment::Sentinel { syncs: true };
        assert_eq!(rules_that_judged_nothing(sync, VERY_RARELY, &judged), ["waiting", "sync"]);
        assert_eq!(rules_that_judged_nothing(sync, SELDOM, &judged), ["sync"]);
        assert_eq!(rules_that_judged_nothing(Single, SELDOM, &judged), [""; 0]);
        assert_eq!(rules_that_judged_nothing(sync, OFTEN - 1, &Judged::default()), [""; 0]);
    }
}
