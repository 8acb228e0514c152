//! TLS with one server, and with servers that name others. A process reads its trusted authorities
//! from its environment, and installs its cryptography once. So another process is the client.

use std::process::Command;
use std::time::Duration;

use leasehold::Locks;
use leasehold_tests::cluster::Cluster;
use leasehold_tests::process::Process;
use leasehold_tests::sentinel::Sentinel;
use leasehold_tests::server::Server;
use leasehold_tests::tls::{Tls, Wire, authority};

/// No server is declared dead because the machine is busy.
const LONG: Duration = Duration::from_secs(60);

/// Checks that a process that trusts the servers can hold each kind of lock there, and that it can
/// still install its own cryptography.
fn assert_each_is_handed_over(url: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
    command.args([url, "each"]).env("SSL_CERT_FILE", authority()).env_remove("SSL_CERT_DIR");
    let said = Process::start(&mut command).rest();
    assert_eq!(said, ["each was handed over"], "{url}");
}

/// Checks that clients got hints.
async fn assert_hints_came(servers: &[Server], subscribe: &str) {
    let mut count = 0;
    for server in servers {
        count += server.stats(subscribe).await.0;
    }
    assert!(count > 0, "nobody has subscribed");
}

#[test]
fn one_server_works_over_tls() {
    let server = Tls::start();
    assert_each_is_handed_over(&server.url());
    assert_each_is_handed_over(&server.url().replace("127.0.0.1", "localhost"));
}

#[tokio::test]
async fn a_cluster_works_over_tls() {
    let cluster = Cluster::start_by(Wire::Tls, 0, Duration::from_secs(15)).await;
    let url = cluster.url();
    assert_each_is_handed_over(&url);
    assert_hints_came(cluster.nodes(), "ssubscribe").await;
    // The client recognises the cluster by one node.
    let (one, _) = url.split_once(',').expect("several");
    assert_each_is_handed_over(one);
}

#[tokio::test]
async fn sentinels_and_their_master_work_over_tls() {
    let sentinel = Sentinel::start_by(Wire::Tls, 1, LONG).await;
    assert_each_is_handed_over(&sentinel.url());
    assert_hints_came(sentinel.servers(), "subscribe").await;
}

/// Hints come over a connection of their own.
#[tokio::test]
async fn resp2_works_over_tls() {
    let sentinel = Sentinel::start_by(Wire::Tls, 0, LONG).await;
    assert_each_is_handed_over(&format!("{}?protocol=resp2", sentinel.url()));
    assert_hints_came(sentinel.servers(), "subscribe").await;
}

/// The scheme of the URL is that of the other sort of server. Both errors name the right one.
#[tokio::test]
async fn a_scheme_that_does_not_fit_the_server_is_named() {
    let (plain, tls) = (Server::start(), Tls::start());
    for (url, word) in [
        (plain.url().replace("redis://", "rediss://"), "write redis://"),
        (tls.url().replace("rediss://", "redis://"), "rediss://"),
    ] {
        let error = Locks::connect(&url).await.unwrap_err();
        super::assert_error_has(&error, &["127.0.0.1:", word]);
        // A client that connects later says the same.
        let lazy = Locks::connect_lazy(&url).unwrap();
        let mutex = lazy.mutex("a").wait(Duration::from_secs(5));
        super::assert_error_has(&mutex.lock().await.unwrap_err(), &[word]);
    }
}
