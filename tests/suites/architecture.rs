//! The shape of the code, held against the code: ARCHITECTURE.md draws which
//! part may use which, and this reads the `use` lines.

use std::fs;
use std::path::{Path, PathBuf};

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

#[test]
fn arrows_go_one_way() {
    let above_stores =
        ["crate::acquire", "crate::lease", "crate::locks", "crate::keeper", "crate::term"];
    never("store/", &above_stores);
    never("store/", &["crate::mutex", "crate::semaphore", "crate::tower", "crate::attribute"]);
    never("keeper", &["crate::acquire", "crate::lease", "crate::locks", "crate::tower"]);
    never("term.rs", &["crate::acquire", "crate::lease", "crate::locks", "crate::keeper"]);
    for guard in ["lease.rs", "leases.rs"] {
        never(guard, &["crate::acquire", "crate::mutex", "crate::tower", "crate::attribute"]);
    }
    never("acquire", &["crate::mutex", "crate::multi", "crate::semaphore"]);
    never("acquire", &["crate::tower", "crate::attribute"]);
    for face in [
        "face.rs",
        "faults.rs",
        "inspect.rs",
        "multi.rs",
        "mutex.rs",
        "reentrant.rs",
        "rw_lock.rs",
        "semaphore.rs",
    ] {
        never(face, &["crate::keeper", "crate::tower", "crate::attribute", "crate::term"]);
    }
}

/// Tower and the attribute use only what any user could.
#[test]
fn tower_and_the_attribute_are_users() {
    for part in ["tower/", "attribute.rs"] {
        never(
            part,
            &["crate::store", "crate::keeper", "crate::acquire", "crate::term", "crate::locks"],
        );
    }
}

/// Redis types appear in one folder alone, but for the pool that a user may give.
#[test]
fn redis_stays_in_its_folder() {
    for (path, text) in files(&source()) {
        if path.starts_with("store/redis/") {
            continue;
        }
        let is_pool = |line: &str| path == "builder.rs" && line.starts_with("use bb8_redis::");
        for line in code(&text).filter(|line| !is_pool(line)) {
            let is_driver = line.contains("redis::") && !line.contains("store::redis::");
            assert!(!is_driver && !line.contains("bb8"), "{path}: {line}");
        }
    }
}

/// axum is named behind its feature alone.
#[test]
fn axum_stays_in_its_file() {
    for (path, text) in files(&source()) {
        let is_there = code(&text).any(|line| line.contains("axum::"));
        assert!(!is_there || ["tower/axum.rs", "tower/mod.rs"].contains(&&*path), "{path}");
    }
}

/// The library prints nothing, waits on no thread, and never spawns in a drop.
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

/// Where a promise is made, there is a word on cancelling.
#[test]
fn public_futures_say_what_cancelling_does() {
    for (path, text) in files(&source()) {
        if path.starts_with("store/") || path == "attribute.rs" {
            continue;
        }
        let lines: Vec<_> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if line.trim_start().starts_with("pub async fn") {
                let docs = lines[..at].iter().rev().take_while(|line| {
                    let line = line.trim_start();
                    line.starts_with("///") || line.starts_with("#[")
                });
                let says = docs.into_iter().any(|line| line.contains("# Cancel safety"));
                assert!(says, "{path}: {line}");
            }
        }
    }
}
