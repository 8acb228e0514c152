//! Planted violations of processes that use a lock in different ways, as two versions do.

use super::tests::{assert_none, assert_one, hold};

/// A permit of two, of so many; asked for, granted and released at these times.
fn permit(id: &str, limit: u32, [asked, granted, ended]: [u64; 3]) -> String {
    format!(
        "ask {id} {asked}ms s Permits 2 {limit} o 1000ms 0\n got {id} {granted}ms -\n \
         held {id} {granted}ms 900ms\n end {id} {ended}ms\n freed {id} {ended}ms free\n"
    )
}

#[test]
fn each_permit_has_its_own_limit() {
    let (few, many) = (permit("a:1", 2, [98, 100, 200]), permit("b:1", 4, [148, 150, 300]));
    assert_none(&[few.clone(), many.clone()].concat());
    // The one that was granted last has the smaller limit.
    let last = permit("c:1", 2, [158, 160, 200]);
    assert_one(&[many.clone(), last].concat(), "limit");
    // It may have been granted first, and hear of it last.
    assert_none(&[many.clone(), permit("c:1", 2, [140, 160, 200])].concat());
    // It has a permit that a neighbour had before.
    let before = permit("c:1", 2, [50, 60, 159]);
    let after = permit("c:2", 2, [158, 160, 200]);
    assert_none(&[before, many, after].concat());
}

#[test]
fn a_name_of_two_kinds_is_of_one_at_a_time() {
    let as_mutex = |from, to| hold("a:1", "m", from, to, "1");
    let as_permits = |from, to| permit("b:1", 3, [from - 2, from, to]).replace(" s ", " m ");
    assert_none(&[as_mutex(100, 200), as_permits(200, 300)].concat());
    assert_one(&[as_mutex(100, 200), as_permits(150, 160)].concat(), "exclusion");
    let refused = "ask c:1 310ms m Mutex 1 1 c 1000ms 0\n refused c:1 311ms wrong-kind\n";
    assert_none(&[as_mutex(100, 200), as_permits(200, 300), refused.to_owned()].concat());
    assert_one(&[as_mutex(100, 200), refused.to_owned()].concat(), "answer");
}
