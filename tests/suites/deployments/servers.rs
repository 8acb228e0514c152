//! The connections of a client to one server, and the checks of that server's settings.

use leasehold_tests::requests;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use leasehold::store::redis::{QuorumServer, RedisStore, Settings};
use leasehold::store::{Ask, Attempt, ClientId, Kind, Renewal, Request};
use leasehold::{LockError, Locks, Outcome};
use leasehold_tests::cluster::Cluster;
use leasehold_tests::logs::LogRecorder;
use leasehold_tests::server::{Server, free_port};
use leasehold_tests::waiting::{until, until_outlived};
use tokio::runtime::Handle;
use tracing::Level;

use super::CANARY;
use super::errors::run;

fn request(name: &str) -> Request {
    requests::request(name, Kind::Mutex, Duration::from_secs(30))
}

async fn store(url: &str, settings: &Settings) -> RedisStore {
    RedisStore::connect(url, settings, ClientId::random(), Handle::current()).await.unwrap()
}

/// A server of a quorum.
async fn member(url: &str, settings: &Settings) -> QuorumServer {
    let (id, runtime) = (ClientId::random(), Handle::current());
    RedisStore::connect_quorum_server(url, settings, id, runtime).await.unwrap()
}

#[tokio::test]
async fn numbers_and_times_out_of_range_are_refused() {
    let builder = Locks::builder;
    let (ms, minute) = (Duration::from_millis(1), Duration::from_secs(60));
    for (builder, name) in [
        (builder().connections(0), "connections"),
        (builder().connections(17), "connections"),
        (builder().connect_timeout(Duration::ZERO), "connect_timeout"),
        (builder().connect_timeout(minute + ms), "connect_timeout"),
        (builder().command_timeout(32 * ms), "command_timeout"),
        (builder().command_timeout(Duration::MAX), "command_timeout"),
    ] {
        let error = builder.connect("redis://127.0.0.1:1").await.unwrap_err();
        assert!(
            matches!(error, LockError::InvalidOption { option, .. } if option == name),
            "{error}"
        );
    }
}

#[tokio::test]
async fn the_chosen_time_outs_are_used() {
    let server = Server::start();
    let short = Settings { command_timeout: Duration::from_millis(50), ..Settings::default() };
    let long = Settings { command_timeout: Duration::from_secs(1), ..Settings::default() };
    let (short, long) = (store(&server.url(), &short).await, store(&server.url(), &long).await);
    let usual = store(&server.url(), &Settings::default()).await;
    let frozen = server.freeze().await;
    let begun = Instant::now();
    // After a standstill of the machine both time-outs are over, so they are looked at in order.
    tokio::select! {
        biased;
        answer = short.acquire(&request("a"), None) => drop(answer.unwrap_err()),
        _ = usual.acquire(&request("a"), None) => panic!("half a second comes first"),
    }
    long.acquire(&request("a"), None).await.unwrap_err();
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    drop(frozen);

    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let short = Locks::builder().connect_timeout(Duration::from_millis(100));
    tokio::select! {
        biased;
        answer = short.connect(&url) => drop(answer.unwrap_err()),
        _ = Locks::connect(&url) => panic!("a second comes first"),
    }
}

#[tokio::test]
async fn several_connections_share_the_work() {
    let server = Server::start();
    let locks = Locks::builder().connections(4).connect(&server.url()).await.unwrap();
    let mut redis = server.redis().await;
    let list: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut redis).await.unwrap();
    assert_eq!(list.lines().count(), 5, "{list}");
    assert_eq!(list.matches(" sub=2 ").count(), 1, "hints come by one: {list}");

    crate::kinds::every_kind_and_question(&locks).await;
    let several = locks.all(["a", "b", "c", "d", "e"]).lock().await.unwrap();
    locks.all(["x", "c"]).try_lock().await.unwrap_err();
    several.release().await.unwrap();
    let many = (0..64).map(|n| locks.mutex(format!("m:{n}")));
    let many = many.map(|mutex| async move { mutex.lock().await?.release().await });
    try_join_all(many).await.unwrap();
    let list: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut redis).await.unwrap();
    let used = list.lines().filter(|line| line.contains("cmd=eval")).count();
    assert_eq!(used, 4, "{list}");
}

/// Leases that are due together are renewed over the connections of their locks.
#[tokio::test]
async fn leases_of_several_connections_are_renewed() {
    let server = Server::start();
    let locks = Locks::builder().connections(4).connect(&server.url()).await.unwrap();
    let ttl = Duration::from_millis(900);
    let leases = (0..24).map(|n| locks.mutex(format!("m:{n}")).ttl(ttl));
    let leases = leases.map(|mutex| async move { mutex.lock().await });
    let leases = try_join_all(leases).await.unwrap();
    join_all(leases.iter().map(|lease| until_outlived(lease, ttl))).await;
    for lease in leases {
        lease.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_unix_socket_works() {
    let socket = std::env::temp_dir().join(format!("leasehold,{}.sock", free_port()));
    let path = socket.to_str().unwrap();
    let server = Server::start_with(&["--unixsocket", path, "--requirepass", CANARY]);
    for url in [
        format!("unix://{path}?pass={CANARY}&db=3"),
        format!("redis+unix://{path}?user=default&pass={CANARY}&protocol=resp2"),
    ] {
        let locks = Locks::connect(&url).await.unwrap();
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    }
    let error = Locks::connect(&format!("unix://{path}?pass=wrong")).await.unwrap_err();
    super::assert_error_has(&error, &[path, "password in the URL is wrong"]);
    drop(server);
    let _ = std::fs::remove_file(socket);
}

/// The client replaces all of them.
#[tokio::test]
async fn several_broken_connections_are_replaced() {
    let server = Server::start();
    let locks = Locks::builder().connections(3).connect(&server.url()).await.unwrap();
    for _ in 0..3 {
        run(&mut server.redis().await, "CLIENT KILL SKIPME yes").await;
        for n in 0..12 {
            locks.mutex(format!("m:{n}")).lock().await.unwrap().release().await.unwrap();
        }
    }
}

/// The cancel of several locks must not overtake their acquire.
#[tokio::test]
async fn locks_on_several_connections_are_not_one_command() {
    let server = Server::start();
    let all: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h"].map(request).into();
    let one = store(&server.url(), &Settings::default()).await;
    assert!(one.acquire_all(&all, &[]).is_some());
    let several = store(&server.url(), &Settings { connections: 16, ..Settings::default() }).await;
    assert!(several.acquire_all(&all, &[]).is_none());
    assert!(several.acquire_all(&all[..1], &[]).is_some());
}

/// The URL of one node is enough to find the cluster.
#[tokio::test]
async fn a_node_of_a_cluster_leads_to_the_cluster() {
    let cluster = Cluster::start().await;
    let locks = Locks::connect(&cluster.nodes()[1].url()).await.unwrap();
    for name in ["a", "b", "c", "d", "e", "f"] {
        locks.mutex(name).lock().await.unwrap().release().await.unwrap();
    }
    for node in cluster.nodes() {
        assert!(node.script_calls().await > 0, "each node has some");
    }
    let error = Locks::connect(&format!("{}3", cluster.nodes()[0].url())).await.unwrap_err();
    assert!(error.to_string().contains("SELECT"), "{error}");

    let settings = Settings { counts_after: Some(Duration::from_secs(1)), ..Settings::default() };
    for url in [cluster.url(), cluster.nodes()[0].url()] {
        let client = ClientId::random();
        let error = RedisStore::connect(&url, &settings, client, Handle::current()).await;
        let text = error.unwrap_err().to_string();
        assert!(text.contains("no server of a quorum"), "{text}");
    }
}

#[tokio::test]
async fn a_server_that_was_just_started_grants_nothing() {
    let port = free_port();
    let server = Server::start_on(port);
    let counts_after = Some(Duration::from_secs(3));
    let store = store(&server.url(), &Settings { counts_after, ..Settings::default() }).await;
    let is_young = async || {
        let error = store.acquire(&request("a"), None).await.unwrap_err();
        assert_eq!((error.outcome, error.is_passing), (Outcome::NotRun, true), "{error:?}");
        let text = error.source.to_string();
        assert!(text.contains("may have lost locks; it counts after 3s"), "{text}");
    };
    is_young().await;
    let held = request("a");
    // Commands that end or prolong a lease go through.
    assert!(matches!(store.renew(&held).await, Ok(Renewal::NotHeld(_))));
    assert!(!store.cancel(&held).await.unwrap());
    let counts = async |request: &Request| {
        until("it counts", async || match store.acquire(request, None).await {
            Ok(Attempt::Granted { .. }) => true,
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert_eq!(error.outcome, Outcome::NotRun);
                false
            }
        })
        .await;
    };
    let (held, begun) = (request("a"), Instant::now());
    counts(&held).await;
    assert!(begun.elapsed() > Duration::from_millis(1_500), "{:?}", begun.elapsed());

    drop(server);
    let server = Server::start_on(port);
    let begun = Instant::now();
    until("it is there again", async || store.renew(&held).await.is_ok()).await;
    is_young().await;
    counts(&request("a")).await;
    assert!(begun.elapsed() > Duration::from_millis(1_500), "{:?}", begun.elapsed());
    drop(server);
}

/// A client without a quorum does not need the server's age.
#[tokio::test]
async fn a_server_of_unknown_age_grants_nothing_in_a_quorum() {
    let server = Server::start_with(&["--rename-command", "INFO", ""]);
    let counts_after = Some(Duration::from_secs(1));
    let settings = Settings { counts_after, ..Settings::default() };
    let error =
        store(&server.url(), &settings).await.acquire(&request("a"), None).await.unwrap_err();
    assert!(error.source.to_string().contains("+info"), "{error:?}");
    let usual = store(&server.url(), &Settings::default()).await;
    assert!(matches!(usual.acquire(&request("a"), None).await, Ok(Attempt::Granted { .. })));
}

/// The client logs it once, not once for each connection.
#[tokio::test]
async fn a_badly_configured_server_is_logged() {
    let (warnings, _guard) = LogRecorder::start(Level::WARN);
    let server = Server::start_with(&["--maxmemory-policy", "allkeys-lru"]);
    let settings = Settings { connections: 3, ..Settings::default() };
    let client = store(&server.url(), &settings).await;
    let said = warnings.take();
    assert_eq!(said.lines().count(), 1, "{said}");
    for word in ["allkeys-lru", "noeviction", &server.port().to_string()] {
        assert!(said.contains(word), "{said}");
    }
    run(&mut server.redis().await, "CLIENT KILL SKIPME yes").await;
    until("it is connected again", async || client.acquire(&request("a"), None).await.is_ok())
        .await;
    assert!(!warnings.take().contains("put locks at risk"));

    let counts_after = Some(Duration::from_secs(60));
    let quorum = Settings { counts_after, ..Settings::default() };
    member(&server.url(), &quorum).await;
    let said = warnings.take();
    assert!(said.contains("keeps nothing on disk") && said.contains("allkeys-lru"), "{said}");
}

/// The client logs it once, however many hosts the URL names.
#[tokio::test]
async fn a_badly_configured_cluster_is_logged() {
    let cluster = leasehold_tests::cluster::Cluster::start().await;
    for node in cluster.nodes() {
        run(&mut node.redis().await, "CONFIG SET maxmemory-policy allkeys-lru").await;
    }
    let [one, other, ..] = cluster.nodes() else { panic!("there are three") };
    let (warnings, _guard) = LogRecorder::start(Level::WARN);
    for url in [one.url(), format!("redis://127.0.0.1:{},127.0.0.1:{}", one.port(), other.port())] {
        store(&url, &Settings::default()).await;
        let said = warnings.take();
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("allkeys-lru") && said.contains(&one.port().to_string()), "{said}");
    }
}

#[tokio::test]
async fn a_well_configured_or_silent_server_is_not_logged() {
    let (warnings, _guard) = LogRecorder::start(Level::WARN);
    let counts_after = Some(Duration::from_secs(60));
    let quorum = Settings { counts_after, ..Settings::default() };
    let server = Server::start();
    store(&server.url(), &Settings::default()).await;
    let mut redis = server.redis().await;
    run(&mut redis, "CONFIG SET save 3600_1").await;
    member(&server.url(), &quorum).await;

    let silent = Server::start_with(&["--maxmemory-policy", "allkeys-lru"]);
    let mut redis = silent.redis().await;
    run(&mut redis, "ACL SETUSER u on >p ~* &* +@all -info -config").await;
    member(&format!("redis://u:p@127.0.0.1:{}", silent.port()), &quorum).await;
    assert_eq!(warnings.take(), "");
}
