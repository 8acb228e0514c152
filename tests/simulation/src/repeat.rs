//! Processes that have the same random numbers from the system each time.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const SOURCE: &str = include_str!("seeded.c");

/// Lets a process have the same random numbers from the system each time it runs: the order of a
/// `HashMap` follows from them.
///
/// # Panics
///
/// If there is no C compiler.
pub fn let_repeat(command: &mut Command) {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    command.env("LD_PRELOAD", LIBRARY.get_or_init(build));
}

/// The file appears when it is complete: other processes may build it at the same time.
fn build() -> PathBuf {
    let program = std::env::current_exe().expect("it runs");
    let library = program.with_file_name("seeded.so");
    let draft = library.with_extension(std::process::id().to_string());
    let mut compiler = Command::new("cc")
        .args(["-x", "c", "-", "-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o"])
        .arg(&draft)
        .stdin(Stdio::piped())
        .spawn()
        .expect("there is a C compiler, `cc`");
    let mut input = compiler.stdin.take().expect("it is piped");
    input.write_all(SOURCE.as_bytes()).expect("it reads its input");
    drop(input);
    assert!(compiler.wait().expect("it ends").success(), "seeded.c does not compile");
    std::fs::rename(draft, &library).expect("the folder can be written to");
    library
}
