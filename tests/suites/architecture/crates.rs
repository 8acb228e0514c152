//! How many crates a first build has. `tests/ratchet.txt` says how many it may have (decision 108).

use std::collections::BTreeSet;
use std::process::Command;

use super::project;
use super::ratchet::keep;

/// The crates that cargo compiles for a package with its default features, ours among them.
fn crates(package: &str) -> BTreeSet<String> {
    let arguments =
        ["tree", "--offline", "--locked", "--edges", "normal,build", "--prefix", "none"];
    let mut tree = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    tree.args(arguments).args(["--package", package]).current_dir(project());
    let tree = tree.output().expect("cargo starts");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).expect("UTF-8");
    // "name v1.2.3", and what more is known of it in brackets.
    tree.lines().filter_map(|line| line.split(" (").next()).map(str::to_owned).collect()
}

#[test]
fn a_first_build_has_few_crates() {
    for (name, package) in
        [("crates of quickstart", "leasehold-quickstart"), ("crates of the library", "leasehold")]
    {
        let crates = crates(package);
        assert!(crates.iter().any(|it| it.starts_with("tokio v")), "{crates:?}");
        keep(name, crates.len() as u64, 0);
    }
}

/// `cargo run --example quickstart` builds the launcher for the whole workspace, so that must be alone.
#[test]
fn the_launcher_has_no_dependencies() {
    let all = crates("leasehold-launcher");
    assert_eq!(all.len(), 1, "{all:?}");
}
