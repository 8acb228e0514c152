//! The tests that pages name.

use std::collections::HashSet;
use std::process::Command;

use super::read;

/// The names of all tests of this program.
pub(crate) struct NamedTests(HashSet<String>);

impl NamedTests {
    /// Asks this program which tests it has.
    pub(crate) fn list() -> Self {
        let this = std::env::current_exe().expect("a test runs");
        let listed =
            Command::new(this).args(["--list", "--format", "terse"]).output().expect("it runs");
        let listed = String::from_utf8(listed.stdout).expect("UTF-8");
        let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
        let tests = Self(names.map(str::to_owned).collect());
        assert!(tests.has("seeds::marked_rows_have_their_tests"), "the list is read rightly");
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

/// True if this text, from between backticks, names a test of this program or a module of it.
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
