//! Writes the client's source into one file, with the primitives of `std::sync` replaced by those
//! of `shuttle`, and with a switch for each planted mistake.

#[path = "src/mistakes.rs"]
mod mistakes;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use mistakes::MISTAKES;
use mistakes::planting::replace_once;

/// The floors of the client that are built, from the ground up.
const FLOORS: &[&str] =
    &["system", "core", "store", "state", "keeper", "hints", "client", "local_queue", "engine"];

/// The parts for Redis that threads share and that talk to no server.
const PARTS: &[(&str, &str, &str)] = &[
    ("store.rs", "#[cfg(feature = \"redis\")]\npub mod redis;", "pub mod redis;"),
    ("keeper.rs", "#[cfg(feature = \"redis\")]\nmod state;", "mod state;"),
];

const REDIS: &str = "\nmod driver;\nmod work_queue;\n";

fn main() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/src");
    println!("cargo::rerun-if-changed={}", source.display());
    println!("cargo::rerun-if-changed=src/mistakes.rs");
    println!("cargo::rerun-if-changed=../harness/planting.rs");
    // The client's features are not this crate's.
    println!("cargo::rustc-check-cfg=cfg(feature, values(any()))");
    let mut all = String::new();
    for floor in FLOORS {
        // The suites hold the original to the lints.
        all += "#[allow(dead_code, missing_docs, missing_debug_implementations, unused_imports)]\n";
        all += "#[allow(private_interfaces, unfulfilled_lint_expectations, clippy::all, clippy::pedantic)]\n";
        module(&source, Path::new(floor), floor, &mut all);
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("client.rs"), all).expect("the folder is there");
}

/// Writes a module with all that are in it.
fn module(source: &Path, path: &Path, name: &str, all: &mut String) {
    let file = format!("{}.rs", path.display());
    let text = read(source, &file);
    writeln!(all, "pub mod {name} {{").expect("a string");
    for line in text.lines() {
        let declared = line.trim().strip_suffix(';').and_then(|line| line.strip_prefix("pub mod "));
        match declared {
            Some(inner) => module(source, &path.join(inner), inner, all),
            None if line.starts_with("#![doc = include_str!") => {}
            None => writeln!(all, "{line}").expect("a string"),
        }
    }
    all.push_str("}\n");
}

/// Reads a file, and changes what is to be changed in it.
fn read(source: &Path, file: &str) -> String {
    let path = source.join(file);
    let mut text = if file == "store/redis.rs" {
        REDIS.to_owned()
    } else {
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    for (_, from, to) in PARTS.iter().filter(|(of, ..)| *of == file) {
        text = replace_once(file, &text, from, to);
    }
    for mistake in MISTAKES.iter().filter(|it| it.file == file) {
        text = mistake.plant(&text);
    }
    let text = match file {
        "keeper/timetable.rs" | "state/lease.rs" => text.replace("#[cfg(feature = \"redis\")]", ""),
        _ => text,
    };
    let text = text.replace("std::sync::", "crate::sync::");
    let text = text.replace("tokio::sync::Notify", "crate::sync::Notify");
    let text = text.replace("futures_util::task::AtomicWaker", "crate::sync::AtomicWaker");
    let text = text.replace("tokio::runtime::Handle", "crate::sync::Handle");
    let text = text.replace("tokio::runtime::{Handle, Id}", "crate::sync::{Handle, Id}");
    let text = text.replace("tokio::spawn(", "crate::sync::spawn(");
    // A schedule that is run again does the same. Tokio would choose a branch at random.
    let text = text.replace("biased;", "").replace("tokio::select! {", "tokio::select! { biased;");
    let text = text.replace("uuid::Uuid::new_v4().as_u128()", "crate::sync::random_bits()");
    let text = text.replace("fastrand::f64()", "crate::sync::chance()");
    // The tests are in another module.
    let text = text.replace("pub(crate) ", "pub ").replace("pub(super) ", "pub ");
    let text = text.replace("pub(in crate::store) ", "pub ");
    let text = text.replace("\nmod ", "\npub mod ").replace("cfg(test)", "cfg(any())");
    text.replace("cfg(all(test,", "cfg(all(any(),")
}
