//! A copy of the workspace whose client has all mistakes built in, each behind a switch. So one build
//! is enough for all of them, and the client itself has no such switch.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use leasehold_simulation::world::ClientMistake;

/// Names the mistake that is switched on in a process of the copy.
pub(crate) const PLANTED: &str = "LEASEHOLD_PLANTED";

/// This program, built from the copy.
///
/// # Panics
///
/// If it can't be built.
pub(crate) fn program() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(build).clone()
}

fn build() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().expect("the workspace is where it was built");
    let here = std::env::current_exe().expect("it runs");
    // target/simulation/simulate
    let copy = here.ancestors().nth(2).expect("it is in a folder of target").join("planted");
    // Not the same target: there cargo takes the copy for this workspace, and what it has built of one
    // for the other's.
    let target = copy.join("target");
    for file in files(&root) {
        write(&root, &copy, &file);
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--profile", "simulation", "-p", "leasehold-simulation"]);
    cargo.args(["--bin", "simulate"]).arg("--manifest-path").arg(copy.join("Cargo.toml"));
    cargo.arg("--target-dir").arg(&target).env("CARGO_INCREMENTAL", "0");
    let output = cargo.output().expect("cargo can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the copy with the mistakes does not build:\n{said}");
    target.join("simulation").join("simulate")
}

/// All files that are under version control, or are to be.
fn files(root: &Path) -> Vec<String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = git.output().expect("git can be started");
    let names = String::from_utf8(output.stdout).expect("all names are text");
    names.split_terminator('\0').map(str::to_owned).collect()
}

/// Writes a file of the copy, unless it is there: a new one would be built again.
fn write(root: &Path, copy: &Path, file: &str) {
    // One that was deleted may still be listed.
    let Ok(bytes) = std::fs::read(root.join(file)) else { return };
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => altered(file, text).into_bytes(),
        Err(other) => other.into_bytes(),
    };
    let to = copy.join(file);
    if std::fs::read(&to).is_ok_and(|before| before == bytes) {
        return;
    }
    std::fs::create_dir_all(to.parent().expect("it is in the copy")).expect("there is room");
    std::fs::write(to, bytes).expect("there is room");
}

fn altered(file: &str, text: String) -> String {
    match file.strip_prefix("runtime/src/") {
        Some(file) => ClientMistake::plant_all(file, text),
        None => text,
    }
}
