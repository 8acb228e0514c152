//! The page that names the tests of each promise, against the tests and against the promises.

use super::named_tests::{NamedTests, elsewhere, has_function, is_name};
use super::{quoted, read};

const PAGE: &str = "docs/guide/evidence.md";

/// Bug reports of other libraries, and what shows that they can't happen here: in the last column.
const REPORTS: &str = "tests/reports.md";

#[test]
fn each_named_test_exists() {
    let (page, reports, tests) = (read(PAGE), read(REPORTS), NamedTests::list());
    let shown = reports.lines().filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    let (mut seen, mut missing) = (0, Vec::new());
    for name in quoted(&page).into_iter().chain(shown.flat_map(quoted)) {
        let is_there = match elsewhere(&name) {
            Some((file, function)) => has_function(file, function),
            None if is_name(&name) => tests.has(&name),
            None => continue,
        };
        seen += 1;
        missing.extend((!is_there).then_some(name));
    }
    assert!(seen > 150, "{seen} tests");
    assert!(missing.is_empty(), "{PAGE} or {REPORTS} names tests that do not exist: {missing:#?}");
}

/// What the README and the page about guarantees promise stands on the page, word for word.
#[test]
fn each_promise_is_listed() {
    let (page, readme, guarantees) =
        (read(PAGE), read("README.md"), read("docs/guide/guarantees.md"));
    let section = |text: &str, title: &str| {
        let after = text.split(&format!("\n## {title}\n")).nth(1);
        let after = after.unwrap_or_else(|| panic!("there is no heading {title:?}"));
        after.split("\n## ").next().unwrap_or_default().to_owned()
    };
    let ten = section(&readme, "Guarantees");
    let ten: Vec<_> =
        ten.lines().filter(|line| line.starts_with(|at: char| at.is_ascii_digit())).collect();
    assert_eq!(ten.len(), 10);
    let in_detail = ["What is promised", "How long things take"].map(|it| section(&guarantees, it));
    let in_detail: Vec<_> = in_detail
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.strip_prefix("**")?.split("**").next())
        .map(|promise| format!("**{promise}**"))
        .collect();
    assert!(in_detail.len() >= 15, "{in_detail:?}");
    let all = ten.into_iter().chain(in_detail.iter().map(String::as_str));
    let missing: Vec<_> = all.filter(|promise| !page.contains(promise)).collect();
    assert!(missing.is_empty(), "{PAGE} lacks {missing:#?}");
}

/// A row that names no test shows nothing.
#[test]
fn each_row_names_a_test() {
    let page = read(PAGE);
    let tables = page.split("## The ten guarantees").nth(1).expect("the tables");
    let rows = tables.lines().filter(|line| line.starts_with("| "));
    let rows: Vec<_> = rows.filter(|line| !line.ends_with("| test |")).collect();
    assert!(rows.len() > 60, "{} rows", rows.len());
    for row in rows {
        let tests = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        let named = quoted(tests);
        assert!(!named.is_empty(), "{PAGE}: {row}");
        for name in named {
            assert!(is_name(&name) || elsewhere(&name).is_some(), "{PAGE}: {name} is no test");
        }
    }
}
