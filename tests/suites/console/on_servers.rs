//! The console over real connections, with its locks on a real server.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use futures_util::future::join_all;
use http::StatusCode;
use leasehold::Locks;
use leasehold_tests::process::{Process, tool};
use leasehold_tests::server::{Server, signal};
use leasehold_tests::waiting::{pass, until};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{app, get, hostile};

const LONG: Duration = Duration::from_secs(60);

/// Serves an app until told to shut down.
pub(super) async fn serve(
    app: Router,
) -> (SocketAddr, oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let serve = axum::serve(listener, app).with_graceful_shutdown(async {
        let _ = stopped.await;
    });
    (address, stop, tokio::spawn(async move { serve.await.unwrap() }))
}

/// Opens a stream, and reads this many events of it.
async fn look(address: SocketAddr, events: usize) -> reqwest::Response {
    let url = format!("http://{address}/locks/lock-events?name=a");
    let mut response = reqwest::get(url).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let mut seen = 0;
    while seen < events {
        let chunk = response.chunk().await.unwrap().expect("it goes on");
        seen += String::from_utf8_lossy(&chunk).matches("event: html").count();
    }
    response
}

#[tokio::test]
async fn names_on_a_server_are_text() {
    let server = Server::start();
    let locks = Locks::builder().service("<b>\u{202e}").connect(&server.url()).await.unwrap();
    hostile::all_pages_are_harmless(&locks).await;
}

/// The doctor's page has what was found, what it means, and what to do.
#[tokio::test]
async fn the_doctor_finds_what_puts_locks_at_risk() {
    let server = Server::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let locks = Locks::connect(&server.url()).await.unwrap();
    let diagnosis = locks.diagnose().await;
    let finding = diagnosis.findings.iter().find(|it| it.check == "eviction").unwrap();
    let page = get(&app(&locks), "/locks/doctor").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.text.contains("Problem: eviction"), "{}", page.text);
    for text in [&finding.found, &finding.meaning, &finding.server] {
        assert!(page.text.contains(&text.replace('\'', "&#39;")), "{text}: {}", page.text);
    }
    assert!(page.text.contains("maxmemory-policy noeviction"), "{}", page.text);
    assert!(page.text.contains("round-trip"), "the facts: {}", page.text);
}

#[tokio::test]
async fn fifty_viewers_cost_as_much_as_one() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let _lease = locks.mutex("a").ttl(LONG).lock().await.unwrap();
    let (address, _stop, _task) = serve(app(&locks)).await;
    let mut costs = Vec::new();
    for viewers in [1, 50] {
        server.forget_stats().await;
        let all = join_all((0..viewers).map(|_| look(address, 4))).await;
        costs.push(server.script_calls().await);
        drop(all);
        // When the last of them has gone, nothing is asked.
        until("the poller ends", async || {
            server.forget_stats().await;
            pass(Duration::from_millis(1_200), "a poller asks every second").await;
            server.script_calls().await == 0
        })
        .await;
    }
    assert!(costs[0] >= 4 && costs[1] <= 2 * costs[0] + 4, "{costs:?}");
}

/// A viewer does not keep the app from shutting down.
#[tokio::test]
async fn an_app_shuts_down_under_a_viewers_eyes() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let (address, stop, task) = serve(app(&locks)).await;
    let mut viewer = look(address, 1).await;
    stop.send(()).unwrap();
    assert_eq!(locks.shutdown().await.left, 0);
    while viewer.chunk().await.unwrap().is_some() {}
    timeout(LONG, task).await.expect("it ends").unwrap();
}

#[tokio::test]
async fn a_dead_server_is_said() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let app = app(&locks);
    assert_eq!(get(&app, "/locks/lock?name=a").await.status, StatusCode::OK);
    server.kill().await;
    for page in ["/locks", "/locks/lock?name=a", "/locks/clients"] {
        let answer = get(&app, page).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{page}");
        assert!(answer.text.contains("Check that the server runs"), "{page}");
    }
    let port = server.port();
    drop(server);
    let _server = Server::start_on(port);
    until("it comes back", async || get(&app, "/locks").await.status == StatusCode::OK).await;
}

/// `leasehold serve` says on each page where it looks, without the password.
#[cfg(unix)]
#[tokio::test]
async fn what_the_tool_serves_names_the_server_and_the_prefix() {
    let server = Server::start();
    let url = format!("redis://:secret@127.0.0.1:{}/3", server.port());
    let mut command = tool();
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    command.env("REDIS_URL", url).env("LEASEHOLD_PREFIX", "billing");
    let mut serve = Process::start(&mut command);
    let address = serve.line().expect("it says its address");
    let text = reqwest::get(format!("{address}doctor")).await.unwrap().text().await.unwrap();
    let named = format!("<bdi>127.0.0.1:{}/3</bdi>", server.port());
    assert!(text.contains(&named) && text.contains("<bdi>billing</bdi>"), "{text}");
    assert!(!text.contains("secret"), "{text}");
    signal("-TERM", &serve.pid());
    assert_eq!(serve.code(), 0);
}

/// The page knows the tool by what the tool calls itself.
#[cfg(unix)]
#[tokio::test]
async fn a_command_under_a_lock_is_shown_with_how_to_end_it() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut command = tool();
    command.args(["run", "nightly", "--", "sleep", "60"]).env("REDIS_URL", server.url());
    let mut run = Process::start(command.env_remove("LEASEHOLD_PREFIX"));
    let ending = format!("kill {pid}; kill -CONT {pid}", pid = run.pid());
    let app = app(&locks);
    until("the page says how to end it", async || {
        get(&app, "/locks/lock?name=nightly").await.text.contains(&ending)
    })
    .await;
    signal("-TERM", &run.pid());
    run.code();
}

/// It is not overdue, and no run begins until the clock is where it was.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_success_in_the_future_is_told() {
    let server = Server::start_skewed();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let minutely = locks.mutex("minutely").once_per(Duration::from_secs(60));
    minutely.lock().await.unwrap().complete().await.unwrap();
    let page = get(&app(&locks), "/locks/jobs").await.text;
    assert!(!page.contains("box warning"), "{page}");
    server.jump_back(Duration::from_secs(3 * 60 * 60));
    let page = get(&app(&locks), "/locks/jobs").await.text;
    assert!(page.contains("1 of 1 had no success for a whole tick, or do not run"), "{page}");
}
