//! Provokes everything that may go wrong with a client, and prints all that a program could log or
//! show. A test searches the output for secrets.
//!
//! Each line is of one kind: `event LEVEL`, `span LEVEL` and `log LEVEL` (the driver's log),
//! `metric`, `client` (the `Debug` of a client), `lock` (the `Debug` of a lock), `error`, and
//! `body` (the response to a refused request).

mod record;

use std::convert::Infallible;
use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use bb8_redis::RedisConnectionManager;
use bb8_redis::bb8::Pool;
use futures_util::future::join_all;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::BodyExt;
use leasehold::layer::key_by;
use leasehold::{LockError, LockKey, LockLayer, Locks, Mutex, QuorumLocks, distributed_lock};
use leasehold_tests::cluster::Cluster;
use leasehold_tests::masters::Masters;
use leasehold_tests::secrets::{KEY, PASSWORD, in_url};
use leasehold_tests::sentinel::Sentinel;
use leasehold_tests::server::{Server, free_port};
use tokio::time::timeout;
use tower::{Layer, ServiceExt};

use self::record::{Metrics, say};
use crate::Failure;

const TTL: Duration = Duration::from_millis(400);

/// Longer than a command of these clients may take.
const MOMENT: Duration = Duration::from_millis(250);

/// A client whose commands time out soon. It has time to connect on a busy machine.
fn impatient() -> leasehold::LocksBuilder {
    Locks::builder()
        .command_timeout(Duration::from_millis(100))
        .connect_timeout(Duration::from_secs(20))
}

/// A client that does not even wait for its connection: for servers that do not exist.
fn hopeless() -> leasehold::LocksBuilder {
    impatient().connect_timeout(Duration::from_millis(200))
}

/// Asks until there is an answer, which may come late on a busy machine.
async fn insist<T, F>(ask: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, LockError>>,
{
    loop {
        if let Some(answer) = heard(ask().await) {
            return answer;
        }
    }
}

/// Prints all that an error shows.
fn error(error: &(dyn std::error::Error + 'static)) {
    let mut next = Some(error);
    while let Some(error) = next {
        say("error", &format!("{error} {error:?} {error:#?}"));
        next = error.source();
    }
}

/// The value of a result. An error is printed.
fn heard<T>(result: Result<T, LockError>) -> Option<T> {
    result.inspect_err(|it| error(it)).ok()
}

fn show(kind: &str, it: &impl Debug) {
    say(kind, &format!("{it:?} {it:#?}"));
}

/// The URL of a server with a login.
fn with(url: &str, password: &str) -> String {
    url.replace("//", &format!("//:{}@", in_url(password)))
}

/// Makes the server require this password of new connections.
async fn protect(server: &Server, password: &str) -> Result<(), Failure> {
    let mut acl = redis::cmd("ACL");
    acl.arg(&["SETUSER", "default", "resetpass", &format!(">{password}")]);
    Ok(acl.exec_async(&mut server.redis().await).await?)
}

/// Runs all scenes at the same time, each on a thread of its own.
pub(super) fn run() -> Result<(), Failure> {
    let metrics = Metrics::install()?;
    thread::scope(|scope| {
        let scenes = [
            scope.spawn(|| play(no_connection())),
            scope.spawn(|| play(one_server(""))),
            scope.spawn(|| play(one_server("?protocol=resp2"))),
            scope.spawn(|| play(replicas_that_are_missing())),
            scope.spawn(|| play(a_pool())),
            scope.spawn(|| play(a_quorum())),
            scope.spawn(|| play(sentinels())),
            scope.spawn(|| play(a_cluster())),
        ];
        for scene in scenes {
            scene.join().expect("a scene does not panic");
        }
    });
    metrics.say();
    Ok(())
}

fn play(scene: impl Future<Output = Result<(), Failure>>) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(scene).expect("a scene to its end");
}

/// All ways in which connecting fails.
async fn no_connection() -> Result<(), Failure> {
    let (secret, port) = (in_url(PASSWORD), free_port());
    let server = Server::start();
    protect(&server, PASSWORD).await?;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let urls = [
        secret.clone(),
        format!("http://user:{secret}@127.0.0.1/"),
        format!("redis://:{secret}@127.0.0.1:port/"),
        format!("redis://:{secret}@127.0.0.1:{port}/none"),
        format!("redis://user:{secret}@127.0.0.1:{port},/"),
        format!("redis://user:{secret}@127.0.0.1:{port}/?protocol={secret}"),
        format!("redis://user:{secret}@127.0.0.1:{port}/?{secret}={secret}"),
        format!("redis://user:{PASSWORD}@127.0.0.1:{port}/"),
        format!("rediss://user:{secret}@127.0.0.1:{}/", server.port()),
        format!("unix:///no/such.sock?user=user&pass={secret}"),
        format!("redis+sentinel://user:{secret}@127.0.0.1/?sentinel_password={secret}"),
        format!("redis+sentinel://user:{secret}@127.0.0.1:{port}/m?sentinel_password={secret}"),
        format!("redis+sentinel://user:{secret}@127.0.0.1:{port}/m?sentinel_passwort={secret}"),
        format!("redis://user:{secret}@127.0.0.1:{port}/"),
        format!("redis://user:{secret}@127.0.0.1:{port},127.0.0.1:{port}/"),
        format!("redis://user:{secret}@127.0.0.1:{}/", server.port()),
        with(&server.url(), &format!("{PASSWORD} that is wrong")),
        server.url(),
        with(&format!("redis://{}/", silent.local_addr()?), PASSWORD),
    ];
    for url in &urls {
        show("client", &hopeless());
        assert!(heard(hopeless().connect(url).await).is_none(), "{url} is no server");
        heard(hopeless().connect_quorum([url; 3]).await);
    }
    let several = urls.last_chunk::<3>().expect("there are more");
    heard(hopeless().connect_quorum(several).await);
    heard(hopeless().connect_quorum_lazy(several));
    let later = urls.iter().filter_map(|url| heard(hopeless().connect_lazy(url)));
    join_all(later.map(|locks| async move {
        heard(locks.mutex(KEY).wait(MOMENT).lock().await);
        show("client", &locks);
    }))
    .await;
    Ok(())
}

/// One server, with faults and without.
async fn one_server(resp: &str) -> Result<(), Failure> {
    let server = Server::start_with(&["--maxmemory-policy", "allkeys-lru"]);
    let mut redis = server.redis().await;
    protect(&server, PASSWORD).await?;
    let url = with(&server.url(), PASSWORD) + resp;
    let (locks, other) = (impatient().connect(&url).await?, impatient().connect(&url).await?);
    show("client", &locks);
    let held = locks.mutex(KEY).ttl(TTL).lock().await?;
    show("lock", &(locks.mutex(KEY), locks.semaphore(KEY, 3), locks.rw_lock(KEY)));
    show("lock", &(&held, held.handle(), locks.all([KEY])));
    for wait in [Duration::ZERO, MOMENT] {
        heard(other.mutex(KEY).wait(wait).lock().await);
        heard(other.all([KEY, "other"]).wait(wait).lock().await);
    }
    heard(other.semaphore(KEY, 3).try_acquire().await);
    layer(&other).await;
    job(&other).await;
    let mutex = other.mutex(KEY);
    for _ in 0..50 {
        // Its command is in flight, or about to be sent.
        let mut asking = pin!(mutex.try_lock());
        let asked = poll_fn(|context| Poll::Ready(asking.as_mut().poll(context))).await;
        show("client", &other);
        if asked.is_pending() {
            heard(asking.await);
        }
    }

    // The lease is lost by force, by a foreign value, and by an expiry.
    show("lock", &insist(|| other.inspect(KEY)).await);
    show("lock", &insist(|| other.force_release(KEY).into_future()).await);
    held.lost().await;
    heard(held.release().await);
    let held = locks.mutex(KEY).ttl(TTL).lock().await?;
    let key = format!("leasehold:lock:{{{KEY}}}");
    redis::cmd("SET").arg(&[&key, "somebody's"]).exec_async(&mut redis).await?;
    held.lost().await;
    heard(other.mutex(KEY).ttl(TTL).lock().await.map(drop));
    let held = locks.mutex(KEY).ttl(Duration::from_secs(1)).lock().await?;
    redis::cmd("CLIENT").arg(&["KILL", "SKIPME", "yes"]).exec_async(&mut redis).await?;
    heard(held.renew().await);

    let frozen = server.freeze().await;
    heard(held.renew().await);
    troubles(&other.mutex(KEY)).await;
    layer(&other).await;
    job(&other).await;
    held.lost().await;
    heard(held.release().await);
    drop(frozen);

    // Requests that timed out may have it for a moment.
    let mutex = locks.mutex(KEY).ttl(Duration::from_secs(30));
    let held = insist(|| mutex.lock()).await;
    server.kill().await;
    heard(held.renew().await);
    troubles(&other.mutex(KEY)).await;
    heard(held.release().await);
    let server = Server::start_on(server.port());
    heard(other.mutex(KEY).lock().await.map(drop));
    // The password is another than before.
    protect(&server, "another").await?;
    let kill = redis::cmd("CLIENT").arg(&["KILL", "SKIPME", "yes"]).clone();
    kill.exec_async(&mut server.redis_as("another").await).await?;
    troubles(&other.mutex(KEY)).await;
    let held = other.mutex(KEY);
    show("client", &tokio::join!(locks.shutdown(), other.shutdown()));
    heard(held.lock().await.map(drop));
    Ok(())
}

/// The errors of a store that does not answer.
async fn troubles(mutex: &Mutex) {
    heard(mutex.clone().try_lock().await.map(drop));
    heard(mutex.clone().wait(MOMENT).lock().await.map(drop));
    let _ = timeout(MOMENT, mutex.clone().lead(async |_| ())).await;
}

/// The key of a request. A plain name would be the label of its locks in logs and metrics.
fn key(_: &Parts) -> Option<LockKey> {
    LockKey::new(KEY).ok()
}

/// A request to a service under the lock.
async fn layer(locks: &Locks) {
    let service = tower::service_fn(|_: Request<()>| async {
        Ok::<_, Infallible>(Response::new(String::new()))
    });
    for layer in [
        LockLayer::mutex(locks, key_by(key)),
        LockLayer::semaphore(locks, key_by(key), 1),
        LockLayer::mutex(locks, key_by(key)).fail_open(),
    ] {
        show("lock", &layer);
        let Ok(answer) = layer.layer(service).oneshot(Request::new(())).await;
        say("body", &format!("{:?}", answer.headers()));
        let Ok(body) = answer.into_body().collect().await;
        say("body", &String::from_utf8_lossy(&body.to_bytes()));
    }
    let none = key_by(|_| Err::<String, _>("no such thing"));
    let layer = LockLayer::mutex(locks, none);
    let Ok(answer) = layer.layer(service).oneshot(Request::new(())).await;
    say("body", &format!("{}", answer.status()));
}

#[distributed_lock(key = KEY, locks = locks, ttl = TTL, wait = MOMENT, if_held = "skip")]
async fn job(locks: &Locks) {}

/// Grants that are cancelled because no replica copies them.
async fn replicas_that_are_missing() -> Result<(), Failure> {
    let server = Server::start();
    protect(&server, PASSWORD).await?;
    let url = with(&server.url(), PASSWORD);
    let locks = impatient().sync_replicas(1, MOMENT).connect(&url).await?;
    show("client", &locks);
    troubles(&locks.mutex(KEY)).await;
    server.kill().await;
    troubles(&locks.mutex(KEY)).await;
    Ok(())
}

/// A user's own pool.
async fn a_pool() -> Result<(), Failure> {
    let server = Server::start();
    protect(&server, PASSWORD).await?;
    let manager = RedisConnectionManager::new(with(&server.url(), PASSWORD))?;
    let pool = Pool::builder().connection_timeout(MOMENT).build(manager).await?;
    let locks = impatient().connect_pool(pool).await?;
    show("client", &locks);
    drop(locks.mutex(KEY).lock().await?);
    let frozen = server.freeze().await;
    troubles(&locks.mutex(KEY)).await;
    drop(frozen);
    server.kill().await;
    troubles(&locks.mutex(KEY)).await;
    let manager = RedisConnectionManager::new(with(&server.url(), PASSWORD))?;
    heard(hopeless().connect_pool(Pool::builder().build_unchecked(manager)).await);
    Ok(())
}

/// Each server has a password of its own.
async fn a_quorum() -> Result<(), Failure> {
    let masters = Masters::start(3);
    let mut urls = Vec::new();
    for (place, server) in masters.nodes().iter().enumerate() {
        let password = format!("{PASSWORD} of {place}");
        protect(server, &password).await?;
        urls.push(with(&server.url(), &password));
    }
    let durable = || impatient().assume_durable(true);
    let young = impatient().connect_quorum(&urls).await?;
    heard(young.mutex(KEY).try_lock().await);
    masters.kill(0).await;
    let (locks, other) = (durable().connect_quorum(&urls).await?, durable());
    let other: QuorumLocks = other.connect_quorum(&urls).await?;
    show("client", &locks);
    let held = locks.mutex(KEY).ttl(TTL).lock().await?;
    show("lock", &held);
    heard(other.mutex(KEY).try_lock().await);
    show("lock", &LockLayer::mutex(&other, KEY));
    let frozen = masters.freeze(1).await;
    heard(held.renew().await);
    troubles(&other.mutex(KEY)).await;
    held.lost().await;
    drop(frozen);
    masters.kill(1).await;
    troubles(&other.mutex(KEY)).await;
    heard(held.release().await);
    heard(durable().connect_quorum(&urls).await);
    show("client", &locks.shutdown().await);
    Ok(())
}

/// A login for the servers, and another for the sentinels.
async fn sentinels() -> Result<(), Failure> {
    let sentinel = Sentinel::start(0, Duration::from_secs(60)).await;
    let (of_servers, of_sentinels) = (PASSWORD, format!("{PASSWORD} of sentinels"));
    for server in sentinel.servers() {
        protect(server, of_servers).await?;
    }
    for each in sentinel.sentinels() {
        protect(each, &of_sentinels).await?;
    }
    let url = |password: &str, of_sentinels: &str| {
        let url = with(&sentinel.url(), password);
        format!("{url}?sentinel_password={}", in_url(of_sentinels))
    };
    let wrong = format!("{PASSWORD} that is wrong");
    heard(impatient().connect(&with(&sentinel.url(), PASSWORD)).await);
    heard(impatient().connect(&url(PASSWORD, &wrong)).await);
    heard(impatient().connect(&url(&wrong, &of_sentinels)).await);
    let locks = impatient().connect(&url(PASSWORD, &of_sentinels)).await?;
    show("client", &locks);
    drop(locks.mutex(KEY).lock().await?);
    sentinel.servers()[0].kill().await;
    troubles(&locks.mutex(KEY)).await;
    for each in sentinel.sentinels() {
        each.kill().await;
    }
    troubles(&locks.mutex(KEY)).await;
    Ok(())
}

/// All nodes share the login.
async fn a_cluster() -> Result<(), Failure> {
    let cluster = Cluster::start().await;
    for node in cluster.nodes() {
        protect(node, PASSWORD).await?;
    }
    let login = |password: &str| cluster.url_as(&format!(":{}@", in_url(password)));
    heard(impatient().connect(&login("wrong")).await);
    let locks = impatient().connect(&login(PASSWORD)).await?;
    show("client", &locks);
    let held = locks.mutex(KEY).ttl(TTL).lock().await?;
    heard(locks.mutex(KEY).try_lock().await);
    // A waiter makes the driver connect, too, which logs by itself.
    heard(locks.mutex(KEY).wait(MOMENT).lock().await);
    let mut frozen = Vec::new();
    for node in cluster.nodes() {
        frozen.push(node.freeze().await);
    }
    troubles(&locks.mutex(KEY)).await;
    held.lost().await;
    drop(frozen);
    for node in cluster.nodes() {
        node.kill().await;
    }
    troubles(&locks.mutex(KEY)).await;
    heard(held.release().await);
    show("client", &locks.shutdown().await);
    Ok(())
}
