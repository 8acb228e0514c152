//! The alert rules: each has cases for `promtool`, a description, and a row in the guide.

use crate::docs::{files, read};

const GUIDE: &str = "docs/guide/monitoring.md";

/// The address of a file of the repository, as `runtime/src/guide/links.md` has it.
const REPOSITORY: &str = "https://github.com/leasehold/leasehold/blob/main/";

/// The rules, each with its name.
fn alerts(rules: &str) -> Vec<(&str, &str)> {
    let rules = rules.split("\n      - alert: ").skip(1);
    let alerts: Vec<_> = rules.filter_map(|rule| rule.split_once('\n')).collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    alerts
}

/// What a case expects of an alert: that it fires, or that it does not.
#[derive(Default)]
struct Cases {
    fires: usize,
    is_quiet: usize,
}

fn cases(tests: &str, alert: &str) -> Cases {
    let mut cases = Cases::default();
    for case in tests.split("      - eval_time: ").skip(1) {
        let mut lines = case.lines().skip(1).map(str::trim);
        if lines.next() == Some(&*format!("alertname: {alert}")) {
            match lines.next() {
                Some("exp_alerts: []") => cases.is_quiet += 1,
                Some("exp_alerts:") => cases.fires += 1,
                other => panic!("{alert}: {other:?}"),
            }
        }
    }
    cases
}

#[test]
fn each_alert_has_cases_in_which_it_fires_and_in_which_it_does_not() {
    let (rules, tests) =
        (read("docs/monitoring/alerts.yml"), files("docs/monitoring/cases", ".yml"));
    let tests: String = tests.iter().map(|path| read(path)).collect();
    for (alert, _) in alerts(&rules) {
        let Cases { fires, is_quiet } = cases(&tests, alert);
        assert!(fires > 0, "no case has {alert} fire");
        assert!(is_quiet > 0, "in no case {alert} does not fire");
    }
    let run = read("tests/run");
    assert!(run.contains("test rules docs/monitoring/cases/*.yml"), "nobody runs the cases");
}

#[test]
fn each_alert_is_described_and_leads_to_its_row_of_the_guide() {
    let (rules, guide) = (read("docs/monitoring/alerts.yml"), read(GUIDE));
    let alerts = alerts(&rules);
    for (alert, rule) in &alerts {
        let value = |name: &str| {
            let line = rule.lines().find_map(|line| line.trim().strip_prefix(name));
            line.unwrap_or_else(|| panic!("{alert} has no `{name}`"))
        };
        for name in ["summary: ", "description: "] {
            assert!(value(name).len() > 20, "{alert}: {name}");
        }
        assert!(["page", "ticket"].contains(&value("severity: ")), "{alert}");
        let link = value("runbook_url: ").strip_prefix(REPOSITORY);
        let (page, anchor) = link.and_then(|link| link.split_once('#')).expect("a page's row");
        assert_eq!((page, anchor), (GUIDE, &*alert.to_lowercase()));
        let row = guide.lines().find(|line| line.contains(&format!("<a id=\"{anchor}\"></a>")));
        let row = row.unwrap_or_else(|| panic!("{GUIDE} has no row with the anchor {anchor}"));
        assert!(row.contains(&format!("`{alert}` | ")), "{row}");
    }
    let rows = guide.lines().filter(|line| line.starts_with("| <a id=")).count();
    assert_eq!(rows, alerts.len(), "the guide has rows of alerts that do not exist");
    let links = read("runtime/src/guide/links.md");
    assert!(links.contains(&format!("[alerts]: {REPOSITORY}docs/monitoring/alerts.yml")));
}
