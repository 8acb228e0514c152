use leasehold_simulation::server::sentinel::Sentinel;
use leasehold_simulation::server::{Server, Settings};

use crate::asking::Client;

#[test]
fn a_sentinel_names_the_new_master_and_tells_its_listeners() {
    let address = |port| ("127.0.0.1".to_owned(), port);
    let known = Sentinel { replicas: vec![address(2)], ..Sentinel::of("m", address(1)) };
    let mut sentinel = Server::start_sentinel(Settings::default(), 0, known);
    let client = Client::of(&mut sentinel);
    let listener = Client::of(&mut sentinel);
    listener.ask(&mut sentinel, &["SUBSCRIBE", "+switch-master"]);
    let ask = &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m"];
    assert_eq!(client.ask(&mut sentinel, ask), "*2\r\n$9\r\n127.0.0.1\r\n$1\r\n1");
    sentinel.switch_master(&address(2));
    assert_eq!(client.ask(&mut sentinel, ask), "*2\r\n$9\r\n127.0.0.1\r\n$1\r\n2");
    let said = listener.read(&mut sentinel);
    assert!(said.ends_with("m 127.0.0.1 1 127.0.0.1 2"), "{said}");
    assert_eq!(sentinel.as_sentinel().unwrap().replicas, [address(1)]);
    // It says it once.
    sentinel.switch_master(&address(2));
    assert_eq!(listener.read(&mut sentinel), "");
}
