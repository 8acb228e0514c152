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
    let refused = "ask c:1 290ms m Mutex 1 1 c 1000ms 0\n refused c:1 291ms wrong-kind\n";
    assert_none(&[as_mutex(100, 200), as_permits(200, 300), refused.to_owned()].concat());
    assert_one(&[as_mutex(100, 300), refused.to_owned()].concat(), "answer");
}

#[test]
fn an_owner_stands_beside_itself() {
    let named = |id: &str| format!("named {id}\n");
    let both = |a: &str, b: &str, tokens: [&str; 2]| {
        let one = hold(a, "rw", 100, 200, tokens[0]).replace(" a 1000ms", " o 1000ms");
        let other = hold(b, "rw", 150, 250, tokens[1]).replace(" b 1000ms", " o 1000ms");
        [one, other].concat()
    };
    let reader_and_writer = both("a:1", "b:1", ["-", "2"]);
    assert_one(&reader_and_writer, "exclusion");
    assert_none(&[&*reader_and_writer, &named("a:1"), &named("b:1")].concat());
    let writers = both("a:1", "b:1", ["1", "2"]);
    assert_one(&[&*writers, &named("a:1"), &named("b:1")].concat(), "exclusion");
}

#[test]
fn work_that_counts_as_done_is_not_granted() {
    let lasts = |id: &str, time: u64| format!("lasts {id} {time}ms\n");
    let done = [hold("a:1", "job", 100, 200, "1"), "done a:1 201ms 0\n".to_owned()].concat();
    let next = hold("b:1", "job", 400, 500, "3");
    let (shorter, both) = (lasts("a:1", 150), [done, lasts("a:1", 1_000), next].concat());
    assert_none(&[&*both, &lasts("b:1", 200)].concat());
    assert_one(&[&*both, &lasts("b:1", 201)].concat(), "once");
    // Somebody may have succeeded in between, for a shorter time.
    assert_none(&[&*both, &lasts("b:1", 201), &hold("c:1", "job", 300, 310, "2")].concat());
    // The server remembers it for no longer than it counted at first.
    assert_none(&[&*both, &shorter, &lasts("b:1", 1_000)].concat());
    let forgets = "fault Forgets 250ms 260ms 0 flush\n";
    assert_none(&[&*both, &lasts("b:1", 201), forgets].concat());
}

#[test]
fn a_future_that_nobody_polls_delays_others_for_some_seconds() {
    let waits = "ask b:1 98ms m Mutex 1 1 b 1000ms 0\n got b:1 25000ms 2\n";
    let asked = "ask a:1 90ms m Mutex 1 1 a 1000ms 0\n";
    let neglected = |is_of_set| format!("neglected a:1 100ms 24000ms {is_of_set}\n");
    assert_one(&[waits, asked, &neglected(false)].concat(), "waiting");
    assert_none(&[waits, asked, &neglected(true)].concat());
    let own = "neglected b:1 100ms 24000ms false\n";
    assert_none(&[waits, own].concat());
}
