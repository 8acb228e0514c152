//! The metrics have one list of names: that of the code, the reference and the guide.

use std::collections::BTreeSet;

use crate::docs::{files, read};

/// All names of metrics in a text.
pub(super) fn names(text: &str) -> BTreeSet<String> {
    let of_a_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let words = text.split(|c: char| !of_a_name(c)).filter(|word| word.starts_with("leasehold_"));
    let is_metric = |word: &&str| {
        ["_total", "_seconds", "_bucket", "_count", "_sum", "_held", "_waiting"]
            .iter()
            .any(|end| word.ends_with(end))
    };
    words.filter(is_metric).map(str::to_owned).collect()
}

/// The files of the library and of the console.
pub(super) fn sources() -> Vec<String> {
    let files = ["runtime/src", "console/src"].map(|folder| files(folder, ".rs"));
    files.concat().iter().map(|path| read(path)).collect()
}

/// The names that the code counts, without the list that describes them.
fn counted() -> BTreeSet<String> {
    let mut sources = sources();
    sources.retain(|text| !text.contains("describe_histogram!"));
    sources.iter().flat_map(|text| names(text)).collect()
}

#[test]
fn every_metric_is_described_and_documented() {
    let counted = counted();
    assert!(counted.len() > 10, "{counted:?}");
    for path in ["runtime/src/state/telemetry/names.rs", "runtime/src/metrics.md"] {
        assert_eq!(names(&read(path)), counted, "{path}");
    }
    let reference = read("runtime/src/metrics.md");
    let guide = read("docs/guide/operating.md");
    let rows = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("| `leasehold_")).map(str::to_owned).collect()
    };
    assert_eq!(rows(&guide), rows(&reference));
}

/// The texts that a part of a source has in quotes behind an arrow.
fn quoted(source: &str, from: &str, to: &str) -> Vec<String> {
    let (_, part) = source.split_once(from).expect("it begins");
    let (part, _) = part.split_once(to).expect("it ends");
    let quoted = part.split("=> \"").skip(1).filter_map(|rest| rest.split_once('"'));
    quoted.map(|(text, _)| text.to_owned()).collect()
}

/// What an acquisition's outcome and a loss's reason may be is in the lists of both pages.
#[test]
fn every_outcome_and_reason_is_documented() {
    let attempt = read("runtime/src/state/telemetry/attempt.rs");
    let mut outcomes = quoted(&attempt, "let outcome = match", "self.note(outcome)");
    outcomes.extend(["acquired", "cancelled"].map(str::to_owned));
    let error = read("runtime/src/core/error/loss_reason.rs");
    let mut reasons = quoted(&error, "fn name(self)", "/// ");
    // It is no loss.
    reasons.retain(|reason| reason != "released");
    assert!(outcomes.len() > 6 && reasons.len() > 6, "{outcomes:?} {reasons:?}");
    let (guide, reference) = (read("docs/guide/operating.md"), read("runtime/src/metrics.md"));
    let listed = |text: &str, from: &str, to: &str| -> String {
        text.split(from).nth(1).and_then(|rest| rest.split(to).next()).expect(from).to_owned()
    };
    for (values, from, to) in [
        (&outcomes, "The `outcome` of an acquisition", "The `reason`"),
        (&reasons, "The `reason` of a lost lease", "Alert on"),
    ] {
        for text in [&guide, &reference] {
            let list = listed(text, from, to);
            for value in values {
                assert!(list.contains(&format!("`{value}`")), "{value}: {list}");
            }
        }
    }
}

/// The names as Prometheus has them: a histogram has three.
pub(super) fn exported() -> BTreeSet<String> {
    let parts = |name: &String| {
        ["", "_bucket", "_count", "_sum"].map(|end| format!("{name}{end}")).into_iter()
    };
    counted().iter().flat_map(parts).collect()
}

/// The dashboard and the alert rules ask for nothing that does not exist, and leave nothing out.
#[test]
fn the_dashboard_and_the_alerts_ask_for_exported_metrics() {
    let (dashboard, alerts) =
        (read("docs/monitoring/dashboard.json"), read("docs/monitoring/alerts.yml"));
    let board: serde_json::Value = serde_json::from_str(&dashboard).expect("JSON");
    assert!(board["panels"].as_array().expect("panels").len() > 5);
    let exported = exported();
    for text in [&dashboard, &alerts] {
        let asked = names(text);
        assert!(asked.is_subset(&exported), "{:?}", asked.difference(&exported));
    }
    let shown: String = dashboard + &alerts;
    for name in counted() {
        assert!(shown.contains(&name), "neither shows {name}");
    }
}
