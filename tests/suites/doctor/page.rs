//! The page of the guide has a row for each check, and no other.

use std::collections::BTreeSet;
use std::path::Path;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn each_check_stands_on_the_page() {
    let names = ["runtime/src/store/redis/diagnosis/names.rs", "runtime/src/store/diagnosis.rs"];
    let mut checks = BTreeSet::new();
    for file in names {
        let text = read(file);
        let of_file = text.lines().filter_map(|line| {
            let (_, name) = line.split_once(": &str = \"")?;
            Some(name.strip_suffix("\";")?.to_owned())
        });
        checks.extend(of_file.filter(|name| !name.contains(' ')));
    }
    assert!(checks.len() > 30, "{checks:?}");
    let page = read("docs/guide/doctor.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows: BTreeSet<_> =
        rows.filter_map(|row| row.split_once('`')).map(|(name, _)| name.to_owned()).collect();
    assert_eq!(rows, checks);
}
