//! Libraries in C that a test preloads into a process: built with the system's compiler,
//! once each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::c_library;

/// Lets a worker fork, by reading the link `/leasehold-test/fork`.
///
/// # Panics
///
/// If there is no C compiler.
pub fn let_fork(command: &mut Command) {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    let shim = SHIM.get_or_init(|| build("fork", include_str!("fork.c")));
    command.env("LD_PRELOAD", shim);
}

/// Lets a worker count its allocations, by [`allocations`]. Needs glibc.
///
/// # Panics
///
/// If there is no C compiler.
pub fn let_count_allocations(command: &mut Command) {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    let shim = SHIM.get_or_init(|| build("allocations", include_str!("allocations.c")));
    command.env("LD_PRELOAD", shim);
}

/// How many allocations this process has made, in all threads, and of how many bytes. `None` if it
/// was started without [`let_count_allocations`].
#[must_use]
pub fn allocations() -> Option<(u64, u64)> {
    let said = fs::read_link("/leasehold-test/allocations").ok()?;
    let (calls, bytes) = said.to_str()?.split_once(' ')?;
    Some((calls.parse().ok()?, bytes.parse().ok()?))
}

/// The folder of the build, in which the test's program is.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let test = std::env::current_exe().expect("a test runs");
        test.parent().expect("it is in a folder").to_owned()
    })
}

/// A library of the tests' build.
pub(crate) fn build(name: &str, source: &str) -> PathBuf {
    c_library::build(folder(), name, source)
}
