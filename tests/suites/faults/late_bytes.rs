//! Bytes of an abandoned connection arrive when its successor is at work.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::{LockError, Locks, Rate};
use leasehold_tests::polls::drop_after;
use leasehold_tests::sentinel::until_linked;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{until, work_for};
use redis::aio::MultiplexedConnection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::coop::unconstrained;
use tokio::time::timeout;

/// A network that holds back the bytes of existing connections, and lets new connections through.
struct Network {
    port: u16,
    /// Connections up to this number are held back. `None` if none are.
    held: watch::Sender<Option<usize>>,
    connections: watch::Receiver<usize>,
    /// How often it delivered bytes that it had held back.
    delivered: watch::Receiver<usize>,
}

impl Network {
    async fn to(server: &Server) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (held, is_held) = watch::channel(None);
        let (count, connections) = watch::channel(0);
        let (late, delivered) = watch::channel(0);
        let upstream = server.port();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let number = *count.borrow() + 1;
                count.send_replace(number);
                let server = TcpStream::connect(("127.0.0.1", upstream)).await.unwrap();
                tokio::spawn(forward(client, server, number, is_held.clone(), late.clone()));
            }
        });
        Self { port, held, connections, delivered }
    }

    fn hold_back(&self) {
        self.held.send_replace(Some(*self.connections.borrow()));
    }

    fn deliver(&self) {
        self.held.send_replace(None);
    }

    /// Delivers, and returns when the server has what was held back.
    async fn deliver_something(&self) {
        self.deliver();
        let mut delivered = self.delivered.clone();
        delivered.wait_for(|count| *count > 0).await.expect("a network");
    }
}

/// Forwards to the server all that the client sent, even after the client is gone.
async fn forward(
    client: TcpStream,
    server: TcpStream,
    number: usize,
    mut held: watch::Receiver<Option<usize>>,
    late: watch::Sender<usize>,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::spawn(async move {
        let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
    });
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
        let is_late = held.borrow().is_some_and(|last| number <= last);
        let _ = held.wait_for(|held| held.is_none_or(|last| number > last)).await;
        if to_server.write_all(&bytes[..count]).await.is_err() {
            return;
        }
        late.send_modify(|count| *count += usize::from(is_late));
    }
    // Its answers are for nobody, but the server must not see the end before the bytes.
    std::future::pending::<()>().await;
}

/// The number of held locks.
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

/// Makes a user `u` with the password `p`, whose client may not end its old connections. Without
/// `client|info` each acquisition is a call of its own, so the test can count them.
async fn forbid_to_end_connections(redis: &mut MultiplexedConnection) {
    let rights = "SETUSER u reset on >p ~* &* +@all -client|kill -client|info";
    let mut command = redis::cmd("ACL");
    command.arg(rights.split(' ').collect::<Vec<_>>()).exec_async(redis).await.unwrap();
}

/// A user whose client may not end its old connections cancels its acquisitions once more, when
/// none of their bytes can arrive any more.
#[tokio::test]
async fn late_acquires_leave_nothing_held_without_the_right_to_kill() {
    // On a busy machine the second cancel may be sent before the late bytes are delivered. Then the
    // leases last for their TTL, as they would in every round if there were no second cancel.
    for _ in 0..3 {
        if late_acquires_end_before_their_ttl().await {
            return;
        }
    }
    panic!("late acquires lasted for their TTL");
}

/// Returns true if the leases that late bytes have acquired for nobody ended before their TTL.
async fn late_acquires_end_before_their_ttl() -> bool {
    const TTL: Duration = Duration::from_secs(60);
    let server = Server::start();
    let mut redis = server.redis().await;
    forbid_to_end_connections(&mut redis).await;
    let network = Network::to(&server).await;
    // The longer an acquisition has no answer, the later the second cancel is sent.
    let patient = Locks::builder().command_timeout(Duration::from_secs(1));
    let url = format!("redis://u:p@127.0.0.1:{}/", network.port);
    let locks = patient.connect(&url).await.unwrap();
    // The server must know the scripts, and the client must be connected.
    locks.mutex("first").lock().await.unwrap().release().await.unwrap();
    locks.semaphore("second", 1).acquire().await.unwrap().release().await.unwrap();
    network.hold_back();
    for n in 0..100 {
        // One poll sends it, unless the task has used up its budget.
        let mutex = locks.mutex(format!("m:{n}")).ttl(TTL);
        let semaphore = locks.semaphore(format!("s:{n}"), 2).ttl(TTL);
        assert!(unconstrained(drop_after(1, mutex.lock())).await.is_none());
        assert!(unconstrained(drop_after(1, semaphore.acquire())).await.is_none());
    }
    // The acquisitions are given up, and cancelled on the next connection.
    until("they are taken back", async || {
        let keys: usize = redis::cmd("DBSIZE").query_async(&mut redis).await.unwrap();
        // The client's record of itself and the first lock are there before.
        keys >= 200
    })
    .await;
    // Others acquire and release, so no record has the id of a cancelled request any more. They do
    // so all at once: the late bytes must arrive before the second cancel.
    let another = Locks::connect(&server.url()).await.unwrap();
    let come_and_go = (0..100).map(async |n| {
        another.mutex(format!("m:{n}")).lock().await.unwrap().release().await.unwrap();
        another.semaphore(format!("s:{n}"), 2).acquire().await.unwrap().release().await.unwrap();
    });
    join_all(come_and_go).await;
    assert_eq!(held(&mut redis).await, 0);
    server.forget_stats().await;
    network.deliver();
    let ended = until("all have ended", async || {
        server.script_calls().await >= 200 && held(&mut redis).await == 0
    });
    timeout(TTL / 2, ended).await.is_ok()
}

/// The second ask was granted while the first was on its way. The lock is released before the first
/// ask arrives, which grants it anew, to nobody. The second cancel ends that lease before its TTL.
#[tokio::test]
async fn a_late_acquire_leaves_no_orphaned_lease() {
    for waits_for_replicas in [false, true] {
        let server = Server::start();
        let port = server.port().to_string();
        let replica = Server::start_with(&["--replicaof", "127.0.0.1", &port]);
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
            // Releases use another connection, which must not be held back as well.
            until("it has another", async || locks.inspect("a").await.is_ok()).await;
        }
        let wait = Duration::from_secs(20);
        let lease = locks.mutex("a").ttl(3 * wait).wait(wait).lock().await.unwrap();
        // The longer its outcome was unknown, the later the second cancel is sent.
        work_for(Duration::from_secs(2)).await;
        lease.release().await.unwrap();
        // After this the record does not have the id of the ended request any more.
        let another = Locks::connect(&server.url()).await.unwrap();
        another.mutex("a").lock().await.unwrap().release().await.unwrap();
        assert_eq!(held(&mut redis).await, 0);
        network.deliver();
        until("the late bytes grant it to nobody", async || held(&mut redis).await == 1).await;
        until("that is taken back", async || held(&mut redis).await == 0).await;
    }
}

/// The second ask was granted while the first was on its way. If the lease could be adopted and
/// released before the first ask arrives, that would grant the lock anew, and the ticket could be
/// adopted a second time.
#[tokio::test]
async fn a_late_acquire_does_not_renew_a_ticket() {
    let server = Server::start();
    let mut redis = server.redis().await;
    forbid_to_end_connections(&mut redis).await;
    let network = Network::to(&server).await;
    let locks = Locks::connect(&format!("redis://u:p@127.0.0.1:{}/", network.port)).await.unwrap();
    locks.mutex("first").lock().await.unwrap().release().await.unwrap();

    network.hold_back();
    let wait = Duration::from_secs(20);
    let lease = locks.mutex("a").ttl(3 * wait).wait(wait).lock().await.unwrap();
    let mut detaching = pin!(lease.detach());
    // As long as this waits, the late ask arrives before there is a ticket.
    let early = timeout(Duration::from_millis(300), &mut detaching).await;
    if early.is_err() {
        network.deliver_something().await;
    }
    let ticket = match early {
        Ok(detached) => detached.unwrap(),
        Err(_) => detaching.await.unwrap(),
    };
    let another = Locks::connect(&server.url()).await.unwrap();
    another.adopt(ticket.clone()).await.unwrap().release().await.unwrap();
    network.deliver_something().await;
    // The server reads the late bytes before it answers these.
    for _ in 0..10 {
        redis::cmd("PING").exec_async(&mut redis).await.unwrap();
    }
    let again = another.adopt(ticket).await;
    assert!(matches!(again, Err(LockError::TicketEnded { .. })), "{again:?}");
    assert_eq!(held(&mut redis).await, 0);
}

/// A take whose first command had no answer is remembered, though later takes let the server forget
/// others.
#[tokio::test]
async fn a_late_take_takes_nothing_again() {
    let server = Server::start();
    let mut redis = server.redis().await;
    forbid_to_end_connections(&mut redis).await;
    let network = Network::to(&server).await;
    let url = format!("redis://u:p@127.0.0.1:{}/", network.port);
    let hasty = Locks::builder().command_timeout(Duration::from_millis(300));
    let limit = hasty.connect(&url).await.unwrap().rate("r", Rate::per_hour(1000));
    limit.acquire().await.unwrap();
    network.hold_back();
    // Its second command goes on another connection.
    limit.acquire().await.unwrap();
    for _ in 0..12 {
        limit.acquire().await.unwrap();
    }
    let calls = server.script_calls().await;
    network.deliver_something().await;
    until("the late take has run", async || server.script_calls().await > calls).await;
    assert_eq!(limit.acquire().await.unwrap().remaining(), 1000 - 15);
}
