//! Worlds repeat themselves, and find what is planted.

use std::process::Command;

use leasehold_simulation::repeat::let_repeat;

/// What the world of a seed says.
fn world(words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simulate"));
    let_repeat(&mut command);
    let output = command.args(words).env("LEASEHOLD_WORLD", "").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_events() {
    for seed in 1..=4 {
        let seed = seed.to_string();
        let once = world(&["--seed", &seed, "3", "--quiet"]);
        assert!(once.contains(" grants, events "), "{once}");
        assert_eq!(once, world(&["--seed", &seed, "3", "--quiet"]));
    }
}

#[test]
fn another_seed_gives_other_events() {
    let hash =
        |seed| world(&["--seed", seed, "3", "--quiet"]).rsplit(' ').next().unwrap().to_owned();
    assert_ne!(hash("1"), hash("2"));
}

#[test]
fn a_trace_has_times_and_names() {
    let all = world(&["--seed", "2", "3"]);
    assert!(all.contains(" ask p0:0 ") && all.contains(" bytes arrive on connection "), "{all}");
    let only = world(&["--seed", "2", "3", "--only", "mutex"]);
    let events = only.lines().filter(|line| line.starts_with(' '));
    assert!(
        events.clone().count() > 0 && events.clone().all(|line| line.contains("mutex")),
        "{only}"
    );
    assert_eq!(all.lines().last(), only.lines().last());
}
