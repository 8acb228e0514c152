use std::time::{SystemTime, UNIX_EPOCH};

use leasehold_simulation::server::{Server as Simulated, Settings};
use leasehold_tests::sentinel::until_linked;
use leasehold_tests::server::{Server, free_port};

use super::real::Connection;
use crate::asking::Client;

fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_micros()).unwrap()
}

fn simulated(port: u16) -> Simulated {
    Simulated::new(Settings { port, ..Settings::default() }, now_us())
}

/// Without the offsets, which a real server counts in bytes, and without a script's line.
fn without_offsets(said: &str) -> String {
    let said = said.replace("@user_script:1.", "@user_script.");
    let mut words: Vec<_> = said.split("\r\n").collect();
    if let Some(at) = words.iter().position(|it| matches!(*it, "connected" | "master")) {
        words[at + 1] = ":offset";
    }
    let last = words.len() - 1;
    if said.contains("master") && last > 6 {
        (words[last - 1], words[last]) = ("$length", "offset");
    }
    words.join("\r\n")
}

#[tokio::test]
async fn masters_and_replicas_answer_as_real_ones() {
    let master = Server::start_with(&["--repl-diskless-sync-delay", "0"]);
    let of = format!("127.0.0.1 {}", master.port());
    let replica = Server::start_on_with(free_port(), &["--replicaof", &of]);
    until_linked(&replica).await;
    let ports = [master.port(), replica.port()];
    let [mut real_master, mut real_replica] = ports.map(Connection::to);
    // The master lists it once it has confirmed what it was sent.
    while !real_master.ask(&["ROLE"]).contains(&ports[1].to_string()) {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }

    let [mut master, mut replica] = ports.map(simulated);
    let (id, all) = master.attach_replica("127.0.0.1", ports[1]);
    replica.replicate_from("127.0.0.1", ports[0]);
    replica.begin_with(all);
    let (to_master, to_replica) = (Client::of(&mut master), Client::of(&mut replica));

    let plain = "return redis.call('SET', KEYS[1], 'x')";
    let flagged = "#!lua\nreturn redis.call('SET', KEYS[1], 'x')";
    for args in [
        &["ROLE"][..],
        &["SET", "a", "1"],
        &["SET", "b", "1", "PX", "100000"],
        &["PEXPIRE", "b", "200000"],
        &["WAIT", "1", "5000"],
        // No more of those without a write: a real server also counts the bytes of its question
        // to the replicas, which they confirm a second later.
        &["WAIT", "1", "0"],
        &["WAIT", "x", "0"],
        &["WAIT", "1", "-1"],
        &["WAIT", "1", "x"],
        &["WAIT", "1"],
        &["EVAL", plain, "1", "c"],
        &["EVAL", flagged, "1", "d"],
        &["DEL", "a"],
        &["WAIT", "1", "5000"],
        &["SET", "a", "3"],
        &["WAIT", "2", "300"],
        &["DEL", "a"],
    ] {
        let real = real_master.ask(args);
        let mut said = to_master.ask(&mut master, args);
        for change in master.take_changes(id) {
            replica.apply(change);
        }
        master.acknowledge(id, replica.offset());
        if said.is_empty() {
            // It waits: the time passes by.
            let later = master.next_timeout().unwrap_or(0);
            master.set_clock(later.max(now_us()));
            master.tick();
            said = to_master.read(&mut master);
        }
        assert_eq!(without_offsets(&said), without_offsets(&real), "left: simulated; {args:?}");
    }
    for args in [
        &["ROLE"][..],
        &["MGET", "a", "c", "d"],
        &["EXISTS", "a", "b", "c", "d"],
        &["SET", "a", "2"],
        &["DEL", "a"],
        &["EVAL", plain, "1", "a"],
        &["EVAL", flagged, "1", "a"],
        &["EVAL", "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])", "1", "c"],
        &["EVAL", "return redis.pcall('DEL', KEYS[1])", "1", "c"],
        &["WAIT", "1", "10"],
        &["PUBLISH", "c", "m"],
    ] {
        let (real, said) = (real_replica.ask(args), to_replica.ask(&mut replica, args));
        assert_eq!(without_offsets(&said), without_offsets(&real), "left: simulated; {args:?}");
    }
    let field = |said: &str, name: &str| {
        let line = said.lines().find(|line| line.starts_with(&format!("{name}:")));
        line.unwrap_or_default().to_owned()
    };
    let info = &["INFO", "replication"];
    let (real, said) = (real_replica.ask(info), to_replica.ask(&mut replica, info));
    for name in ["role", "master_host", "master_port", "master_link_status", "slave_read_only"] {
        assert!(!field(&real, name).is_empty(), "{name}");
        assert_eq!(field(&said, name), field(&real, name));
    }
    let (real, said) = (real_master.ask(info), to_master.ask(&mut master, info));
    for name in ["role", "connected_slaves", "master_failover_state"] {
        assert_eq!(field(&said, name), field(&real, name));
    }
    let known = |said: &str| field(said, "slave0").split(",offset").next().unwrap().to_owned();
    assert_eq!(known(&said), known(&real));
}

/// A master that becomes a replica sends away whoever waits for its replicas, and nobody else. One
/// that becomes a master keeps everybody.
#[tokio::test]
async fn who_waits_is_sent_away_as_by_a_real_server() {
    let (server, other) = (Server::start(), free_port());
    let [mut waiting, mut idle, mut operator] = [server.port(); 3].map(Connection::to);
    let mut simulated = simulated(server.port());
    let [waits, idles] = [(); 2].map(|()| Client::of(&mut simulated));
    assert_eq!(waits.ask(&mut simulated, &["SET", "a", "1"]), waiting.ask(&["SET", "a", "1"]));
    assert_eq!(idles.ask(&mut simulated, &["PING"]), idle.ask(&["PING"]));
    waiting.send(&["WAIT", "1", "0"]);
    assert_eq!(waits.ask(&mut simulated, &["WAIT", "1", "0"]), "");
    while !operator.ask(&["INFO", "clients"]).contains("blocked_clients:1") {
        tokio::task::yield_now().await;
    }
    operator.ask(&["REPLICAOF", "127.0.0.1", &other.to_string()]);
    simulated.replicate_from("127.0.0.1", other);
    assert_eq!(waits.read(&mut simulated), waiting.read());
    assert_eq!(waits.read(&mut simulated), waiting.read());
    let write = &["SET", "a", "2"];
    assert_eq!(idles.ask(&mut simulated, write), idle.ask(write));
    operator.ask(&["REPLICAOF", "NO", "ONE"]);
    simulated.promote();
    assert_eq!(idles.ask(&mut simulated, write), idle.ask(write));
}
