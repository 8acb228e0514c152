//! The first programs of the README do in memory what their comments say.
//! `tests/suites/examples.rs` runs them on a server.

use std::process::Command;

/// What a program prints that knows of no server.
fn printed(program: &str) -> String {
    let run = Command::new(program).env_remove("REDIS_URL").output().expect("it starts");
    let text = String::from_utf8(run.stdout).expect("UTF-8");
    assert!(run.status.success(), "{text}");
    text
}

#[test]
fn the_quickstart_charges_once() {
    let text = printed(env!("CARGO_BIN_EXE_quickstart"));
    for (line, times) in [
        ("Locking in memory", 1),
        ("has the lock of invoice 42", 3),
        ("has charged it", 1),
        ("charges nothing", 2),
        ("drawn", 4),
        ("is refused", 1),
        ("it has grown", 1),
    ] {
        assert_eq!(text.matches(line).count(), times, "{line}: {text}");
    }
}

#[test]
fn the_program_of_the_readme_runs() {
    assert_eq!(printed(env!("CARGO_BIN_EXE_five_minutes")), "invoice 42 is locked\n");
}
