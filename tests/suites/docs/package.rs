//! The README of the package, which crates.io shows: that of the repository, without what only the
//! repository has.

use super::{read, root};

const PATH: &str = "runtime/README.md";

/// Where the pages are that users of the package have.
const GUIDE: &str = "https://docs.rs/leasehold/latest/leasehold/guide";

/// The repository's README without the commands of the repository, and with links that lead to
/// the documentation of the package.
fn packaged(readme: &str) -> String {
    let mut text = String::new();
    let mut paragraphs = readme.split("\n\n").peekable();
    while let Some(paragraph) = paragraphs.next() {
        let is_for_a_checkout = paragraph.starts_with("```sh\ncargo run --example")
            || paragraph.starts_with("Until version");
        if is_for_a_checkout {
            continue;
        }
        text.push_str(paragraph);
        if paragraphs.peek().is_some() {
            text.push_str("\n\n");
        }
    }
    let text = text
        .replace("`./tests/run simulate ", "the repository's `simulate ")
        .replace("`./tests/run soak ", "the repository's `soak ")
        .replace("`cargo bench ", "the repository's `cargo bench ")
        .replace("[ARCHITECTURE.md](ARCHITECTURE.md)", "in the repository, `ARCHITECTURE.md`")
        .replace("[CONTRIBUTING.md](CONTRIBUTING.md)", "`CONTRIBUTING.md`")
        .replace("[SECURITY.md](SECURITY.md)", "`SECURITY.md`");
    let mut parts = text.split("](docs/");
    let mut made = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (target, rest) = part.split_once(')').expect("a link ends");
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let page = match file {
            "guide/README.md" => String::new(),
            "keys.md" => "stored_keys/".to_owned(),
            "decisions.md" => "decisions/".to_owned(),
            _ => {
                let page = file.strip_prefix("guide/").and_then(|it| it.strip_suffix(".md"));
                format!("{}/", page.expect("a page of the guide").replace('-', "_"))
            }
        };
        let hash = if anchor.is_empty() { "" } else { "#" };
        made.extend(["](", GUIDE, "/", &page, "index.html", hash, anchor, ")", rest]);
    }
    made
}

/// If it fails, run it again with `UPDATE_README=1`.
#[test]
fn the_packages_readme_is_made_from_the_repositorys() {
    let made = packaged(&read("README.md"));
    if std::env::var_os("UPDATE_README").is_some() {
        std::fs::write(root().join(PATH), &made).expect("a file that can be written");
    }
    assert!(read(PATH) == made, "{PATH} is out of date: run this test with UPDATE_README=1");
    for part in ["](docs/", "](ARCHITECTURE", "--example", "tests/run", "path = "] {
        assert!(!made.contains(part), "{PATH} has {part:?}, which the package does not");
    }
}
