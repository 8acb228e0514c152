//! Checks the pages and the documentation in the code, against the code and against each other.

mod contributing;
mod evidence;
pub(crate) mod named_tests;
mod options;
mod package;
mod rustdoc;

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The text of a file, by its path from the root.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files below a folder with this ending, as paths from the root.
pub(crate) fn files(folder: &str, ending: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap_or_else(|_| panic!("{folder}"));
    let mut found = Vec::new();
    for entry in entries.map(|entry| entry.expect("an entry")) {
        let path = format!("{folder}/{}", entry.file_name().to_str().expect("UTF-8"));
        if entry.path().is_dir() {
            found.extend(files(&path, ending));
        } else if path.ends_with(ending) {
            found.push(path);
        }
    }
    found
}

fn pages() -> Vec<String> {
    let mut pages = files("docs", ".md");
    let others = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
    pages.extend(others.map(str::to_owned));
    pages
}

/// What stands between backticks, without blocks of code.
fn quoted(text: &str) -> Vec<String> {
    let prose: String = text.split("```").step_by(2).collect();
    prose.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// A sentence begins with its actor. "Of" is how those begin that say it last.
#[test]
fn no_sentence_opens_with_of() {
    let code = ["runtime", "macros", "cli", "console", "examples", "benches", "tests"];
    let code = code.into_iter().flat_map(|it| [files(it, ".rs"), files(it, ".lua")].concat());
    let comments = code.map(|path| {
        let text = read(&path);
        let lines = text.lines().map(str::trim_start);
        let comments = lines.filter(|it| it.starts_with("//") || it.starts_with("--"));
        let words = |line: &str| line.trim_start_matches(['/', '!', '-', ' ']).to_owned();
        (path, comments.map(words).collect::<Vec<_>>().join("\n"))
    });
    let pages = pages().into_iter().map(|path| (path.clone(), read(&path)));
    let opens = [". Of ", "? Of ", "| Of ", "\nOf ", "- Of ", "* Of "];
    let found = comments.chain(pages).filter(|(_, text)| opens.iter().any(|it| text.contains(it)));
    let found: Vec<_> = found.map(|(path, _)| path).collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// The pages that people open first stay short.
#[test]
fn the_first_pages_are_short() {
    let readme = read("README.md");
    let (lines, words) = (readme.lines().count(), readme.split_whitespace().count());
    assert!(lines <= 150, "README.md has {lines} lines: the guide has room");
    assert!(words <= 1_500, "README.md has {words} words: the guide has room");
    let bytes = read("ARCHITECTURE.md").len();
    assert!(bytes <= 10_000, "ARCHITECTURE.md has {bytes} bytes: docs/decisions.md has room");
}

#[test]
fn links_lead_somewhere() {
    for page in pages() {
        let text = read(&page);
        let inline = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        let defined = text.lines().filter(|line| line.starts_with('['));
        let defined = defined.filter_map(|line| line.split_once("]: "));
        let targets = inline.map(|(target, _)| target).chain(defined.map(|(_, target)| target));
        for target in targets.filter(|it| !it.starts_with("http") && !it.starts_with('#')) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = root().join(&page).parent().expect("a folder").join(file);
            if Path::new(file).extension().is_some_and(|it| it == "png") {
                assert!(path.exists(), "{page} shows {target}");
                continue;
            }
            let linked = fs::read_to_string(&path);
            let linked = linked.unwrap_or_else(|_| panic!("{page} links to {target}"));
            let headings = linked.lines().filter_map(|line| line.strip_prefix("## "));
            let has_anchor = |name: &str| name.to_lowercase().replace(' ', "-") == anchor;
            assert!(
                anchor.is_empty() || headings.into_iter().any(has_anchor),
                "{page} links to {target}, and there is no such heading"
            );
        }
    }
}

#[test]
fn rustdoc_shows_each_page_of_the_guide() {
    let shown = read("runtime/src/guide.rs");
    for page in files("docs/guide", ".md") {
        assert!(shown.contains(&page), "runtime/src/guide.rs lacks {page}");
    }
}

/// Each page of the guide with Rust is a doctest of the harness.
#[test]
fn the_examples_of_the_guide_are_run() {
    let (harness, manifest) = (read("tests/harness/lib.rs"), read("tests/Cargo.toml"));
    assert!(!manifest.contains("doctest = false"), "`cargo test` leaves out the guide's examples");
    for page in files("docs/guide", ".md").iter().filter(|page| read(page).contains("```rust")) {
        assert!(harness.contains(page.as_str()), "tests/harness/lib.rs lacks {page}");
    }
}

/// The calls in a file's code that log at these levels, each with its message.
pub(crate) fn events<'a>(text: &'a str, levels: &[&str]) -> Vec<(&'a str, &'a str)> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut events = Vec::new();
    for level in levels {
        for call in code.split(&format!("tracing::{level}!(")).skip(1) {
            let call = call.split(");").next().unwrap_or_default();
            events.extend(call.rsplit('"').nth(1).map(|message| (call, message)));
        }
    }
    events
}

/// The page about operating explains each log line.
#[test]
fn each_log_line_is_explained() {
    let page = read("docs/guide/operating.md");
    let mut seen = 0;
    let folders = ["runtime/src", "console/src", "cli/src"];
    for file in folders.map(|folder| files(folder, ".rs")).concat() {
        for (_, message) in events(&read(&file), &["warn", "error", "info"]) {
            let fixed = message.split('{').next().unwrap_or_default().trim_end();
            assert!(
                page.contains(&format!("`{fixed}")),
                "{file} logs {message:?}: docs/guide/operating.md does not say what it means"
            );
            seen += usize::from(!fixed.is_empty());
        }
    }
    assert!(seen > 20, "{seen} log lines were found");
}

#[test]
fn cited_decisions_exist() {
    let decisions = read("docs/decisions.md");
    let folders = ["runtime", "console", "cli", "macros", "tests"];
    let code = folders.map(|folder| files(folder, ".rs")).concat();
    let mut seen = 0;
    for file in [pages(), code, vec!["tests/packages".to_owned()]].concat() {
        let text = read(&file).replace("Decision ", "decision ").replace("decisions ", "decision ");
        for cited in text.split("decision ").skip(1) {
            let number: String = cited.chars().take_while(char::is_ascii_digit).collect();
            let is_there = decisions.contains(&format!("**{number}. "));
            assert!(number.is_empty() || is_there, "{file} cites decision {number}");
            seen += usize::from(!number.is_empty());
        }
    }
    assert!(seen > 2, "{seen} citations were found");
}

#[test]
fn no_two_decisions_have_one_number() {
    let decisions = read("docs/decisions.md");
    let numbers = decisions.lines().filter_map(|line| line.strip_prefix("**")?.split_once(". "));
    let mut numbers: Vec<u32> = numbers.filter_map(|(number, _)| number.parse().ok()).collect();
    assert!(numbers.len() > 80, "{numbers:?}");
    numbers.sort_unstable();
    let twice: Vec<_> = numbers.windows(2).filter(|it| it[0] == it[1]).map(|it| it[0]).collect();
    assert!(twice.is_empty(), "decisions {twice:?} stand twice");
}

#[test]
fn the_front_pages_say_the_same_of_what_is_special() {
    assert!(read("README.md").contains(read("runtime/src/special.md").trim_end()));
}

/// The README's figures are those that were measured last.
#[test]
fn the_readmes_figures_are_those_of_the_pages() {
    let figure = |page: &str, before: &str| {
        let text = read(page);
        let after = text.split(before).nth(1).unwrap_or_else(|| panic!("{page} lacks {before:?}"));
        let is_part = |at: &char| at.is_ascii_digit() || ['.', ','].contains(at);
        after.chars().take_while(is_part).collect::<String>()
    };
    for (in_readme, page, on_page) in [
        ("the most grants of one are ", "performance.md", "| the fewest grants of a task | "),
        (
            "with the best of the other libraries ",
            "performance.md",
            "fewest grants of a task | 1.07 (the best peer: ",
        ),
        ("whatever fails:** ", "evidence.md", "150 worlds of 20 seconds from seed 2000 were "),
        ("loses nothing:** of ", "evidence.md", "On 28 November it was "),
    ] {
        let page = format!("docs/guide/{page}");
        assert_eq!(figure("README.md", in_readme), figure(&page, on_page), "{in_readme}");
    }
    let in_short = figure("docs/guide/performance.md", "hand the lock on without the server | ");
    let measured = "| one lock for 64 tasks of a process | the best peer | ";
    assert_eq!(in_short, figure("docs/guide/performance.md", measured));
}

/// `leasehold-quickstart` compiles it without a warning, and its tests run it.
#[test]
fn the_readmes_program_is_the_one_that_is_run() {
    let (readme, program) = (read("README.md"), read("examples/five_minutes.rs"));
    let shown = readme.split("## Five minutes\n\n```rust,no_run\n").nth(1).expect("a program");
    let shown = shown.split("```").next().unwrap_or_default();
    assert_eq!(program.split_once("\n\n").map(|(_, code)| code), Some(shown));
}

#[test]
fn each_dependency_has_a_reason() {
    let (manifest, map) = (read("Cargo.toml"), read("ARCHITECTURE.md"));
    let table = manifest.split("[workspace.dependencies]").nth(1).expect("dependencies");
    let table = table.split("\n[").next().unwrap_or_default();
    let reasons = map.split("## Dependencies").nth(1).expect("a section about dependencies");
    for name in table.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name) {
        let is_ours = name.starts_with("leasehold");
        let mut names = reasons.split(|at: char| !at.is_alphanumeric() && at != '-' && at != '_');
        assert!(is_ours || names.any(|it| it == name), "ARCHITECTURE.md does not say why {name}");
    }
}

/// The walk of ARCHITECTURE.md names files and functions that exist.
#[test]
fn each_stop_of_the_walk_exists() {
    let map = read("ARCHITECTURE.md");
    let walk = map.split("## One walk").nth(1).expect("a walk");
    let walk = walk.split("\n## ").next().unwrap_or_default();
    let stops = walk.lines().filter(|line| line.starts_with(|at: char| at.is_ascii_digit()));
    let mut stops: Vec<_> = stops.filter_map(|line| line.split('`').nth(1)).collect();
    assert!((15..=30).contains(&stops.len()), "{} stops", stops.len());
    stops.retain(|stop| stop.contains(": "));
    for stop in stops {
        let (file, function) = stop.split_once(": ").expect("a file and a function");
        let name = function.rsplit("::").next().unwrap_or(function);
        let is_there = read(&format!("runtime/src/{file}")).contains(&format!("fn {name}"));
        assert!(is_there, "ARCHITECTURE.md walks through `{stop}`, which is not there");
    }
}
