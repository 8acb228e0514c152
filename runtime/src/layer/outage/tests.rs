//! Outages on a clock that the test moves.

use tokio::time::advance;

use super::*;

fn parts(names: &[&str]) -> impl Iterator<Item = Part> {
    names.iter().map(|name| Some(LockKey::new(*name).unwrap()))
}

/// An outage of these parts, which were asked for just now.
fn outage(names: &[&str]) -> Outage {
    let outage = Outage::default();
    fail(&outage, names);
    outage
}

fn fail(outage: &Outage, names: &[&str]) {
    outage.failed(parts(names), Instant::now(), "a", &LockError::ShutDown);
}

fn way(outage: &Outage, names: &[&str]) -> Way {
    outage.way(parts(names))
}

/// A look that is due finds an answer.
async fn look(outage: &Outage, name: &str) {
    advance(FIRST_PAUSE).await;
    let Way::Look(looking) = way(outage, &[name]) else { panic!("it is due") };
    looking.found(true);
}

/// Others hold the lock that it asks for.
#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_long_ends_the_outage() {
    let outage = outage(&["a"]);
    look(&outage, "a").await;
    let begun = Instant::now();
    assert!(matches!(way(&outage, &["a"]), Way::Ask));
    assert!(matches!(way(&outage, &["a"]), Way::Pass));
    advance(LONGEST_PAUSE).await;
    assert!(matches!(way(&outage, &["a"]), Way::Ask), "the first may have been dropped");
    advance(FIRST_PAUSE).await;
    parts(&["a"]).for_each(|part| outage.settled(&part, begun, "a"));
    assert!(!outage.is_known());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_after_a_look_is_looked_at_later() {
    let outage = outage(&["a"]);
    look(&outage, "a").await;
    assert!(matches!(way(&outage, &["a"]), Way::Ask));
    fail(&outage, &["a"]);
    advance(FIRST_PAUSE).await;
    assert!(matches!(way(&outage, &["a"]), Way::Pass), "the pause is longer");
    advance(FIRST_PAUSE).await;
    assert!(matches!(way(&outage, &["a"]), Way::Look(_)));
}

/// A burst that comes hours later asks, and another outage begins anew.
#[tokio::test(start_paused = true)]
async fn what_a_look_has_found_is_forgotten() {
    let outage = outage(&["a"]);
    look(&outage, "a").await;
    advance(FRESH).await;
    for _ in 0..2 {
        assert!(matches!(way(&outage, &["a"]), Way::Ask));
    }
    fail(&outage, &["b"]);
    assert_eq!(outage.state().away.len(), 1);
}

/// A permit and a rate of one name are one part.
#[tokio::test(start_paused = true)]
async fn a_part_that_is_named_twice_is_asked_for() {
    let outage = outage(&["a"]);
    look(&outage, "a").await;
    assert!(matches!(way(&outage, &["a", "a"]), Way::Ask));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_passes_for_one_part_takes_no_turn_at_another() {
    let outage = outage(&["a"]);
    look(&outage, "a").await;
    fail(&outage, &["b"]);
    assert!(matches!(way(&outage, &["a", "b"]), Way::Pass));
    assert!(matches!(way(&outage, &["a"]), Way::Ask));
}
