use std::time::{Duration, Instant};

use leasehold_simulation::server::sentinel::Sentinel as Knows;
use leasehold_simulation::server::{Server, Settings};
use leasehold_tests::sentinel::{NAME, Sentinel};

use super::real::Connection;
use crate::asking::Client;

/// The fields of maps that a simulated sentinel has, with their values, in its order.
fn fields(said: &str, names: &[&str]) -> Vec<String> {
    let words: Vec<_> = said.split("\r\n").filter(|it| !it.starts_with('$')).collect();
    let value = |name: &&str| words.iter().position(|it| it == name).map(|at| words[at + 1]);
    names.iter().map(|name| format!("{name} {:?}", value(name))).collect()
}

#[tokio::test]
async fn sentinels_answer_as_real_ones() {
    // The harness waits until they know each other.
    let real = Sentinel::start(1, Duration::from_secs(60)).await;
    let [master, replica] = [0, 1].map(|nth| ("127.0.0.1".to_owned(), real.servers()[nth].port()));
    let ports: Vec<_> =
        real.sentinels().iter().map(leasehold_tests::server::Server::port).collect();
    let other = |nth: usize| ("127.0.0.1".to_owned(), ports[nth]);
    let knows = Knows {
        replicas: vec![replica],
        others: vec![other(1), other(2)],
        ..Knows::of(NAME, master)
    };
    let settings = Settings { version: version(ports[0]), port: ports[0], ..Settings::default() };
    let mut simulated = Server::start_sentinel(settings, 0, knows);

    for protocol in ["2", "3"] {
        let mut to_real = Connection::to(ports[0]);
        let to_simulated = Client::of(&mut simulated);
        for args in [
            &["HELLO", protocol][..],
            &["PING"],
            &["ROLE"],
            &["CLIENT", "SETINFO", "LIB-NAME", "x"],
            &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME],
            &["sentinel", "get-master-addr-by-name", "none"],
            &["SENTINEL", "GET-MASTER-ADDR-BY-NAME"],
            &["SENTINEL", "REPLICAS", "none"],
            &["SENTINEL", "SENTINELS", "none"],
            &["SENTINEL", "MASTER", "none"],
            &["SENTINEL", "master"],
            &["SENTINEL", "none"],
            &["SENTINEL"],
            &["GET", "a"],
            &["SELECT", "0"],
            &["EVAL", "return 1", "0"],
            &["EVALSHA", "x", "0"],
            &["CLUSTER", "SLOTS"],
            &["CONFIG", "GET", "x"],
            &["WAIT", "0", "0"],
            &["MULTI"],
            &["PUBLISH", "a", "b"],
            &["SUBSCRIBE", "+switch-master"],
            &["UNSUBSCRIBE", "+switch-master"],
        ] {
            let (said, real) = (to_simulated.ask(&mut simulated, args), to_real.ask(args));
            // Version 7.0 does not know `SETINFO`.
            if args[0] == "CLIENT" && real.contains("unknown subcommand") {
                continue;
            }
            let without_id = |said: &str| {
                let is_id = |line: &&str| line.starts_with(':') && said.contains("proto");
                said.split("\r\n").filter(|line| !is_id(line)).collect::<Vec<_>>().join("\r\n")
            };
            assert_eq!(without_id(&said), without_id(&real), "left: simulated; {args:?}");
        }
        for (args, names) in [
            (
                ["SENTINEL", "MASTER", NAME],
                &["name", "ip", "port", "flags", "num-slaves", "num-other-sentinels", "quorum"][..],
            ),
            (["SENTINEL", "REPLICAS", NAME], &["name", "ip", "port", "flags", "master-port"]),
            (["SENTINEL", "SENTINELS", NAME], &["ip", "flags"]),
        ] {
            let said = to_simulated.ask(&mut simulated, &args);
            let real = until_connected(|| to_real.ask(&args));
            assert_eq!(said.as_bytes()[0], real.as_bytes()[0], "{args:?}");
            assert_eq!(fields(&said, names), fields(&real, names), "left: simulated; {args:?}");
        }
        let line = |said: &str| {
            let line = said.lines().find(|line| line.starts_with("master0:"));
            line.expect("a master").to_owned()
        };
        let info = &["INFO", "sentinel"];
        assert_eq!(line(&to_simulated.ask(&mut simulated, info)), line(&to_real.ask(info)));
    }
}

/// Asks until the real sentinel is connected to all that it knows.
fn until_connected(mut ask: impl FnMut() -> String) -> String {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let said = ask();
        if !said.contains("disconnected") {
            return said;
        }
        assert!(Instant::now() < until, "it stays disconnected: {said}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn version(port: u16) -> String {
    let said = Connection::to(port).ask(&["INFO", "server"]);
    let line = said.lines().find_map(|line| line.strip_prefix("redis_version:"));
    line.expect("a version").to_owned()
}
