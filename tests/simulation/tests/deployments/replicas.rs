use leasehold_simulation::server::journal::{Effect, ReplicaId};
use leasehold_simulation::server::replication::Link;
use leasehold_simulation::server::{Server, Settings};

use crate::asking::Client;

const BEGAN_US: i64 = 1_767_225_600_000_000;

/// A master and its replica, each with a connection.
struct Pair {
    master: Server,
    replica: Server,
    id: ReplicaId,
    to_master: Client,
    to_replica: Client,
}

impl Pair {
    fn start() -> Self {
        let [mut master, mut replica] = [6379, 6380]
            .map(|port| Server::new(Settings { port, ..Settings::default() }, BEGAN_US));
        let to_master = Client::of(&mut master);
        assert_eq!(to_master.ask(&mut master, &["SET", "before", "x"]), "+OK");
        let (id, all) = master.attach_replica("127.0.0.1", 6380);
        replica.replicate_from("127.0.0.1", 6379);
        replica.begin_with(all);
        let to_replica = Client::of(&mut replica);
        Self { master, replica, id, to_master, to_replica }
    }

    fn write(&mut self, args: &[&str]) -> String {
        self.to_master.ask(&mut self.master, args)
    }

    fn read(&mut self, args: &[&str]) -> String {
        self.to_replica.ask(&mut self.replica, args)
    }

    /// Carries all changes over, and the confirmation back.
    fn replicate(&mut self) {
        for change in self.master.take_changes(self.id) {
            self.replica.apply(change);
        }
        self.master.acknowledge(self.id, self.replica.offset());
    }

    fn pass(&mut self, ms: i64) {
        for server in [&mut self.master, &mut self.replica] {
            let now_us = server.core().borrow().now_us + ms * 1000;
            server.set_clock(now_us);
        }
    }
}

#[test]
fn a_replica_has_what_it_was_sent_and_refuses_writes() {
    let mut pair = Pair::start();
    assert_eq!(pair.read(&["GET", "before"]), "$1\r\nx");
    pair.write(&["SET", "a", "1", "PX", "5000"]);
    pair.write(&["DEL", "before"]);
    assert_eq!(pair.read(&["GET", "a"]), "$-1", "it is not there yet");
    pair.pass(1000);
    pair.replicate();
    assert_eq!(pair.read(&["GET", "a"]), "$1\r\n1");
    assert_eq!(pair.read(&["PTTL", "a"]), ":4000", "its end is absolute");
    assert_eq!(pair.read(&["EXISTS", "before"]), ":0");
    let refusal = "-READONLY You can't write against a read only replica.";
    assert_eq!(pair.read(&["SET", "a", "2"]), refusal);
    assert_eq!(pair.read(&["EVAL", "#!lua\nreturn 1", "0"]), refusal);
    assert_eq!(pair.read(&["EVAL", "#!lua flags=no-writes\nreturn 1", "0"]), ":1");
}

#[test]
fn a_script_is_replicated_as_a_whole_and_with_its_messages() {
    let mut pair = Pair::start();
    pair.read(&["SUBSCRIBE", "c"]);
    let script = "redis.call('SET', 'a', 1) redis.call('SET', 'a', 2) redis.call('DEL', 'before') \
                  redis.call('ZREM', 'none', 'm') return redis.call('PUBLISH', 'c', 'said')";
    assert_eq!(pair.write(&["EVAL", script, "0"]), ":0");
    let changes = pair.master.take_changes(pair.id);
    assert_eq!(changes.len(), 1);
    let is_set =
        |effect: &Effect| matches!(effect, Effect::Set { database: 0, key, .. } if key == b"a");
    let is_gone =
        |effect: &Effect| matches!(effect, Effect::Delete { key, .. } if key == b"before");
    let [set, gone, Effect::Publish { message, .. }] = &changes[0].effects[..] else {
        panic!("{changes:?}")
    };
    assert!(is_set(set) && is_gone(gone) && message == b"said");
    pair.replica.apply(changes[0].clone());
    assert_eq!(
        pair.to_replica.read(&mut pair.replica),
        "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$4\r\nsaid"
    );
    pair.write(&["EVAL", "return redis.call('GET', 'a')", "0"]);
    assert!(pair.master.take_changes(pair.id).is_empty(), "it has changed nothing");
}

#[test]
fn a_replica_hides_what_has_expired_until_its_master_deletes_it() {
    let mut pair = Pair::start();
    pair.write(&["SET", "a", "1", "PX", "1000"]);
    pair.replicate();
    pair.pass(1001);
    let has_it = |pair: &Pair| {
        let core = pair.replica.core().borrow();
        core.databases.values().any(|keys| keys.stored(b"a").is_some())
    };
    assert_eq!(pair.read(&["GET", "a"]), "$-1");
    pair.replica.tick();
    assert!(has_it(&pair));
    // The master deletes it when it is asked for it, or in the background.
    pair.master.tick();
    pair.replicate();
    assert!(!has_it(&pair));
}

#[test]
fn waiting_ends_with_the_confirmation_or_its_time() {
    let mut pair = Pair::start();
    assert_eq!(pair.write(&["WAIT", "1", "0"]), ":1", "it has written nothing since");
    pair.write(&["SET", "a", "1"]);
    assert_eq!(pair.write(&["WAIT", "1", "500"]), "", "there is no answer yet");
    assert_eq!(pair.write(&["GET", "a"]), "", "and none to what follows");
    assert_eq!(pair.master.next_timeout(), Some(BEGAN_US + 500_000));
    pair.replicate();
    assert_eq!(pair.to_master.read(&mut pair.master), ":1\r\n$1\r\n1");
    assert_eq!(pair.master.next_timeout(), None);

    pair.write(&["SET", "a", "2"]);
    pair.write(&["WAIT", "1", "500"]);
    pair.pass(499);
    pair.master.tick();
    assert_eq!(pair.to_master.read(&mut pair.master), "");
    pair.pass(1);
    pair.master.tick();
    assert_eq!(pair.to_master.read(&mut pair.master), ":0");

    // The writes of other connections do not count, and neither does a late confirmation.
    let other = Client::of(&mut pair.master);
    assert_eq!(other.ask(&mut pair.master, &["WAIT", "1", "500"]), ":1");
    assert_eq!(pair.write(&["MULTI"]), "+OK");
    pair.write(&["WAIT", "1", "0"]);
    assert_eq!(pair.write(&["EXEC"]), "*1\r\n:0", "nothing waits in a transaction");
}

#[test]
fn a_failover_loses_what_the_replica_has_not_got() {
    let mut pair = Pair::start();
    pair.write(&["SET", "a", "1"]);
    pair.write(&["EVAL", "return 1", "0"]);
    pair.replicate();
    pair.write(&["SET", "b", "1"]);
    pair.write(&["WAIT", "1", "0"]);
    let lost = pair.master.take_changes(pair.id);
    pair.replica.promote();
    assert_eq!(pair.read(&["MGET", "a", "b"]), "*2\r\n$1\r\n1\r\n$-1");
    assert_eq!(pair.read(&["SET", "a", "2"]), "+OK");
    // It does not know its master's scripts, and does not take its late changes.
    let hash = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    assert!(pair.read(&["EVALSHA", hash, "0"]).starts_with("-NOSCRIPT"));
    for change in lost {
        pair.replica.apply(change);
    }
    assert_eq!(pair.read(&["EXISTS", "b"]), ":0");

    let other = Client::of(&mut pair.master);
    let (id, all) = pair.replica.attach_replica("127.0.0.1", 6379);
    pair.master.replicate_from("127.0.0.1", 6380);
    let said = pair.to_master.read(&mut pair.master);
    assert!(said.starts_with("-UNBLOCKED force unblock"), "{said}");
    assert_eq!(pair.to_master.read(&mut pair.master), "(closed)");
    assert_eq!(other.ask(&mut pair.master, &["GET", "b"]), "$1\r\n1", "it is not linked yet");
    pair.master.begin_with(all);
    assert_eq!(other.ask(&mut pair.master, &["MGET", "a", "b"]), "*2\r\n$1\r\n2\r\n$-1");
    pair.master.set_link(Link::Down);
    assert!(other.ask(&mut pair.master, &["ROLE"]).contains("$7\r\nconnect\r\n:-1"));
    pair.replica.detach_replica(id);
    assert_eq!(pair.read(&["WAIT", "1", "1"]), "");
}
