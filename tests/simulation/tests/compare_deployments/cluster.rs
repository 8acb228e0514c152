//! A real cluster and a simulated one of the same names and ports.

use std::time::Duration;

use leasehold_simulation::server::cluster::{NodeNumber, View};
use leasehold_simulation::server::journal::ReplicaId;
use leasehold_simulation::server::{Server as Simulated, Settings};
use leasehold_tests::cluster::Cluster;

use super::real::Connection;
use crate::asking::Client;

/// The masters are 0 to 2, and each has a replica, 3 more. The keys `{t}…` are in slot 15891, of
/// the third master.
const SLOT: u16 = 15_891;
const FROM: NodeNumber = 2;
const TO: NodeNumber = 0;
const OTHER: NodeNumber = 1;
const REPLICA: NodeNumber = 5;

struct Both {
    _real: Cluster,
    ports: Vec<u16>,
    to_real: Vec<Connection>,
    nodes: Vec<Simulated>,
    to_nodes: Vec<Client>,
    ids: Vec<String>,
    links: Vec<ReplicaId>,
}

impl Both {
    async fn start() -> Self {
        let real = Cluster::start_with(1, Duration::from_secs(60)).await;
        let ports: Vec<_> =
            real.nodes().iter().map(leasehold_tests::server::Server::port).collect();
        let mut to_real: Vec<_> = ports.iter().copied().map(Connection::to).collect();
        let text = |said: String| said.split("\r\n").nth(1).expect("a text").to_owned();
        let ids: Vec<_> = to_real.iter_mut().map(|it| text(it.ask(&["CLUSTER", "MYID"]))).collect();
        let address = |nth: usize| ("127.0.0.1".to_owned(), ports[nth]);
        let mut view = View::of(&[0, 1, 2].map(address), &[3, 4, 5].map(|nth| vec![address(nth)]));
        for (node, id) in view.nodes.iter_mut().zip(&ids) {
            node.id.clone_from(id);
        }
        let start = |(nth, port): (usize, &u16)| {
            let settings = Settings { port: *port, ..Settings::default() };
            Simulated::start_node(settings, 1_767_225_600_000_000, nth, view.clone())
        };
        let mut nodes: Vec<_> = ports.iter().enumerate().map(start).collect();
        let mut links = Vec::new();
        for master in 0..3 {
            let (id, all) = nodes[master].attach_replica("127.0.0.1", ports[master + 3]);
            nodes[master + 3].begin_with(all);
            links.push(id);
        }
        let to_nodes = nodes.iter_mut().map(Client::of).collect();
        Self { _real: real, ports, to_real, nodes, to_nodes, ids, links }
    }

    /// Asks a node of each cluster. The answers must be the same.
    fn ask(&mut self, node: NodeNumber, args: &[&str]) -> String {
        let real = self.to_real[node].ask(args);
        let said = self.to_nodes[node].ask(&mut self.nodes[node], args);
        let comparable = |said: &str| match args {
            ["CLUSTER", "SLOTS"] => masters(said),
            _ => ["@user_script:1.", "@user_script:2."]
                .iter()
                .fold(said.to_owned(), |said, line| said.replace(line, "@user_script.")),
        };
        assert_eq!(comparable(&said), comparable(&real), "left: simulated; node {node}: {args:?}");
        for (master, link) in self.links.iter().enumerate() {
            for change in self.nodes[master].take_changes(*link) {
                self.nodes[master + 3].apply(change);
            }
        }
        said
    }

    fn ask_all(&mut self, nodes: &[NodeNumber], commands: &[&[&str]]) {
        for node in nodes {
            for args in commands {
                self.ask(*node, args);
            }
        }
    }

    /// A connection of its own to a node of each cluster, that has subscribed.
    fn subscribe(&mut self, node: NodeNumber, channel: &str) -> (Connection, Client) {
        let mut real = Connection::to(self.ports[node]);
        let simulated = Client::of(&mut self.nodes[node]);
        for args in [&["HELLO", "3"][..], &["SSUBSCRIBE", channel]] {
            let said = simulated.ask(&mut self.nodes[node], args);
            let real = real.ask(args);
            assert!(args[0] == "HELLO" || said == real, "{said} {real}");
        }
        (real, simulated)
    }

    /// The messages to a connection. They must be the same.
    fn heard(&mut self, node: NodeNumber, real: &mut Connection, simulated: &Client) -> String {
        real.send(&["PING"]);
        let mut heard = vec![real.read()];
        while heard.last().is_some_and(|last| last != "+PONG") {
            heard.push(real.read());
        }
        let said = simulated.ask(&mut self.nodes[node], &["PING"]);
        assert_eq!(said, heard.join("\r\n"), "left: simulated; node {node}");
        said
    }

    /// Waits until a real node says this about its cluster.
    fn until(&self, node: NodeNumber, args: &[&str], said: &str) {
        let mut real = Connection::to(self.ports[node]);
        while !real.ask(args).contains(said) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The answer to `CLUSTER SLOTS` without the replicas: of an idle one, a real node does not know for a
/// while how much it has, and leaves it out.
fn masters(said: &str) -> String {
    let said = redis::parse_redis_value(format!("{said}\r\n").as_bytes()).expect("an answer");
    let redis::Value::Array(ranges) = said else { panic!("{said:?}") };
    let range = |range: &redis::Value| match range {
        redis::Value::Array(parts) => format!("{:?}\n", &parts[..3]),
        other => panic!("{other:?}"),
    };
    ranges.iter().map(range).collect()
}

const GET: &str = "return redis.call('GET', KEYS[1])";
const GET_ARG: &str = "return redis.call('GET', ARGV[1])";
const FLAGGED_GET_ARG: &str = "#!lua\nreturn redis.call('GET', ARGV[1])";
const FLAGGED_SET_TWO: &str =
    "#!lua\nredis.call('SET', ARGV[1], 'x') return redis.call('SET', ARGV[2], 'x')";
const ACROSS: &str = "#!lua flags=no-writes,allow-cross-slot-keys\n\
                      redis.call('GET', ARGV[1]) return redis.call('GET', ARGV[2])";
const DELETE_AND_GET: &str = "redis.call('DEL', KEYS[1]) return redis.pcall('GET', KEYS[1])";
const PUBLISH: &str = "return redis.pcall('SPUBLISH', KEYS[1], 'm')";

/// What each node is asked, in whatever state the slot is.
const QUESTIONS: &[&[&str]] = &[
    &["GET", "{t}1"],
    &["GET", "{t}none"],
    &["EXISTS", "{t}1", "{t}2"],
    &["MGET", "{t}1", "{t}1"],
    &["MGET", "{t}none", "{t}more"],
    &["MGET", "{t}1", "{u}1"],
    &["SET", "{t}none"],
    &["ASKING"],
    &["GET", "{t}1"],
    &["ASKING"],
    &["GET", "{t}none"],
    &["ASKING"],
    &["MGET", "{t}1", "{t}2"],
    &["ASKING"],
    &["MGET", "{t}none", "{t}more"],
    &["ASKING"],
    &["PING"],
    &["GET", "{t}1"],
    &["EVAL", GET, "1", "{t}1"],
    &["EVAL", GET, "1", "{t}none"],
    &["EVAL", GET, "2", "{t}1", "{t}2"],
    &["EVAL", GET, "2", "{t}1", "{u}2"],
    &["EVAL", GET, "3", "{t}1"],
    &["EVAL", GET_ARG, "0", "{t}1"],
    &["EVAL", GET_ARG, "0", "{t}none"],
    &["EVAL", FLAGGED_GET_ARG, "0", "{t}1"],
    &["EVAL", FLAGGED_GET_ARG, "1", "{t}1", "{u}1"],
    &["EVAL", "return 1", "0"],
    &["EVAL", "return redis.call('TIME')[3]", "0"],
    &["EVAL", PUBLISH, "1", "{t}1"],
    &["ASKING"],
    &["EVAL", GET, "1", "{t}1"],
    &["ASKING"],
    &["EVAL", GET, "2", "{t}1", "{t}2"],
    &["ASKING"],
    &["EVAL", GET_ARG, "0", "{t}1"],
    &["CLUSTER", "SLOTS"],
];

/// Not those of a replica, whose own messages a real one sends to its master by the cluster's bus.
const MESSAGES: &[&[&str]] = &[&["SPUBLISH", "{t}c", "m"], &["SPUBLISH", "{u}c", "m"]];

#[tokio::test]
async fn nodes_answer_as_real_ones_while_a_slot_moves() {
    let mut both = Both::start().await;
    let all = [FROM, TO, OTHER, REPLICA];
    both.ask_all(
        &all,
        &[
            &["CLUSTER", "MYID"],
            &["CLUSTER", "KEYSLOT", "{t}1"],
            &["CLUSTER", "KEYSLOT", "a{}b"],
            &["CLUSTER", "KEYSLOT"],
            &["CLUSTER", "NOSUCH"],
            &["CLUSTER"],
            &["CLUSTER", "GETKEYSINSLOT", "16384", "1"],
            &["CLUSTER", "COUNTKEYSINSLOT", "x"],
            &["SELECT", "0"],
            &["SELECT", "1"],
            &["DBSIZE"],
        ],
    );
    both.ask(FROM, &["SET", "{t}1", "one"]);
    both.ask(FROM, &["SET", "{t}2", "two", "PX", "500000"]);
    both.ask_all(&all, QUESTIONS);
    both.ask_all(&all[..3], MESSAGES);
    both.ask_all(&[FROM, TO, OTHER], &[&["EVAL", FLAGGED_SET_TWO, "0", "{t}3", "{u}3"]]);
    both.ask_all(&[FROM, TO, OTHER], &[&["EVAL", ACROSS, "0", "{t}3", "{u}3"]]);
    let (mut real, listener) = both.subscribe(FROM, "{t}c");
    let (mut kept, keeper) = both.subscribe(FROM, "{u}c");

    let [from, to] = [FROM, TO].map(|node| both.ids[node].clone());
    both.ask(FROM, &["CLUSTER", "SETSLOT", "15891", "IMPORTING", &to]);
    both.ask(TO, &["CLUSTER", "SETSLOT", "15891", "MIGRATING", &from]);
    both.ask(REPLICA, &["CLUSTER", "SETSLOT", "15891", "STABLE"]);
    both.ask(TO, &["CLUSTER", "SETSLOT", "15891", "IMPORTING", "none"]);
    both.ask(TO, &["CLUSTER", "SETSLOT", "16384", "STABLE"]);
    both.ask(TO, &["CLUSTER", "SETSLOT", "15891", "FOO"]);
    both.ask(TO, &["CLUSTER", "SETSLOT", "15891", "IMPORTING", &from]);
    both.ask(FROM, &["CLUSTER", "SETSLOT", "15891", "MIGRATING", &to]);
    both.ask(FROM, &["CLUSTER", "SETSLOT", "15891", "NODE", &to]);
    both.ask_all(&all, QUESTIONS);
    both.ask_all(&all[..3], MESSAGES);

    // One of two keys has moved.
    let port = both.ports[TO].to_string();
    let moved = both.to_real[FROM].ask(&["MIGRATE", "127.0.0.1", &port, "{t}1", "0", "5000"]);
    assert_eq!(moved, "+OK");
    let parcel = both.nodes[FROM].pack(b"{t}1").unwrap();
    assert!(both.nodes[TO].unpack(parcel.clone()) && !both.nodes[TO].unpack(parcel));
    both.nodes[FROM].remove(b"{t}1");
    both.ask_all(&all, QUESTIONS);
    both.ask_all(&all[..3], MESSAGES);
    both.ask_all(&[FROM, TO, OTHER], &[&["CLUSTER", "COUNTKEYSINSLOT", "15891"]]);
    // The script itself removes the last key.
    both.ask(FROM, &["EVAL", DELETE_AND_GET, "1", "{t}2"]);
    both.ask_all(&[TO], &[&["ASKING"], &["EVAL", DELETE_AND_GET, "1", "{t}1"]]);
    both.ask_all(&all, QUESTIONS);
    both.ask_all(&all[..3], MESSAGES);

    both.ask(TO, &["CLUSTER", "SETSLOT", "15891", "NODE", &to]);
    // The former owner hears of it before it is told, and deletes the keys that it still had.
    both.until(FROM, &["GET", "{t}1"], "MOVED");
    let view = both.nodes[TO].view();
    both.nodes[FROM].hear(&view);
    both.ask(FROM, &["CLUSTER", "COUNTKEYSINSLOT", "15891"]);
    both.ask(FROM, &["CLUSTER", "SETSLOT", "15891", "NODE", &to]);
    let heard = both.heard(FROM, &mut real, &listener);
    assert!(heard.contains("sunsubscribe"), "{heard}");
    for node in [OTHER, REPLICA] {
        both.until(node, &["GET", "{t}1"], &format!("MOVED 15891 127.0.0.1:{port}"));
        both.nodes[node].hear(&view);
    }
    both.ask_all(&all, QUESTIONS);
    both.ask_all(&all[..3], MESSAGES);
    // Another subscription on that node goes on.
    assert!(both.heard(FROM, &mut kept, &keeper).contains("smessage"));

    // A node that gives a slot up finds the cluster down.
    both.to_real[TO].ask(&["CLUSTER", "DELSLOTS", "15891"]);
    let mut view = both.nodes[TO].view();
    view.give(SLOT..=SLOT, None);
    both.nodes[TO].hear(&view);
    both.until(TO, &["CLUSTER", "INFO"], "cluster_state:fail");
    let mine = "{b}1";
    both.ask_all(&[TO], QUESTIONS);
    for args in [&["GET", mine][..], &["GET", "{u}1"], &["EVAL", GET, "1", mine], &["DBSIZE"]] {
        both.ask(TO, args);
    }
    both.ask(TO, &["EVAL", GET_ARG, "0", mine]);
}

#[tokio::test]
async fn nodes_answer_as_real_ones_after_a_failover() {
    let mut both = Both::start().await;
    both.ask(FROM, &["SET", "{t}1", "one"]);
    let (mut on_master, master) = both.subscribe(FROM, "{t}c");
    let (mut on_replica, replica) = both.subscribe(REPLICA, "{t}c");
    assert_eq!(both.to_real[REPLICA].ask(&["CLUSTER", "FAILOVER"]), "+OK");
    let mut view = both.nodes[REPLICA].view();
    view.promote(REPLICA);
    for node in [REPLICA, FROM, TO, OTHER] {
        let to = both.ports[REPLICA];
        if node == REPLICA {
            both.until(node, &["ROLE"], "master");
        } else {
            both.until(node, &["GET", "{t}1"], &format!("MOVED 15891 127.0.0.1:{to}"));
        }
        both.nodes[node].hear(&view);
    }
    both.heard(REPLICA, &mut on_replica, &replica);
    both.heard(FROM, &mut on_master, &master);
    both.until(FROM, &["ROLE"], "connected");
    let (_, all) = both.nodes[REPLICA].attach_replica("127.0.0.1", both.ports[FROM]);
    both.nodes[FROM].begin_with(all);
    // The slots before and after the master's own have other owners, as before.
    for node in [FROM, TO, OTHER, REPLICA] {
        both.ask(node, &["SET", "{t}2", "two"]);
        both.ask(node, &["EVAL", GET, "1", "{t}1"]);
        both.ask(node, &["EVAL", GET_ARG, "0", "{t}2"]);
        both.ask(node, &["EVAL", FLAGGED_SET_TWO, "0", "{t}3", "{t}4"]);
        both.ask(node, &["SET", "{u}1", "x"]);
        both.ask(node, &["CLUSTER", "KEYSLOT", "x"]);
    }
}
