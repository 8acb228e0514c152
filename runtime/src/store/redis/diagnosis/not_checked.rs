//! What was not checked, since the user may not ask.

use super::material::{Material, Refusal};
use super::names;
use super::report::Report;

pub(super) fn check(material: &Material, report: &mut Report) {
    let questions: [(&str, Option<&Refusal>, &str); 5] = [
        (
            "+info",
            material.info.refusal(),
            "version, eviction, memory, persistence, replicas, clients and slow commands",
        ),
        (
            "+config|get",
            material.config.refusal(),
            "save points, min-replicas-to-write, time-outs and buffers of connections",
        ),
        ("+scan", material.records.refusal(), "keys without an expiry"),
        ("+cluster|info", material.cluster.refusal(), "the slots of the cluster"),
        ("+cluster|nodes", material.nodes.refusal(), "nodes that fail"),
    ];
    let missing = |removed: fn(&Refusal) -> bool| {
        questions
            .iter()
            .filter(move |(_, refusal, _)| refusal.is_some_and(removed))
            .map(|(grant, _, left_out)| ((*grant).to_owned(), *left_out))
            .unzip::<String, &str, Vec<_>, Vec<_>>()
    };
    let (grants, left_out) = missing(Refusal::is_no_right);
    if !grants.is_empty() {
        report.warning(
            names::NOT_CHECKED,
            format!("the user lacks {}", grants.join(" ")),
            format!("Locks work. Not checked: {}.", left_out.join("; ")),
            material.client.grant(&grants),
        );
    }
    // A provider that removes a command does not give it back: that is no finding.
    let (removed, left_out) = missing(Refusal::is_unknown);
    if !removed.is_empty() {
        let removed = removed.join(" ").replace('|', " ").replace('+', "").to_uppercase();
        report.fact("not-checked", format!("{} (no {removed} here)", left_out.join("; ")));
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge;
    use super::super::material::tests::{refused, said};

    #[test]
    fn a_missing_right_is_a_finding_and_a_removed_command_a_fact() {
        let mut material = said("", &[]);
        material.config = refused("NOPERM", "no permissions to run the 'config|get' command");
        material.records = refused("NOPERM", "no permissions to run the 'scan' command");
        let found = judge(&material).findings;
        assert_eq!((found.len(), found[0].check), (1, "not-checked"));
        assert!(found[0].remedy.starts_with("`ACL SETUSER app +config|get +scan`"), "{found:?}");
        material.config = refused("ERR", "unknown command 'CONFIG', with args beginning with:");
        material.records = refused("LOADING", "x");
        let diagnosis = judge(&material);
        assert!(diagnosis.findings.is_empty(), "{diagnosis:?}");
        let fact = diagnosis.facts.iter().find(|it| it.name == "not-checked").unwrap();
        assert!(fact.value.ends_with("(no CONFIG GET here)"), "{fact:?}");
    }
}
