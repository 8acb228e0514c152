use leasehold_simulation::server::cluster::{View, slot_of};
use leasehold_simulation::server::replication::Role;
use leasehold_simulation::server::{Server, Settings};

use crate::asking::Client;

const BEGAN_US: i64 = 1_767_225_600_000_000;

fn address(nth: u8) -> (String, u16) {
    (format!("10.0.0.{nth}"), 6379)
}

/// Three masters, and a replica of the third.
fn start() -> (View, Vec<Server>) {
    let view = View::of(&[1, 2, 3].map(address), &[Vec::new(), Vec::new(), vec![address(4)]]);
    let start = |nth| Server::start_node(Settings::default(), BEGAN_US, nth, view.clone());
    let mut nodes: Vec<_> = (0..4).map(start).collect();
    let (_, all) = nodes[2].attach_replica("10.0.0.4", 6379);
    nodes[3].begin_with(all);
    (view, nodes)
}

#[test]
fn the_slots_are_shared_evenly() {
    let ranges = start().0.ranges();
    assert_eq!(ranges, [(0, 5460, 0), (5461, 10_922, 1), (10_923, 16_383, 2)]);
}

#[test]
fn a_slot_moves_key_by_key() {
    let (_, mut nodes) = start();
    let slot = slot_of(b"{t}");
    let [from, to] = [2, 0].map(|nth| Client::of(&mut nodes[nth]));
    from.ask(&mut nodes[2], &["SET", "{t}1", "x", "PX", "5000"]);
    from.ask(&mut nodes[2], &["SET", "{t}2", "x"]);
    nodes[0].set_importing(slot, 2);
    nodes[2].set_migrating(slot, 0);
    // The nodes' clocks differ: the rest of a key's time is the same on both.
    nodes[0].set_clock(BEGAN_US + 60_000_000);
    assert_eq!(nodes[2].keys_in(slot), [b"{t}1", b"{t}2"]);
    let parcel = nodes[2].pack(b"{t}1").unwrap();
    assert!(nodes[0].unpack(parcel));
    nodes[2].remove(b"{t}1");
    assert_eq!(from.ask(&mut nodes[2], &["GET", "{t}1"]), format!("-ASK {slot} 10.0.0.1:6379"));
    assert_eq!(from.ask(&mut nodes[2], &["GET", "{t}2"]), "$1\r\nx");
    assert!(from.ask(&mut nodes[2], &["MGET", "{t}1", "{t}2"]).starts_with("-TRYAGAIN"));
    assert_eq!(to.ask(&mut nodes[0], &["GET", "{t}1"]), format!("-MOVED {slot} 10.0.0.3:6379"));
    to.ask(&mut nodes[0], &["ASKING"]);
    assert_eq!(to.ask(&mut nodes[0], &["PTTL", "{t}1"]), ":5000");
    assert!(nodes[2].pack(b"{t}1").is_none());

    nodes[0].set_owner(slot, 0);
    assert_eq!(to.ask(&mut nodes[0], &["GET", "{t}1"]), "$1\r\nx");
    // Whoever has not heard of it sends clients to the former owner, and that sends them back.
    let moved = |to: u8| format!("-MOVED {slot} 10.0.0.{to}:6379");
    let other = Client::of(&mut nodes[1]);
    assert_eq!(other.ask(&mut nodes[1], &["GET", "{t}1"]), moved(3));
    let view = nodes[0].view();
    nodes[1].hear(&view);
    nodes[2].hear(&view);
    assert_eq!(other.ask(&mut nodes[1], &["GET", "{t}1"]), moved(1));
    assert_eq!(from.ask(&mut nodes[2], &["GET", "{t}2"]), moved(1));
    assert!(nodes[2].keys_in(slot).is_empty(), "what was left there is gone");
}

#[test]
fn a_replica_takes_over_and_the_former_master_follows_it() {
    let (mut view, mut nodes) = start();
    let [former, replica] = [2, 3].map(|nth| Client::of(&mut nodes[nth]));
    let moved = |to: u8| format!("-MOVED {} 10.0.0.{to}:6379", slot_of(b"{t}"));
    assert_eq!(replica.ask(&mut nodes[3], &["SET", "{t}1", "x"]), moved(3));
    let before = view.clone();
    view.promote(3);
    nodes[3].hear(&view);
    assert_eq!(replica.ask(&mut nodes[3], &["SET", "{t}1", "new"]), "+OK");
    // The former master does not know it yet: this write is lost.
    assert_eq!(former.ask(&mut nodes[2], &["SET", "{t}1", "old"]), "+OK");
    nodes[2].hear(&view);
    assert!(matches!(nodes[2].role(), Role::Replica(of) if of.host == "10.0.0.4"));
    let (_, all) = nodes[3].attach_replica("10.0.0.3", 6379);
    nodes[2].begin_with(all);
    assert_eq!(former.ask(&mut nodes[2], &["GET", "{t}1"]), moved(4));
    assert_eq!(replica.ask(&mut nodes[3], &["GET", "{t}1"]), "$3\r\nnew");
    // An earlier view comes too late.
    nodes[2].hear(&before);
    assert_eq!(former.ask(&mut nodes[2], &["GET", "{t}1"]), moved(4));
    nodes[3].set_cut_off(true);
    assert_eq!(replica.ask(&mut nodes[3], &["GET", "{t}1"]), "-CLUSTERDOWN The cluster is down");
}
