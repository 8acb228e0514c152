//! A client that starts before its server.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use leasehold::store::ClientId;
use leasehold::store::redis::{RedisStore, Settings};
use leasehold::{Lease, LockError, LockLayer, Locks, Outcome, QuorumLocks, Step, Wait};
use leasehold_tests::cluster::Cluster;
use leasehold_tests::logs::LogRecorder;
use leasehold_tests::sentinel::{NAME, Sentinel};
use leasehold_tests::server::{Server, free_port};
use leasehold_tests::waiting::{OwnTime, until};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, timeout};
use tower::{Layer, ServiceExt, service_fn};
use tracing::Level;

use super::errors::run;
use super::{CANARY, assert_error_has, assert_no_secret};

/// Much longer than anything here takes.
const SOON: Duration = Duration::from_secs(60);

fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}/")
}

/// Starts to wait for a mutex, and checks that it still waits when a later try has been refused.
async fn waits(locks: &Locks, name: &'static str) -> JoinHandle<Lease> {
    let mutex = locks.mutex(name).wait(Wait::Forever);
    let waiting = tokio::spawn(async move { mutex.lock().await.expect("it is served") });
    tokio::task::yield_now().await;
    assert!(locks.mutex("tried").try_lock().await.is_err(), "there is no server");
    assert!(!waiting.is_finished(), "there is no server");
    waiting
}

async fn granted(waiting: JoinHandle<Lease>) -> Lease {
    timeout(SOON, waiting).await.expect("it is granted").unwrap()
}

/// A port that leads to a server once the test opens it.
struct Gate(AbortHandle);

impl Gate {
    async fn open(port: u16, upstream: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let serving = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(("127.0.0.1", upstream)).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Self(serving.abort_handle())
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[tokio::test]
async fn waiters_are_served_once_the_server_is_there() {
    let port = free_port();
    let locks = Locks::connect_lazy(&url(port)).unwrap();
    let (first, second) = (waits(&locks, "a").await, waits(&locks, "b").await);
    let server = Server::start_on(port);
    granted(first).await.release().await.unwrap();
    let held = granted(second).await;
    // The client's record of itself, all kinds of locks, and several locks at once work.
    let told = locks.inspect("b").await.unwrap();
    assert!(told.holders[0].client.is_some(), "{told:?}");
    crate::kinds::every_kind_and_question(&locks).await;
    locks.all(["x", "y"]).lock().await.unwrap().release().await.unwrap();
    held.release().await.unwrap();
    drop(server);
}

/// Two clients are older than the server, and one waits for the other.
#[tokio::test]
async fn a_client_older_than_its_server_gets_hints() {
    for connections in [1, 4] {
        let port = free_port();
        let client = || Locks::builder().connections(connections).connect_lazy(&url(port));
        let clients = [client().unwrap(), client().unwrap()];
        let (mut one, mut two) = (waits(&clients[0], "a").await, waits(&clients[1], "a").await);
        let server = Server::start_on(port);
        let (held, other) = tokio::select! {
            held = &mut one => (held.unwrap(), two),
            held = &mut two => (held.unwrap(), one),
        };
        let mut redis = server.redis().await;
        let count = redis::cmd("ZCARD").arg("leasehold:queue:{a}").clone();
        until("it waits in the queue", async || {
            count.query_async::<u32>(&mut redis).await.unwrap() > 0
        })
        .await;
        // If hints started late, the waiter asks often until then.
        until("both get hints", async || clients.iter().all(Locks::gives_hints)).await;
        let time = OwnTime::begin();
        held.release().await.unwrap();
        granted(other).await.release().await.unwrap();
        // Without hints it would ask again after two seconds.
        assert!(time.passed() < Duration::from_secs(1), "{:?}", time.passed());
    }
}

#[tokio::test]
async fn a_try_fails_in_about_a_second() {
    let port = free_port();
    let locks = Locks::connect_lazy(&url(port)).unwrap();
    let (begun, time) = (Instant::now(), OwnTime::begin());
    let error = timeout(SOON, locks.mutex("order:42").try_lock()).await.unwrap().unwrap_err();
    assert!(begun.elapsed() > Duration::from_millis(900), "{:?}", begun.elapsed());
    assert!(time.passed() < Duration::from_secs(5), "{:?}", time.passed());
    let is_it =
        matches!(error, LockError::Store { step: Step::Acquire, outcome: Outcome::NotRun, .. });
    assert!(is_it, "{error:?}");
    assert_error_has(&error, &["`order:42`", "is the server running"]);
    // The layer reports a store failure as well.
    let ask = async |layer: LockLayer<&'static str>| {
        let service = layer.layer(service_fn(async |_: Request<()>| {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("done"))))
        }));
        service.oneshot(Request::new(())).await.unwrap().status()
    };
    let layer = || LockLayer::mutex(&locks, "a");
    assert_eq!(ask(layer()).await, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ask(layer().fail_open()).await, StatusCode::OK);
    // A campaign waits.
    let leading = locks.lead("leader", async |_| 42);
    tokio::pin!(leading);
    assert!(timeout(Duration::from_millis(1500), &mut leading).await.is_err());
    let _server = Server::start_on(port);
    assert_eq!(timeout(SOON, leading).await.unwrap().unwrap(), 42);
}

#[tokio::test]
async fn invalid_settings_are_refused_at_once() {
    for url in ["", "localhost", "http://u:canary-password@host/", "redis://h:x/"] {
        let error = Locks::connect_lazy(url).unwrap_err();
        assert!(matches!(error, LockError::InvalidOption { option: "url", .. }), "{error}");
        assert_no_secret(&error);
    }
    let lazy =
        |builder: leasehold::LocksBuilder| builder.connect_lazy("redis://h/,i/").unwrap_err();
    assert!(matches!(
        lazy(Locks::builder().prefix("{")),
        LockError::InvalidOption { option: "prefix", .. }
    ));
    let one = Duration::from_secs(1);
    let error = Locks::builder().sync_replicas(1, one).connect_lazy("redis://h,i/").unwrap_err();
    assert!(matches!(error, LockError::InvalidOption { option: "sync_replicas", .. }), "{error}");
    let quorum = |urls: &[&str]| Locks::builder().connect_quorum_lazy(urls).unwrap_err();
    for urls in [&["redis://a", "redis://b"][..], &["redis://a", "redis://b", "redis://a"]] {
        let error = quorum(urls);
        assert!(matches!(error, LockError::InvalidOption { option: "servers", .. }), "{error}");
    }
    for other in ["redis://b,c", "redis+sentinel://b/m", "b"] {
        let error = quorum(&["redis://a", other, "redis://d"]);
        assert!(matches!(error, LockError::InvalidOption { option: "url", .. }), "{error}");
    }
}

/// The logged lines with this word.
fn lines(log: &LogRecorder, word: &str) -> Vec<String> {
    let text = log.text();
    assert!(!text.contains(CANARY), "{text}");
    text.lines().filter(|line| line.contains(word)).map(str::to_owned).collect()
}

/// A client on the test's runtime, whose log the test records.
fn client(url: &str) -> Locks {
    let (id, settings) = (ClientId::random(), Settings::default());
    let store = RedisStore::connect_lazy(url, &settings, id, Handle::current()).unwrap();
    Locks::over_as(Arc::new(store), id)
}

#[tokio::test]
async fn the_log_reports_the_missing_server_once_and_its_return_once() {
    let (log, _guard) = LogRecorder::start(Level::INFO);
    let port = free_port();
    let locks = client(&format!("redis://:{CANARY}@127.0.0.1:{port}/"));
    for _ in 0..2 {
        locks.mutex("a").try_lock().await.unwrap_err();
    }
    let server = Server::start_on_with(port, &["--requirepass", CANARY]);
    locks.mutex("a").wait(SOON).lock().await.unwrap().release().await.unwrap();
    drop(server);
    locks.mutex("a").try_lock().await.unwrap_err();
    let waits = lines(&log, "not connected to the lock store yet");
    assert_eq!(waits.len(), 1, "{waits:?}");
    for word in ["WARN", &port.to_string(), "is the server running"] {
        assert!(waits[0].contains(word), "{waits:?}");
    }
    let there = lines(&log, ": connected to the lock store");
    assert_eq!(there.len(), 1, "{there:?}");
    assert!(there[0].contains("INFO") && there[0].contains(&port.to_string()), "{there:?}");
}

#[tokio::test]
async fn a_wrong_password_is_reported_and_can_be_corrected() {
    let (log, _guard) = LogRecorder::start(Level::INFO);
    let port = free_port();
    let locks = client(&format!("redis://:{CANARY}@127.0.0.1:{port}/"));
    locks.mutex("a").try_lock().await.unwrap_err();
    let server = Server::start_on_with(port, &["--requirepass", "another"]);
    let error = timeout(SOON, async {
        loop {
            let error = locks.mutex("a").wait(SOON).lock().await.unwrap_err();
            if error.to_string().contains("password in the URL is wrong") {
                return error;
            }
        }
    });
    let error = error.await.expect("it is told, and not waited for");
    assert!(matches!(error, LockError::Store { outcome: Outcome::NotRun, .. }), "{error:?}");
    assert_no_secret(&error);
    let waits = lines(&log, "not connected to the lock store yet");
    assert_eq!(waits.len(), 2, "away, and then refused: {waits:?}");
    assert!(waits[1].contains("password in the URL is wrong"), "{waits:?}");
    run(&mut server.redis_as("another").await, &format!("CONFIG SET requirepass {CANARY}")).await;
    until("the password is right now", async || locks.mutex("a").try_lock().await.is_ok()).await;
}

#[tokio::test]
async fn sentinels_may_come_later() {
    let port = free_port();
    let locks = Locks::connect_lazy(&format!("redis+sentinel://127.0.0.1:{port}/{NAME}")).unwrap();
    let waiting = waits(&locks, "a").await;
    let sentinel = Sentinel::start(0, Duration::from_secs(5)).await;
    let _gate = Gate::open(port, sentinel.sentinels()[0].port()).await;
    granted(waiting).await.release().await.unwrap();
}

/// The URL names several nodes, or one that turns out to be a node of a cluster.
#[tokio::test]
async fn a_cluster_may_come_later() {
    let ports = [free_port(), free_port()];
    let several = format!("redis://127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1]);
    let clients = [several, url(ports[0])].map(|url| Locks::connect_lazy(&url).unwrap());
    let mut early = Vec::new();
    for (locks, name) in clients.iter().zip(["a", "b"]) {
        early.push(waits(locks, name).await);
    }
    let cluster = Cluster::start().await;
    let _gate = Gate::open(ports[0], cluster.nodes()[0].port()).await;
    for waiting in early {
        granted(waiting).await.release().await.unwrap();
    }
    for locks in clients {
        for name in ["c", "d", "e", "f"] {
            let held = locks.mutex(name).lock().await.unwrap();
            let next = locks.mutex(name).wait(SOON);
            let next = tokio::spawn(async move { next.lock().await.unwrap() });
            until("it waits", async || locks.inspect(name).await.unwrap().waiting > 0).await;
            held.release().await.unwrap();
            granted(next).await.release().await.unwrap();
        }
    }
    // The client learns only now that this is a cluster.
    let sync = Locks::builder().sync_replicas(1, Duration::from_secs(1));
    let sync = sync.connect_lazy(&url(ports[0])).unwrap();
    let error = sync.mutex("a").wait(SOON).lock().await.unwrap_err();
    assert_error_has(&error, &["sync_replicas", "on a cluster"]);
}

#[tokio::test]
async fn a_quorum_may_come_later() {
    let ports = [free_port(), free_port(), free_port()];
    let builder = Locks::builder().assume_durable(true);
    let locks: QuorumLocks = builder.connect_quorum_lazy(ports.map(url)).unwrap();
    let error = locks.mutex("a").try_lock().await.unwrap_err();
    assert!(error.is_store_failure(), "{error:?}");
    let mutex = locks.mutex("a").wait(Wait::Forever);
    let waiting = tokio::spawn(async move { mutex.lock().await.unwrap() });
    let first = Server::start_on(ports[0]);
    let no_majority = async {
        loop {
            match locks.mutex("b").try_lock().await.unwrap_err() {
                LockError::Quorum { cause, .. } => return cause,
                error => assert!(matches!(error, LockError::Store { .. }), "{error:?}"),
            }
        }
    };
    let cause = timeout(SOON, no_majority).await.expect("each is told of");
    assert_eq!(cause.answers().len(), 3);
    assert!(!waiting.is_finished());
    let _second = Server::start_on(ports[1]);
    let lease = granted(waiting).await;
    assert!(lease.fence().is_ok());
    lease.release().await.unwrap();
    drop(first);
}
