//! The page for contributors names files and folders that exist.

use super::{quoted, read, root};

const PAGE: &str = "CONTRIBUTING.md";

#[test]
fn each_path_exists() {
    let page = read(PAGE);
    let is_part = |at: char| at.is_ascii_alphanumeric() || "/._-".contains(at);
    let is_path = |text: &&String| {
        let is_file = [".rs", ".md", ".toml", ".lua", ".txt"].iter().any(|end| text.ends_with(end));
        text.chars().all(is_part) && (text.contains('/') || is_file)
    };
    let named = quoted(&page);
    let paths: Vec<_> = named.iter().filter(is_path).collect();
    assert!(paths.len() > 50, "{} paths", paths.len());
    let missing: Vec<_> = paths.into_iter().filter(|path| !root().join(path).exists()).collect();
    assert!(missing.is_empty(), "{PAGE} names what is not there: {missing:#?}");
}

/// What `./tests/run` offers, the page explains.
#[test]
fn each_mode_of_the_test_run_is_explained() {
    let (page, script) = (read(PAGE), read("tests/run"));
    let modes: Vec<_> = script
        .lines()
        .filter_map(|line| line.strip_suffix(')'))
        .filter(|mode| !mode.is_empty() && mode.chars().all(|at| at.is_ascii_lowercase()))
        .filter(|mode| *mode != "all")
        .collect();
    assert!(modes.len() >= 5, "{modes:?}");
    for mode in modes {
        let command = format!("./tests/run {mode}");
        let mut after = page.split(&command).skip(1);
        let is_named = after.any(|rest| !rest.starts_with(|at: char| at.is_ascii_alphanumeric()));
        assert!(is_named, "{PAGE} lacks {command}");
    }
}

/// Each part of the long run has a row that says when it ran last, and a job of the night.
#[test]
fn each_long_part_has_a_row() {
    let (script, table) = (read("tests/long"), read("tests/long.md"));
    let defined = script.lines().filter_map(|line| line.strip_prefix("long_")?.split_once("() {"));
    let parts: Vec<_> = defined
        .map(|(name, _)| name.replace('_', "-"))
        .filter(|name| name != "figures" && !name.contains('='))
        .collect();
    assert!(parts.len() > 10, "{parts:?}");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next());
    let rows: Vec<_> = rows.filter(|name| *name != "part").collect();
    assert_eq!(rows, parts);
    let nightly = read(".github/workflows/nightly.yml");
    let missing: Vec<_> =
        parts.iter().filter(|part| !nightly.contains(&format!("long {part},"))).collect();
    assert!(missing.is_empty(), "no night runs {missing:?}");
}
