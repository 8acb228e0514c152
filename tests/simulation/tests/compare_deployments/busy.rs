use std::time::Duration;

use leasehold_simulation::server::Server as Simulated;
use leasehold_simulation::server::Settings;
use leasehold_simulation::server::core::Work;
use leasehold_tests::server::Server;

use super::real::Connection;
use crate::asking::Client;

/// Without the numbers of connections and versions.
fn without_numbers(said: &str) -> String {
    let words: Vec<_> = said.split("\r\n").collect();
    words
        .into_iter()
        .filter(|it| !it.starts_with([':', '$']) && !it.contains("7."))
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn a_busy_server_refuses_what_a_real_one_does() {
    let real = Server::start_with(&["--busy-reply-threshold", "10"]);
    let [mut script, mut other] = [(); 2].map(|()| Connection::to(real.port()));
    script.send(&["EVAL", "while true do end", "0"]);
    while !other.ask(&["PING"]).starts_with("-BUSY") {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut simulated = Simulated::new(Settings::default(), 0);
    simulated.core().borrow_mut().condition.work = Work::Busy;
    let client = Client::of(&mut simulated);
    let nowhere = "0".repeat(40);
    for args in [
        &["PING"][..],
        &["HELLO", "3"],
        &["CLIENT", "INFO"],
        &["CLIENT", "ID"],
        &["CLIENT", "KILL", "ID", "99"],
        &["CLIENT", "SETNAME", "a"],
        &["INFO", "server"],
        &["CONFIG", "GET", "save"],
        &["ROLE"],
        &["ECHO", "a"],
        &["SELECT", "0"],
        &["WAIT", "0", "1"],
        &["PUBLISH", "a", "b"],
        &["SUBSCRIBE", "a"],
        &["SSUBSCRIBE", "a"],
        &["UNSUBSCRIBE", "a"],
        &["PUBSUB", "CHANNELS"],
        &["GET", "a"],
        &["SET", "a", "b"],
        &["EVAL", "return 1", "0"],
        &["EVALSHA", &nowhere, "0"],
        &["SCRIPT", "LOAD", "return 1"],
        &["SCRIPT", "FLUSH"],
        &["AUTH", "a"],
        &["EXEC"],
        &["MULTI"],
        &["PING"],
        &["EXEC"],
        &["MULTI"],
        &["DISCARD"],
        &["SCRIPT", "KILL"],
        // Then it is not busy any more.
        &["PING"],
        &["SCRIPT", "KILL"],
        &["SCRIPT", "EXISTS", &nowhere],
    ] {
        let (real, is_kill) = (other.ask(args), args == ["SCRIPT", "KILL"]);
        if is_kill && real.starts_with('+') {
            assert!(script.read().contains("Script killed by user"));
        }
        let said = client.ask(&mut simulated, args);
        assert_eq!(without_numbers(&said), without_numbers(&real), "left: simulated; {args:?}");
    }
}
