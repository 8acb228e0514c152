//! Servers that can't be asked: that is a finding, too, and comes in bounded time.

use std::time::Duration;

use leasehold::Locks;
use leasehold::Severity::Problem;
use leasehold_tests::server::{Server, free_port};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::server::{SOON, good, good_with, run, until};
use super::{nothing, only};

const CANARY: &str = "canary-password";

/// Diagnoses by a client that has never connected.
async fn lazily(url: &str, check: &str) -> leasehold::Finding {
    let locks = Locks::connect_lazy(url).unwrap();
    let diagnosis = timeout(SOON, locks.diagnose()).await.expect("it is bounded");
    assert!(!format!("{diagnosis:?}").contains(CANARY), "{diagnosis:#?}");
    assert!(diagnosis.facts.is_empty(), "{diagnosis:#?}");
    only(&diagnosis, check, Problem)
}

#[tokio::test]
async fn a_server_that_is_down_is_found() {
    let (port, server) = (free_port(), good());
    let finding = lazily(&format!("redis://:{CANARY}@127.0.0.1:{port}"), "unreachable").await;
    assert_eq!(finding.server, format!("127.0.0.1:{port}"));
    assert!(finding.remedy.contains("Is the server running"), "{finding:#?}");

    let locks = Locks::connect(&server.url()).await.unwrap();
    nothing(&locks.diagnose().await);
    let port = server.port();
    server.kill().await;
    let finding = only(&locks.diagnose().await, "unreachable", Problem);
    assert_eq!(finding.server, format!("127.0.0.1:{port}"));
    drop(server);
    let again = Server::start_on_with(port, &["--appendonly", "yes"]);
    nothing(&until(&locks, 0).await);
    drop(again);
}

#[tokio::test]
async fn a_wrong_password_is_found() {
    let server = good_with(&["--requirepass", "right"]);
    for login in [format!(":{CANARY}@"), format!("app:{CANARY}@"), String::new()] {
        let finding = lazily(&server.url_as(&login), "login").await;
        assert!(finding.remedy.contains("password"), "{finding:#?}");
    }
}

/// It neither answers nor closes.
#[tokio::test]
async fn a_frozen_server_is_found_in_bounded_time() {
    let server = good();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let frozen = server.freeze().await;
    let diagnosis = timeout(SOON, locks.diagnose()).await.expect("it is bounded");
    only(&diagnosis, "unreachable", Problem);
    // By now the connection was given up, and no other can be made.
    let diagnosis = timeout(SOON, locks.diagnose()).await.expect("it is bounded");
    only(&diagnosis, "unreachable", Problem);
    lazily(&server.url(), "unreachable").await;
    drop(frozen);
    nothing(&until(&locks, 0).await);
}

#[tokio::test]
async fn something_else_than_redis_is_found() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut asked = [0; 1024];
            let _ = client.read(&mut asked).await;
            let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n<p>no</p>\r\n").await;
        }
    });
    lazily(&format!("redis://{address}"), "not-redis").await;
}

/// One server of three is down: its finding stands beside the facts of the others.
#[tokio::test]
async fn a_server_of_a_quorum_that_is_down_is_found() {
    let servers = [good(), good(), good()];
    let urls = servers.iter().map(Server::url);
    let builder = Locks::builder().longest_ttl(Duration::from_secs(1));
    let locks = builder.connect_quorum(urls).await.unwrap();
    servers[1].kill().await;
    let diagnosis = locks.diagnose().await;
    let finding = only(&diagnosis, "unreachable", Problem);
    assert_eq!(finding.server, format!("127.0.0.1:{}", servers[1].port()));
    assert!(diagnosis.facts.iter().any(|it| it.server.ends_with(&servers[2].port().to_string())));
}

/// Nobody can reach the client's command in a frozen loop: all commands are paused.
#[tokio::test]
async fn a_server_whose_clients_are_all_paused_is_found() {
    let server = good();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut redis = server.redis().await;
    run(&mut redis, "CLIENT PAUSE 2000 ALL").await;
    only(&locks.diagnose().await, "unreachable", Problem);
    nothing(&until(&locks, 0).await);
}
