//! Processes that have the same random numbers from the system each time, and the same time.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

#[path = "../../harness/c_library.rs"]
mod c_library;

/// Lets the system say the same to a process each time it runs: random numbers, from which the order
/// of a `HashMap` follows, and the time, on which tokio's paused clocks are based.
///
/// # Panics
///
/// If there is no C compiler.
pub fn let_repeat(command: &mut Command) {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| {
        let program = std::env::current_exe().expect("it runs");
        let folder = program.parent().expect("it is in a folder");
        c_library::build(folder, "seeded", include_str!("seeded.c"))
    });
    command.env("LD_PRELOAD", library);
}
