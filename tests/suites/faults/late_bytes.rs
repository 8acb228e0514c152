//! Bytes of an abandoned connection arrive when its successor is at work.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::Locks;
use leasehold_tests::polls::drop_after;
use leasehold_tests::sentinel::until_linked;
use leasehold_tests::server::Server;
use redis::aio::MultiplexedConnection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, sleep};

/// A network that holds back what is sent on the connections that are there, and lets
/// new ones through.
struct Network {
    port: u16,
    /// Connections up to this one are held back, if any are.
    held: watch::Sender<Option<usize>>,
    connections: watch::Receiver<usize>,
}

impl Network {
    async fn to(server: &Server) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (held, is_held) = watch::channel(None);
        let (count, connections) = watch::channel(0);
        let upstream = server.port();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let number = *count.borrow() + 1;
                count.send_replace(number);
                let server = TcpStream::connect(("127.0.0.1", upstream)).await.unwrap();
                tokio::spawn(forward(client, server, number, is_held.clone()));
            }
        });
        Self { port, held, connections }
    }

    fn hold_back(&self) {
        self.held.send_replace(Some(*self.connections.borrow()));
    }

    fn deliver(&self) {
        self.held.send_replace(None);
    }
}

/// To the server whatever the client sent, though it has gone since.
async fn forward(
    client: TcpStream,
    server: TcpStream,
    number: usize,
    mut held: watch::Receiver<Option<usize>>,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::spawn(async move {
        let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
    });
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
        let _ = held.wait_for(|held| held.is_none_or(|last| number > last)).await;
        if to_server.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
    // Its answers are for nobody, but the server must not see the end before the bytes.
    sleep(Duration::from_secs(1)).await;
}

/// How many locks are held, by whomever.
async fn held(redis: &mut MultiplexedConnection) -> usize {
    let mut held = 0;
    for key in
        redis::cmd("KEYS").arg("leasehold:lock:*").query_async::<Vec<String>>(redis).await.unwrap()
    {
        let record: Option<String> = redis::cmd("GET").arg(key).query_async(redis).await.unwrap();
        held += usize::from(record.is_some_and(|record| record.as_bytes()[1] != b'F'));
    }
    held
}

/// Makes a user `u` with the password `p`, whose client may not end its old connections.
/// Without `client|info` each acquisition is a call of its own, by which they are counted.
async fn forbid_to_end_connections(redis: &mut MultiplexedConnection) {
    let rights = "SETUSER u reset on >p ~* &* +@all -client|kill -client|info";
    let mut command = redis::cmd("ACL");
    command.arg(rights.split(' ').collect::<Vec<_>>()).exec_async(redis).await.unwrap();
}

/// A user whose client may not end its old connections takes its acquisitions back once
/// more, when nothing of them can arrive any more.
#[tokio::test]
async fn late_acquires_leave_nothing_held_without_the_right_to_kill() {
    let server = Server::start();
    let mut redis = server.redis().await;
    forbid_to_end_connections(&mut redis).await;
    let network = Network::to(&server).await;
    let locks = Locks::connect(&format!("redis://u:p@127.0.0.1:{}/", network.port)).await.unwrap();
    // The server must have its scripts, and the client its way.
    locks.mutex("first").lock().await.unwrap().release().await.unwrap();
    network.hold_back();
    for n in 0..100 {
        // One poll sends it, unless the task has used up its budget.
        let (mutex, semaphore) =
            (locks.mutex(format!("m:{n}")), locks.semaphore(format!("s:{n}"), 2));
        assert!(unconstrained(drop_after(1, mutex.lock())).await.is_none());
        assert!(unconstrained(drop_after(1, semaphore.acquire())).await.is_none());
    }
    // They are given up, and taken back on the next connection.
    let cancelled = async {
        loop {
            let keys: usize = redis::cmd("DBSIZE").query_async(&mut redis).await.unwrap();
            // Its record of itself, and the first one, are there before.
            if keys >= 200 {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(15), cancelled).await.expect("they are taken back");
    // Others come and go, so that no record says any more what was taken back. All at once:
    // what is late must arrive before it is taken back once more.
    let another = Locks::connect(&server.url()).await.unwrap();
    let come_and_go = (0..100).map(async |n| {
        another.mutex(format!("m:{n}")).lock().await.unwrap().release().await.unwrap();
        another.semaphore(format!("s:{n}"), 2).acquire().await.unwrap().release().await.unwrap();
    });
    join_all(come_and_go).await;
    assert_eq!(held(&mut redis).await, 0);
    server.forget_stats().await;
    network.deliver();
    let begun = Instant::now();
    while server.script_calls().await < 200 || held(&mut redis).await > 0 {
        let left = held(&mut redis).await;
        assert!(begun.elapsed() < Duration::from_secs(15), "{left} are left");
        sleep(Duration::from_millis(5)).await;
    }
}

/// It was granted by the second ask, while the first was on its way, and is released before
/// that arrives: which grants it anew, to nobody, and not for the whole TTL.
#[tokio::test]
async fn a_late_acquire_leaves_no_orphaned_lease() {
    for waits_for_replicas in [false, true] {
        let server = Server::start();
        let of = format!("127.0.0.1 {}", server.port());
        let replica = Server::start_with(&["--replicaof", &of]);
        until_linked(&replica).await;
        let mut redis = server.redis().await;
        forbid_to_end_connections(&mut redis).await;
        let network = Network::to(&server).await;
        let mut builder = Locks::builder();
        if waits_for_replicas {
            builder = builder.sync_replicas(1, Duration::from_secs(5));
        }
        let url = format!("redis://u:p@127.0.0.1:{}/", network.port);
        let locks = builder.connect(&url).await.unwrap();
        locks.mutex("first").lock().await.unwrap().release().await.unwrap();

        network.hold_back();
        if waits_for_replicas {
            // Releases go by another connection, and are not to be late as well.
            while locks.inspect("a").await.is_err() {}
        }
        let wait = Duration::from_secs(20);
        let lease = locks.mutex("a").ttl(3 * wait).wait(wait).lock().await.unwrap();
        // The longer its outcome was unknown, the later the second cancel is sent.
        sleep(Duration::from_secs(2)).await;
        lease.release().await.unwrap();
        // So that the record does not say any more that it has ended.
        let another = Locks::connect(&server.url()).await.unwrap();
        another.mutex("a").lock().await.unwrap().release().await.unwrap();
        assert_eq!(held(&mut redis).await, 0);
        network.deliver();
        let eventually = async |count: usize| {
            while held(&mut redis.clone()).await != count {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let late = tokio::time::timeout(wait, eventually(1)).await;
        late.expect("the late bytes grant it to nobody");
        let ended = tokio::time::timeout(wait, eventually(0)).await;
        ended.expect("and that is taken back");
    }
}
