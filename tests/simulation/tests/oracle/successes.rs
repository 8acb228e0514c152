//! At most one success in each tick, judged without the rules of the library: mistakes that the rules and the
//! scripts could have in common.

use leasehold::store::redis::scripts;
use leasehold_simulation::oracle::Oracle;
use leasehold_simulation::traffic::jobs::judged;

use super::seeds;

/// Within so many seeds. No other rule of the oracle sees them then.
const SEEDS: u64 = 100;

/// What is wrong, a text of a script, and what is run in its place.
const MISTAKES: &[[&str; 3]] = &[
    ["done work runs again", "local is_done = until_ms > now_ms", "local is_done = false"],
    [
        "a success leaves no mark",
        "redis.call('SET', done, mark, 'PX', math.max(until_ms - now_ms, tonumber(keep_ms), 1))",
        "",
    ],
    ["a run counts from its tick alone", "tick_ms, granted_ms) .. id", "tick_ms, tick_ms) .. id"],
    [
        "a tick has two successes",
        "local granted_ms = is_done and until_ms or now_ms",
        "local granted_ms = now_ms",
    ],
    [
        "a late grant completes",
        "if token ~= '0' and tonumber(token) ~= tonumber(string.sub(rec, 37, 52)) then",
        "if false then",
    ],
];

#[test]
fn each_tick_has_one_success() {
    let mut successes = 0;
    for seed in 0..3 * seeds() {
        let judged = judged(seed, None, Oracle::default());
        assert!(judged.found.is_empty(), "seed {seed}: {:#?}", judged.found);
        successes += judged.successes;
    }
    assert!(successes > 20 * seeds(), "{successes}");
}

#[test]
fn a_second_success_is_found_without_the_rules() {
    let mut missed = Vec::new();
    for [what, from, to] in MISTAKES {
        assert!(scripts().any(|script| script.bodies[0].contains(from)), "{what}: {from:?}");
        let is_found = |seed: &u64| {
            let judged = judged(*seed, Some((from, to)), Oracle::without_rules());
            let is_success = |text: &String| text.contains(" has succeeded");
            !judged.found.is_empty() && judged.found.iter().all(is_success)
        };
        match (0..SEEDS).find(is_found) {
            Some(seed) => println!("{what}: found by seed {seed}"),
            None => missed.push(what),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:#?}");
}
