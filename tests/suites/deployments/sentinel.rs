//! The sentinels decide which server is the master. The servers here are real. The sentinels are
//! the test's: they answer as the test says, or not at all.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{LockError, Locks, Step, Wait};
use leasehold_tests::sentinel::until_linked;
use leasehold_tests::server::{Server, free_port};
use leasehold_tests::waiting::{OwnTime, until, until_outlived};
use redis::aio::MultiplexedConnection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::errors::run;
use super::{CANARY, assert_error_has};

/// Much longer than anything here takes.
const SOON: Duration = Duration::from_secs(60);

/// A sentinel's answer to a request for the master.
#[derive(Clone, Copy, Debug)]
enum Says {
    Port(u16),
    Unknown,
    /// It asks for a login.
    Who,
    /// It never answers.
    Silence,
}

struct Sentinel {
    port: u16,
    says: Arc<Mutex<Says>>,
    asked: Arc<AtomicU32>,
    serving: AbortHandle,
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Sentinel {
    async fn start(says: Says) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (says, asked) = (Arc::new(Mutex::new(says)), Arc::<AtomicU32>::default());
        let (said, asks) = (says.clone(), asked.clone());
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, said.clone(), asks.clone()));
            }
        });
        Self { port, says, asked, serving: serving.abort_handle() }
    }

    /// How often it was asked for the master.
    fn asked(&self) -> u32 {
        self.asked.load(Ordering::Relaxed)
    }

    fn say(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }
}

/// Answers each command. Commands that set up the connection succeed.
async fn serve(mut stream: TcpStream, says: Arc<Mutex<Says>>, asked: Arc<AtomicU32>) {
    let (mut text, mut chunk) = (String::new(), [0; 1024]);
    while let Ok(read @ 1..) = stream.read(&mut chunk).await {
        text.push_str(std::str::from_utf8(&chunk[..read]).unwrap());
        // Each command is whole when its last word is: they are short, and none is cut.
        let mut answers = Vec::new();
        for command in text.split('*').skip(1) {
            let says = *says.lock().unwrap();
            asked.fetch_add(u32::from(command.contains("GET-MASTER-ADDR")), Ordering::Relaxed);
            answers.push(match says {
                Says::Silence => String::new(),
                Says::Who => "-NOAUTH Authentication required.\r\n".to_owned(),
                _ if !command.contains("GET-MASTER-ADDR-BY-NAME") => "+OK\r\n".to_owned(),
                Says::Unknown => "*-1\r\n".to_owned(),
                Says::Port(port) => {
                    let port = port.to_string();
                    format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len())
                }
            });
        }
        text.clear();
        if stream.write_all(answers.concat().as_bytes()).await.is_err() {
            return;
        }
    }
}

fn url(sentinels: &[Sentinel]) -> String {
    let hosts = sentinels.iter().map(|it| format!("127.0.0.1:{}", it.port));
    format!("redis+sentinel://{}/main", hosts.collect::<Vec<_>>().join(","))
}

async fn sentinels<const N: usize>(says: [Says; N]) -> [Sentinel; N] {
    let started = futures_util::future::join_all(says.map(Sentinel::start)).await;
    started.try_into().unwrap_or_else(|_| unreachable!())
}

/// A master, and a replica that has its data.
pub(super) async fn pair() -> [Server; 2] {
    // Without the delay the replica gets its copy at once.
    let [master, replica] =
        [(); 2].map(|()| Server::start_with(&["--repl-diskless-sync-delay", "0"]));
    let mut redis = replica.redis().await;
    run(&mut redis, &format!("REPLICAOF 127.0.0.1 {}", master.port())).await;
    until_linked(&replica).await;
    until_copied(&mut master.redis().await).await;
    [master, replica]
}

/// Waits until a replica has its master's data. A linked replica may still wait for it.
async fn until_copied(master: &mut MultiplexedConnection) {
    // WAIT covers the writes of its own connection and all earlier ones.
    run(master, "SET x 1").await;
    let wait = redis::cmd("WAIT").arg(&[1, 100]).clone();
    until("it follows", async || wait.query_async::<u32>(master).await.unwrap() > 0).await;
}

/// Makes `to` the master in place of `from`. The sentinels then name it.
async fn fail_over(from: &Server, to: &Server, sentinels: &[Sentinel]) {
    let mut redis = from.redis().await;
    until_copied(&mut redis).await;
    run(&mut to.redis().await, "REPLICAOF NO ONE").await;
    run(&mut redis, &format!("REPLICAOF 127.0.0.1 {}", to.port())).await;
    for sentinel in sentinels {
        sentinel.say(Says::Port(to.port()));
    }
}

#[tokio::test]
async fn a_lease_survives_a_failover() {
    for resp in ["", "?protocol=resp2"] {
        let [first, second] = pair().await;
        let sentinels = sentinels([Says::Port(first.port()); 3]).await;
        let url = url(&sentinels) + resp;
        let (locks, other) =
            (Locks::connect(&url).await.unwrap(), Locks::connect(&url).await.unwrap());
        let ttl = Duration::from_secs(3);
        let lease = locks.mutex("a").ttl(ttl).lock().await.unwrap();
        fail_over(&first, &second, &sentinels).await;
        // It is renewed at the new master, and the other one finds that when it asks.
        until_outlived(&lease, ttl).await;
        other.mutex("another").lock().await.unwrap().release().await.unwrap();
        let mut redis = second.redis().await;
        let list = redis::cmd("CLIENT").arg(&["LIST", "TYPE", "pubsub"]).to_owned();
        until("hints come from the new master to both", async || {
            let told: String = list.query_async(&mut redis).await.unwrap();
            told.lines().filter(|line| line.contains("flags=P")).count() == 2
        })
        .await;

        // Waiters get hints from the new master, far sooner than they would ask again.
        let mut waits = Vec::new();
        let mut lease = lease;
        for _ in 0..5 {
            let mutex = other.mutex("a").wait(Wait::Forever);
            let waiting = tokio::spawn(async move { mutex.lock().await });
            until("it waits", async || locks.inspect("a").await.unwrap().waiting > 0).await;
            let time = OwnTime::begin();
            lease.release().await.unwrap();
            let next = timeout(SOON, waiting).await.expect("it is served").unwrap().unwrap();
            waits.push(time.passed());
            next.release().await.unwrap();
            lease = locks.mutex("a").lock().await.unwrap();
        }
        waits.sort_unstable();
        assert!(waits[2] < Duration::from_millis(300), "{resp} {waits:?}");
        assert_eq!(second.stats("client|kill").await.0, 0, "nobody there is to be ended");
    }
}

#[tokio::test]
async fn a_master_that_died_is_replaced() {
    let [first, second] = pair().await;
    let sentinels = sentinels([Says::Port(first.port()); 3]).await;
    let locks = Locks::connect(&url(&sentinels)).await.unwrap();
    locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    drop(first);
    run(&mut second.redis().await, "REPLICAOF NO ONE").await;
    let waiting = tokio::spawn({
        let mutex = locks.mutex("a").wait(SOON);
        async move { mutex.lock().await }
    });
    let asked = || sentinels.iter().map(Sentinel::asked).min();
    let before = asked();
    until("it asks the sentinels again", async || asked() > before).await;
    for sentinel in &sentinels {
        sentinel.say(Says::Port(second.port()));
    }
    timeout(SOON, waiting).await.unwrap().unwrap().unwrap().release().await.unwrap();
}

/// The client does not wait for a silent sentinel while most answer.
#[tokio::test]
async fn a_dead_sentinel_costs_little() {
    let server = Server::start();
    let [dead, ..] = sentinels([Says::Silence]).await;
    let [one, two] = sentinels([Says::Port(server.port()); 2]).await;
    let mut all = [dead, one, two];
    // A third of it is for asking sentinels.
    let limit = Duration::from_secs(5);
    let connect =
        async |url: String| Locks::builder().connect_timeout(limit).connect(&url).await.unwrap();
    let time = OwnTime::begin();
    let locks = connect(url(&all)).await;
    assert!(time.passed() < limit / 3, "{:?}", time.passed());
    locks.mutex("a").lock().await.unwrap().release().await.unwrap();

    // Most sentinels are dead, and one is silent. The client believes the one that is left.
    let gone = free_port();
    all[2].port = gone;
    let time = OwnTime::begin();
    connect(url(&all)).await;
    assert!(time.passed() < limit / 2, "{:?}", time.passed());
}

/// A sentinel that was cut off may be the first to answer.
#[tokio::test]
async fn the_majority_of_sentinels_decides() {
    let [master, was] = [Server::start(), Server::start()];
    let [one, two, three] =
        sentinels([Says::Port(was.port()), Says::Port(master.port()), Says::Port(master.port())])
            .await;
    for _ in 0..10 {
        Locks::connect(&url(&[one_of(&one), one_of(&two), one_of(&three)])).await.unwrap();
    }
    assert_eq!(was.stats("subscribe").await.0, 0);
    assert_eq!(master.stats("subscribe").await.0, 10);
}

fn one_of(sentinel: &Sentinel) -> Sentinel {
    let nothing = tokio::spawn(async {}).abort_handle();
    let (says, asked) = (sentinel.says.clone(), sentinel.asked.clone());
    Sentinel { port: sentinel.port, says, asked, serving: nothing }
}

#[tokio::test]
async fn a_replica_that_is_named_is_refused() {
    let [_master, replica] = pair().await;
    let sentinels = sentinels([Says::Port(replica.port()); 3]).await;
    let error = Locks::connect(&url(&sentinels)).await.unwrap_err();
    assert!(matches!(error, LockError::Store { step: Step::Connect, .. }), "{error}");
    assert_error_has(
        &error,
        &["main of the sentinels", "is a replica", &replica.port().to_string()],
    );
}

#[tokio::test]
async fn a_name_unknown_to_all_sentinels_is_reported() {
    let all = sentinels([Says::Unknown]).await;
    let error = Locks::connect(&url(&all)).await.unwrap_err();
    assert_error_has(&error, &["knows no master of this name", &all[0].port.to_string()]);

    let port = free_port();
    let login = format!("user:{CANARY}@");
    let url = format!("redis+sentinel://{login}127.0.0.1:{port}/main?sentinel_password={CANARY}");
    let error = Locks::connect(&url).await.unwrap_err();
    assert_error_has(&error, &["no sentinel names a master", &port.to_string()]);
}

/// The URL's login is for the servers. Sentinels have their own login.
#[tokio::test]
async fn sentinels_have_a_password_of_their_own() {
    let server = Server::start_with(&["--requirepass", CANARY]);
    let port = server.port();
    let refusing = sentinels([Says::Who]).await;
    let error = Locks::connect(&url(&refusing)).await.unwrap_err();
    assert_error_has(&error, &["option sentinel_password"]);
    let sentinels = sentinels([Says::Port(port)]).await;
    let url = url(&sentinels).replace("//", &format!("//:{CANARY}@"));
    let locks = Locks::connect(&format!("{url}?sentinel_password=other")).await.unwrap();
    locks.mutex("a").lock().await.unwrap().release().await.unwrap();
}
