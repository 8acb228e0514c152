//! A short soak, and one with holders that are mistaken.

use std::process::{Command, Output};

fn soak(arguments: &[&str]) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_soak")).args(arguments).output();
    let output = output.expect("the soak starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

#[test]
fn a_short_soak_finds_no_violation() {
    let (output, text) = soak(&["0.3", "4711"]);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.starts_with("seed 4711, "), "{text}");
    let last = text.lines().last().unwrap_or_default();
    assert!(last.starts_with("all: ") && last.ends_with(", 0 violations"), "{text}");
    let judged = text.lines().find(|line| line.starts_with("judged: ")).unwrap_or_default();
    for rule in ["exclusion", "loss", "max-hold", "once", "token"] {
        assert!(judged.contains(&format!(" {rule} ")), "{rule} has judged nothing: {judged}");
    }
    // The control lost something, or there would be a violation.
    assert!(text.contains("  ledger: with tokens "), "{text}");
    for nothing in [" 0 adopted,", " 0 successes,"] {
        assert!(!last.contains(nothing), "{text}");
    }
}

/// Some holders believe that their leases last longer than they do, and go on working.
#[test]
fn holders_that_work_past_their_leases_are_found() {
    let (output, text) = soak(&["--planted", "--only", "durable", "0.15", "4711"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("exclusion: "), "{text}");
    assert!(text.contains("the histories are kept"), "{text}");
    let folder = text.split("histories in ").nth(1).and_then(|rest| rest.lines().next());
    let folder = folder.expect("it says where they are");
    let (again, same) = soak(&["check", folder]);
    assert_eq!(again.status.code(), Some(1));
    assert!(same.lines().all(|line| text.contains(line)), "{same}");
    std::fs::remove_dir_all(folder).expect("they are there");
}
