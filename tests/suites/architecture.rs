//! The shape of the code, held against the code: ARCHITECTURE.md draws which part may use
//! which, and this reads `use` lines and paths.

mod arrows;

use std::fs;
use std::path::{Path, PathBuf};

use self::arrows::{Arrow, Crate};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/src")
}

/// The files of a folder and those below it, with their paths from it.
fn files(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path())
    {
        let name = entry.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
        if entry.is_dir() {
            let inner = files(&entry).into_iter();
            found.extend(inner.map(|(path, text)| (format!("{name}/{path}"), text)));
        } else if entry.extension().is_some_and(|end| end == "rs") {
            found.push((name, fs::read_to_string(&entry).expect("UTF-8")));
        }
    }
    found
}

/// What a file says outside of its unit tests.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    code.lines().map(str::trim_start).filter(|line| !line.starts_with("//"))
}

/// Fails for each file below `part` that says one of `words`.
fn never(part: &str, words: &[&str]) {
    let all = files(&source());
    let of_part = all.iter().filter(|(path, _)| path.starts_with(part));
    let mut read = 0;
    for (path, text) in of_part {
        read += 1;
        for line in code(text) {
            for word in words {
                assert!(!line.contains(word), "{path} says `{word}`: {line}");
            }
        }
    }
    assert!(read > 0, "there is no {part}");
}

/// The floors of `runtime/src`, from the ground up. A file uses what is on floors below its
/// own, and files of its own folder. A folder counts with all below it that has no floor of
/// its own.
const FLOORS: &[&[&str]] = &[
    &["core"],
    &["store"],
    &["store/rules"],
    &["store/memory", "store/redis", "store/quorum", "store/fault_injection"],
    &["state"],
    &["keeper"],
    &["hints"],
    &["client"],
    &["local_queue"],
    &["engine"],
    &["api"],
    &["tower", "attribute"],
];

/// Where a file stands: its floor, and the folder or file that has it.
fn floor(file: &str) -> (usize, &'static str) {
    let name = file.strip_suffix(".rs").expect("a source file");
    let stands = |folder: &str| name == folder || name.starts_with(&format!("{folder}/"));
    let all = FLOORS.iter().enumerate();
    let all = all.flat_map(|(floor, folders)| folders.iter().map(move |folder| (floor, *folder)));
    let standing = all.filter(|(_, folder)| stands(folder));
    standing.max_by_key(|(_, folder)| folder.len()).unwrap_or_else(|| panic!("{file}: no floor"))
}

#[test]
fn arrows_go_down() {
    let runtime = Crate::read(&source(), "lib.rs");
    assert!(runtime.arrows.len() > 300, "{} arrows", runtime.arrows.len());
    let mut up = Vec::new();
    for Arrow { from, to, line } in &runtime.arrows {
        let ((above, here), (below, there)) = (floor(from), floor(to));
        if here != there && above <= below {
            up.push(format!("{from}:{line} uses {to}, which stands on no lower floor"));
        }
    }
    assert!(up.is_empty(), "{up:#?}");
}

#[test]
fn nothing_is_imported_through_the_crate_root() {
    let runtime = Crate::read(&source(), "lib.rs");
    assert!(runtime.through_the_root.is_empty(), "{:#?}", runtime.through_the_root);
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let crates =
        [("runtime/src", "lib.rs"), ("macros/src", "lib.rs"), ("benches/compare", "main.rs")];
    for (folder, root) in crates {
        let read = Crate::read(&project.join(folder), root);
        assert!(read.arrows.len() > 10, "{folder}: {} arrows", read.arrows.len());
        let circles = read.circles();
        let lines: Vec<_> = circles
            .iter()
            .flatten()
            .map(|Arrow { from, to, line }| format!("{folder}/{from}:{line} uses {to}"))
            .collect();
        assert!(lines.is_empty(), "circles, {} arrows: {lines:#?}", lines.len());
    }
}

/// Tower and the attribute use what any user could, by the paths of the modules; beyond that
/// only the attribute, to tell why a job is skipped.
#[test]
fn tower_and_the_attribute_are_users() {
    for part in ["tower", "attribute.rs"] {
        never(part, &["crate::store", "crate::keeper", "crate::engine::acquire"]);
        never(part, &["crate::state", "crate::client", "crate::local_queue", "crate::hints"]);
    }
}

/// Redis types appear in one folder alone, but for the pool that a user may give.
#[test]
fn redis_stays_in_its_folder() {
    for (path, text) in files(&source()) {
        if path.starts_with("store/redis") {
            continue;
        }
        let is_public = ["api/builder/connect.rs", "lib.rs"].contains(&&*path);
        let is_pool = |line: &str| is_public && line.contains("use bb8_redis");
        for line in code(&text).filter(|line| !is_pool(line)) {
            let is_driver = line.contains("redis::") && !line.contains("store::redis::");
            assert!(!is_driver && !line.contains("bb8_redis"), "{path}: {line}");
        }
    }
}

/// axum is named behind its feature alone.
#[test]
fn axum_stays_in_its_file() {
    for (path, text) in files(&source()) {
        let is_there = code(&text).any(|line| line.contains("axum::"));
        assert!(!is_there || ["tower/axum.rs", "tower.rs"].contains(&&*path), "{path}");
    }
}

/// The library prints nothing, blocks no thread, and has no unfinished code.
#[test]
fn the_library_is_quiet() {
    never(
        "",
        &["println!", "eprintln!", "dbg!", "thread::sleep", "todo!", "unimplemented!", "unsafe "],
    );
}

/// A file has one job: what outgrows this is split by role.
#[test]
fn files_are_small() {
    for (path, text) in files(&source()) {
        let lines = text.lines().count();
        assert!(lines <= 350, "{path} has {lines} lines");
    }
}

/// What somebody who calls an async function must know: what a dropped future leaves behind,
/// which errors to match on, and what to copy.
#[test]
fn public_futures_are_documented() {
    let (mut read, mut missing) = (0, Vec::new());
    for (path, text) in public_files() {
        for Item { line, head, docs } in items(&text, &["pub async fn "]) {
            read += 1;
            let is_fallible = head.contains("-> Result<");
            let wants = [
                ("*Cancel safety*", section(&docs, "Cancel safety").is_some()),
                ("*Errors*", !is_fallible || section(&docs, "Errors").is_some()),
                ("an example", docs.contains("```")),
            ];
            let lacking = wants.into_iter().filter(|(_, is_there)| !is_there);
            missing.extend(lacking.map(|(what, _)| format!("{path}:{line} has no {what}: {head}")));
        }
    }
    assert!(read > 25, "{read} functions");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// A section that says "as of `lock`" sends its reader on a search.
#[test]
fn errors_are_named() {
    let (mut read, mut unnamed) = (0, Vec::new());
    for (path, text) in public_files() {
        for Item { line, head, docs } in items(&text, &["pub fn ", "pub async fn ", "fn "]) {
            let Some(errors) = section(&docs, "Errors") else { continue };
            read += 1;
            if !["[`LockError::", "[`KeyError`]", "[`fmt::Error`]"]
                .iter()
                .any(|it| errors.contains(it))
            {
                unnamed.push(format!("{path}:{line} names no error: {head}"));
            }
        }
    }
    assert!(read > 40, "{read} sections");
    assert!(unnamed.is_empty(), "{unnamed:#?}");
}

/// Each type that `lib.rs` and the module `tower` export.
#[test]
fn public_types_have_an_example() {
    let all = files(&source());
    let (mut read, mut missing) = (0, Vec::new());
    for name in ["lib.rs", "tower.rs"].iter().flat_map(|file| exported(&all, file)) {
        let kinds = ["struct", "enum", "trait"].map(|kind| format!("pub {kind} {name}"));
        let kinds = kinds.each_ref().map(String::as_str);
        let of_file = |(path, text): &(String, String)| {
            let is_type = |item: &Item| {
                let rest = kinds.iter().find_map(|kind| item.head.strip_prefix(kind));
                rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
            };
            items(text, &kinds).find(is_type).map(|item| (path.clone(), item))
        };
        let Some((path, item)) = all.iter().find_map(of_file) else { continue };
        read += 1;
        if !item.docs.contains("```") {
            missing.push(format!("{path}:{} has no example: {name}", item.line));
        }
    }
    assert!(read > 45, "{read} types");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// What users reach. Stores and what the attribute expands to are hidden.
fn public_files() -> impl Iterator<Item = (String, String)> {
    let is_hidden = |path: &str| path.starts_with("store") || path.starts_with("attribute");
    files(&source()).into_iter().filter(move |(path, _)| !is_hidden(path))
}

/// An item with its documentation.
struct Item {
    line: usize,
    /// Its text up to the brace.
    head: String,
    docs: String,
}

/// The items outside of unit tests that begin with one of `starts`.
fn items(text: &str, starts: &[&str]) -> impl Iterator<Item = Item> {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines: Vec<_> = text.lines().map(str::trim_start).collect();
    let is_start = |line: &str| starts.iter().any(|start| line.starts_with(start));
    let at = (0..lines.len()).filter(|at| is_start(lines[*at])).collect::<Vec<_>>();
    let item = |at: usize| {
        let ends = |line: &&str| line.ends_with(['{', ';']);
        let end = lines[at..].iter().position(ends).map_or(lines.len(), |end| at + end + 1);
        // Attributes stand between the documentation and the item, some in several lines.
        let is_above = |line: &&&str| !line.is_empty() && !line.ends_with(['}', ';', '{']);
        let above =
            lines[..at].iter().rev().take_while(|line| line.starts_with("//") || is_above(line));
        let mut docs: Vec<_> = above.filter_map(|line| line.strip_prefix("///")).collect();
        docs.reverse();
        Item { line: at + 1, head: lines[at..end].join(" "), docs: docs.join("\n") }
    };
    at.into_iter().map(item).collect::<Vec<_>>().into_iter()
}

/// A section of an item's documentation, if it says something.
fn section<'a>(docs: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = docs.split_once(&format!("\n # {name}\n"))?;
    let text = rest.split("\n # ").next().unwrap_or_default().trim();
    (!text.is_empty()).then_some(text)
}

/// The names that a file re-exports.
fn exported(all: &[(String, String)], file: &str) -> Vec<String> {
    let (_, text) = all.iter().find(|(path, _)| path == file).expect("it is there");
    let text = text.split("mod __private").next().unwrap_or_default();
    let text: String = code(text).collect::<Vec<_>>().join(" ");
    let uses = text.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next());
    let names = uses.flat_map(|path| {
        let list = path.rsplit("::").next().unwrap_or_default();
        let list = path.split_once('{').map_or(list, |(_, list)| list.trim_end_matches('}'));
        list.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>()
    });
    names.filter(|name| name.starts_with(char::is_uppercase)).collect()
}
