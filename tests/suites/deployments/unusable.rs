//! Servers that can keep no locks, and that `connect` refuses: the error names the cause and the
//! cure.

use std::time::Duration;

use leasehold::Locks;
use leasehold_tests::backend::light_client;
use leasehold_tests::logs::LogRecorder;
use leasehold_tests::server::Server;
use tracing::Level;

use super::errors::run;

/// Connects, which must fail with these words.
async fn is_refused(url: &str, words: &[&str]) {
    let text = Locks::connect(url).await.expect_err("it keeps no locks").to_string();
    for word in words {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }
}

#[tokio::test]
async fn a_replica_is_refused_and_its_master_named() {
    let (master, replica) = (Server::start(), Server::start());
    let of = format!("REPLICAOF 127.0.0.1 {}", master.port());
    run(&mut replica.redis().await, &of).await;
    let address = format!("its master is 127.0.0.1:{}", master.port());
    is_refused(&replica.url(), &["the server is a replica", &address]).await;
    run(&mut replica.redis().await, "REPLICAOF NO ONE").await;
    Locks::connect(&replica.url()).await.unwrap();
}

#[tokio::test]
async fn a_user_without_scripts_is_refused_and_learns_the_right() {
    let server = Server::start();
    let mut redis = server.redis().await;
    for missing in ["evalsha", "eval"] {
        run(&mut redis, &format!("ACL SETUSER some on >pw ~* &* +@all -{missing}")).await;
        let name = missing.to_uppercase();
        let refused = format!("{name} is refused");
        let words = [&*refused, "may not run", "`ACL SETUSER some +evalsha +eval`"];
        is_refused(&server.url_as("some:pw@"), &words).await;
    }
}

#[tokio::test]
async fn a_server_without_scripts_is_refused() {
    for renamed in ["EVALSHA", "EVAL"] {
        let server = Server::start_with(&["--rename-command", renamed, ""]);
        let words = ["runs none", &format!("it has no command {renamed}"), "rename-command"];
        is_refused(&server.url(), &words).await;
    }
}

/// A client that is there when its server becomes a replica has one line for it, however many
/// connections it tries.
#[tokio::test]
async fn a_replica_is_one_line_in_the_log() {
    let server = Server::start();
    let locks = light_client(&server).await;
    let mut redis = server.redis().await;
    run(&mut redis, "REPLICAOF 127.0.0.1 1").await;
    let (log, _guard) = LogRecorder::start(Level::WARN);
    let mutex = locks.mutex("a").wait(Duration::from_millis(1500));
    mutex.lock().await.unwrap_err();
    mutex.lock().await.unwrap_err();
    let text = log.text();
    let count = text.matches("the connection to the lock store failed").count();
    assert_eq!(count, 1, "{text}");
    run(&mut redis, "REPLICAOF NO ONE").await;
    mutex.lock().await.unwrap().release().await.unwrap();
}
