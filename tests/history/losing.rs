//! Planted losses of leases, for which there is no reason.

use super::tests::{assert_none, assert_one};

const HELD: &str = "ask a:1 98ms m Mutex 1 1 a 1000ms 0\n got a:1 100ms 1\n held a:1 100ms 900ms\n";
const RENEWED: &str = "renewed a:1\n";

#[test]
fn a_lease_that_is_renewed_is_not_lost_for_nothing() {
    let lost = "lost a:1 1001ms\n end a:1 1001ms\n freed a:1 1001ms dropped\n";
    assert_none(&[HELD, lost].concat());
    let renewed = [HELD, RENEWED, lost].concat();
    assert_one(&renewed, "loss");
    for reason in [
        "fault Away 300ms 400ms 0 cuts\n",
        "fault Forgets 300ms 400ms 0 flush\n",
        "stopped a 200ms 1000ms\n",
        "neglected a:1 99ms 1000ms false\n",
    ] {
        assert_none(&[&*renewed, reason].concat());
    }
    let neighbour = |from: &str, lock: &str| {
        let asks = format!("ask a:2 {from}ms {lock} Mutex 1 1 a 1000ms 0\n");
        [&*renewed, &*asks, &*format!("neglected a:2 {from}ms 1000ms false\n")].concat()
    };
    assert_none(&neighbour("90", "m"));
    assert_one(&neighbour("90", "n"), "loss");
    let renewed_later = renewed.replace("98ms", "1098ms").replace("1001ms", "2001ms");
    let renewed_later =
        renewed_later.replace("100ms 1\n", "1100ms 1\n").replace("100ms 900ms", "1100ms 900ms");
    assert_none(&[&*renewed_later, "stopped a 50ms 99ms\n"].concat());
    assert_one(&[&*renewed_later, "stopped a 50ms 97ms\n"].concat(), "loss");
    assert_one(&[&*renewed, "stopped b 200ms 1000ms\n"].concat(), "loss");
    assert_one(&[&*renewed, "fault Away 1002ms 1100ms 0 cuts\n"].concat(), "loss");
}

#[test]
fn a_lease_is_not_lost_sooner_than_its_holder_was_told() {
    for lost in ["lost a:1 500ms\n end a:1 501ms\n", "end a:1 500ms\n freed a:1 501ms lost\n"] {
        let early = [HELD, RENEWED, lost].concat();
        assert_one(&early, "loss");
        assert_one(&[&*early, "fault Away 300ms 400ms 0 cuts\n"].concat(), "loss");
        assert_none(&[&*early, "fault Forgets 300ms 400ms 0 forces\n"].concat());
    }
}

#[test]
fn a_release_that_is_sent_again_may_find_the_next_lease() {
    let released = "end a:1 500ms\n freed a:1 600ms lost\n fault Away 490ms 600ms 0 halfopen\n";
    let early = [HELD, RENEWED, released].concat();
    let next = |at: &str| format!("ask b:1 98ms m Mutex 1 1 b 1000ms 0\n got b:1 {at}ms 2\n");
    assert_one(&early, "loss");
    assert_one(&[&*early, &next("601")].concat(), "loss");
    assert_none(&[&*early, &next("550")].concat());
}
