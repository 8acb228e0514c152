//! The shape of the code. ARCHITECTURE.md says which part may use which, and these tests check the
//! `use` lines and paths of the code.

mod arrows;
mod crates;
mod ratchet;
mod waits;

use std::fs;
use std::path::{Path, PathBuf};

use self::arrows::{Arrow, Crate};

/// The source of the crates that are published.
const PUBLISHED: [&str; 4] = ["runtime/src", "macros/src", "console/src", "cli/src"];

/// The files of those crates.
fn published() -> Vec<(String, String)> {
    PUBLISHED.iter().flat_map(|folder| files(&project().join(folder))).collect()
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn source() -> PathBuf {
    project().join("runtime/src")
}

/// The files in a folder and below it, with their paths from it.
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

/// The code of a file without its unit tests.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    code.lines().map(str::trim_start).filter(|line| !line.starts_with("//"))
}

/// Fails for each file below `part` that contains one of `words`.
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

/// The floors of `runtime/src`, from the ground up. A file uses only lower floors, and files of its
/// own folder. A folder without a floor of its own belongs to the floor of its parent folder.
const FLOORS: &[&[&str]] = &[
    &["system"],
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
    &["layer", "attribute"],
];

/// The floor of a file, and the folder or file that has this floor.
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
    let crates = [
        ("runtime/src", "lib.rs"),
        ("macros/src", "lib.rs"),
        ("console/src", "lib.rs"),
        ("cli/src", "main.rs"),
        ("benches/compare", "main.rs"),
    ];
    for (folder, root) in crates {
        let read = Crate::read(&project().join(folder), root);
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

/// The layer and the attribute use only modules that any user could use.
#[test]
fn the_layer_and_the_attribute_are_users() {
    for part in ["layer", "attribute.rs"] {
        never(part, &["crate::store", "crate::keeper", "crate::engine::acquire"]);
        never(part, &["crate::state", "crate::client", "crate::local_queue", "crate::hints"]);
    }
}

/// Redis types appear in one folder alone, except for a user's own pool.
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
        let is_axum = |line: &str| line.replace("super::axum::", "").contains("axum::");
        let is_there = code(&text).any(is_axum);
        assert!(!is_there || ["layer/axum.rs", "layer.rs"].contains(&&*path), "{path}");
    }
}

/// The library prints nothing, blocks no thread, and has no unfinished code.
#[test]
fn the_library_is_quiet() {
    let words =
        ["println!", "eprintln!", "dbg!", "thread::sleep", "todo!", "unimplemented!", "unsafe "];
    never("", &words);
    for (path, text) in files(&project().join("console/src")) {
        for line in code(&text) {
            assert!(!words.iter().any(|word| line.contains(word)), "{path}: {line}");
        }
    }
}

/// A file has one job. A longer file is split by role. Comments of the documentation do not count:
/// those of the attribute are a page.
#[test]
fn files_are_small() {
    for (path, text) in published() {
        let is_macros = text.contains("proc_macro_attribute");
        let lines = text.lines().filter(|line| !is_macros || !line.starts_with("///")).count();
        assert!(lines <= 350, "{path} has {lines} lines");
    }
}

/// `./tests/run long` finds the tests that make up their inputs by the name of their module.
#[test]
fn inputs_are_made_up_in_modules_called_hostile() {
    let all = published();
    let made_up: Vec<_> = all.iter().filter(|(_, text)| text.contains("proptest! {")).collect();
    assert!(made_up.len() > 10, "{} files", made_up.len());
    for (path, text) in made_up {
        let before = text.split("proptest! {").next().unwrap_or_default();
        let is_hostile = path.ends_with("hostile.rs") || before.contains("mod hostile {");
        assert!(is_hostile, "{path}");
    }
}

/// A simulation decides what the client gets from the system, so only one part of the client asks
/// it. The diagnosis compares with the real time of day.
#[test]
fn only_the_system_asks_the_system() {
    let is_free = |path: &str| {
        ["system", "store/redis/diagnosis/collect.rs"].iter().any(|part| path.starts_with(part))
            || path.ends_with("tests.rs")
    };
    let mut read = 0;
    for (path, text) in files(&source()).iter().filter(|(path, _)| !is_free(path)) {
        let is_tokios =
            code(text).any(|line| line.starts_with("use tokio::time") && line.contains("Instant"));
        for line in code(text) {
            read += 1;
            for word in [
                "SystemTime::now",
                ".elapsed()",
                "fastrand::",
                "Uuid::new",
                "TcpStream",
                "thread::Builder",
                "thread::spawn",
                "process::id",
                "uname()",
            ] {
                assert!(!line.contains(word), "{path} asks the system, not `system`: {line}");
            }
            let asks = line.contains("Instant::now") && !line.contains("tokio::time::Instant");
            assert!(!asks || is_tokios, "{path} asks the system, not `system`: {line}");
        }
    }
    assert!(read > 1000, "the files are gone");
}
