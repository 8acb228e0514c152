//! The tests that pages name.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::read;

/// The names of all tests of the suites.
pub(crate) struct NamedTests(HashSet<String>);

impl NamedTests {
    /// Asks the programs of the suites which tests they have.
    pub(crate) fn list() -> Self {
        let this = std::env::current_exe().expect("a test runs");
        let others = ["conformance", "tools"].into_iter().flat_map(|name| beside(&this, name));
        let tests = Self(others.chain([this.clone()]).flat_map(|it| listed(&it)).collect());
        for each in ["seeds::marked_rows_have_their_tests", "doctor::page", "conformance::memory"] {
            assert!(tests.has(each), "{each} is not listed");
        }
        tests
    }

    /// True if there is a test of this name, or a module with tests. Tests that need servers are
    /// not compiled without the feature, so without it every name is believed.
    pub(crate) fn has(&self, name: &str) -> bool {
        let is_it = |test: &String| {
            test.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        !cfg!(feature = "servers") || self.0.iter().any(is_it)
    }
}

/// The tests of a program, with their modules.
fn listed(program: &Path) -> Vec<String> {
    let listed = Command::new(program).args(["--list", "--format", "terse"]).output();
    let listed = listed.expect("it runs");
    assert!(listed.status.success(), "{}: {listed:?}", program.display());
    let listed = String::from_utf8(listed.stdout).expect("UTF-8");
    listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// The builds of another program of the suites beside this one. Each choice of features has one, and
/// an old one may be there: what is listed only there is missed by a run in a clean folder.
fn beside(this: &Path, name: &str) -> Vec<PathBuf> {
    let folder = this.parent().expect("a folder");
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let is_it = |path: &PathBuf| {
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let hash = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
        let hash = hash.map(|it| it.trim_end_matches(std::env::consts::EXE_SUFFIX));
        hash.is_some_and(|it| it.chars().all(|at| at.is_ascii_hexdigit()))
    };
    let found: Vec<_> = entries.map(|entry| entry.path()).filter(is_it).collect();
    assert!(
        !found.is_empty(),
        "{name} is not built: run `cargo test -p leasehold-tests --all-features --no-run`"
    );
    found
}

/// True if this text, from between backticks, names a test of the suites or a module of them.
pub(crate) fn is_name(text: &str) -> bool {
    let is_part = |at: char| at.is_ascii_alphanumeric() || ['_', ':'].contains(&at);
    text.contains("::") && text.chars().all(is_part)
}

/// The file and the function of a test of another program, written as `file.rs: function`.
pub(crate) fn elsewhere(text: &str) -> Option<(&str, &str)> {
    let (file, function) = text.split_once(".rs: ")?;
    Some((&text[..file.len() + 3], function))
}

/// True if the file has this function.
pub(crate) fn has_function(file: &str, function: &str) -> bool {
    read(file).contains(&format!("fn {function}("))
}
