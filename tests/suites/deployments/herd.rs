//! Connections cost little: many at once, over a slow link, and from far away.

use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use leasehold::store::ClientId;
use leasehold::store::redis::{RedisStore, Settings};
use leasehold::{LockError, Locks};
use leasehold_tests::server::Server;
use redis_server_wrapper::{Delay, Direction, FaultProxy};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::errors::run;

/// The most bytes that a server reads on a connection before its first command.
const HANDSHAKE: u64 = 4096;

/// Much longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// The number of bytes that the server has read.
async fn read(server: &Server) -> u64 {
    server.info("stats", "total_net_input_bytes").await
}

#[tokio::test]
async fn a_handshake_is_short() {
    let server = Server::start();
    let usual = Settings::default();
    let of_a_quorum = Settings { counts_after: Some(LONG), ..Settings::default() };
    let resp2 = server.url() + "?protocol=resp2";
    let before = read(&server).await;
    let connect = async |url: &str| {
        let (id, runtime) = (ClientId::random(), Handle::current());
        RedisStore::connect(url, &usual, id, runtime).await.unwrap();
    };
    connect(&server.url()).await;
    let by_resp3 = read(&server).await - before;
    connect(&resp2).await;
    let by_resp2 = read(&server).await - before - by_resp3;
    let (id, runtime) = (ClientId::random(), Handle::current());
    RedisStore::connect_quorum_server(&server.url(), &of_a_quorum, id, runtime).await.unwrap();
    let of_a_member = read(&server).await - before - by_resp3 - by_resp2;
    for bytes in [by_resp3, by_resp2, of_a_member] {
        assert!(bytes <= HANDSHAKE, "{by_resp3}, {by_resp2}, {of_a_member}");
    }
}

/// Clients that connect again spread over 250 ms. One that has just connected does not: its first
/// command takes about as long as its second. The pause would be a hundred times longer.
#[tokio::test]
async fn the_first_command_does_not_pause() {
    const CLIENTS: usize = 15;
    let server = Server::start();
    let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
    for _ in 0..CLIENTS {
        let locks = Locks::connect(&server.url()).await.unwrap();
        for times in [&mut firsts, &mut seconds] {
            let begun = Instant::now();
            locks.inspect("a").await.unwrap();
            times.push(begun.elapsed());
        }
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort();
        times[CLIENTS / 2]
    };
    let (first, second) = (median(&mut firsts), median(&mut seconds));
    assert!(first < second * 40, "{first:?} and {second:?}");
}

/// All clients lose their connections, keep their leases, and go on. If the server has forgotten
/// the scripts, each client sends only those that it uses.
#[tokio::test]
async fn many_clients_reconnect_at_once() {
    const MANY: u64 = 40;
    let server = Server::start();
    let clients = (0..MANY).map(async |n| {
        let locks = Locks::connect(&server.url()).await?;
        let lease = locks.mutex(format!("held:{n}")).ttl(LONG / 10).lock().await?;
        Ok::<_, LockError>((locks, lease))
    });
    let clients = try_join_all(clients).await.unwrap();
    let come_back = async || {
        let before = read(&server).await;
        run(&mut server.redis().await, "CLIENT KILL SKIPME yes").await;
        join_all(clients.iter().enumerate().map(async |(n, (locks, lease))| {
            let mutex = locks.mutex(format!("next:{n}")).wait(LONG);
            mutex.lock().await.unwrap().release().await.unwrap();
            lease.renew().await.unwrap();
        }))
        .await;
        (read(&server).await - before) / MANY
    };
    // The first time, clients may send scripts that they had not used before.
    come_back().await;
    let bytes = come_back().await;
    assert!(bytes <= HANDSHAKE, "{bytes} bytes a client");
    run(&mut server.redis().await, "SCRIPT FLUSH").await;
    let bytes = come_back().await;
    assert!(bytes <= HANDSHAKE + 16_384, "{bytes} bytes a client");
}

/// True if a connection to this port was begun and not yet answered.
#[cfg(target_os = "linux")]
fn is_knocking(port: u16) -> bool {
    const SYN_SENT: &str = "02";
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.contains(&format!(":{port:04X} {SYN_SENT} "))
}

/// The server's backlog is full when a client connects, so its first packet is dropped. The system
/// resends that after a second.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_backlog_does_not_cost_a_second() {
    use leasehold_tests::waiting::until;
    use tokio::net::{TcpSocket, TcpStream};
    const LIMIT: Duration = Duration::from_millis(900);
    let server = Server::start();
    let come = async || {
        let door = TcpSocket::new_v4().unwrap();
        door.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let door = door.listen(0).unwrap();
        let address = door.local_addr().unwrap();
        let mut ahead = Vec::new();
        while let Ok(one) = timeout(LIMIT / 9, TcpStream::connect(address)).await {
            ahead.push(one.unwrap());
        }
        let connecting = tokio::spawn(async move {
            let url = format!("redis://{address}/");
            Locks::builder().connect_timeout(LIMIT).connect(&url).await
        });
        until("it knocks", async || is_knocking(address.port()) || connecting.is_finished()).await;
        let upstream = ("127.0.0.1", server.port());
        let accepting = tokio::spawn(async move {
            loop {
                let (mut client, _) = door.accept().await.unwrap();
                let mut server = TcpStream::connect(upstream).await.unwrap();
                tokio::spawn(async move {
                    tokio::io::copy_bidirectional(&mut client, &mut server).await
                });
            }
        });
        let connected = connecting.await.unwrap();
        until("it knocks no more", async || !is_knocking(address.port())).await;
        accepting.abort();
        connected.map(drop)
    };
    // On a busy machine the next try may be late, too; the system's is never early.
    let mut tries = Vec::new();
    while tries.len() < 10 && tries.last().is_none_or(Result::is_err) {
        tries.push(come().await);
    }
    assert!(tries.last().unwrap().is_ok(), "{tries:?}");
}

/// Connects through a proxy, and acquires a lock.
async fn assert_can_lock(proxy: &FaultProxy) {
    let url = format!("redis://{}/", proxy.addr());
    let lock = async {
        let locks = Locks::connect(&url).await.unwrap();
        let lease = locks.mutex("a").lock().await.unwrap();
        assert!(locks.mutex("a").try_lock().await.unwrap_err().is_held_by_another());
        lease.release().await.unwrap();
    };
    timeout(LONG, lock).await.expect("it ends");
}

/// The link carries 250 kB a second.
#[tokio::test]
async fn a_client_works_over_a_slow_link() {
    let server = Server::start();
    let proxy = FaultProxy::spawn(("127.0.0.1", server.port())).await.unwrap();
    proxy.set_chunk_size(1_000);
    proxy.set_chunk_delay(Duration::from_millis(4));
    assert_can_lock(&proxy).await;
}

/// A round trip takes 200 ms.
#[tokio::test]
async fn a_client_works_with_a_long_round_trip() {
    let server = Server::start();
    let proxy = FaultProxy::spawn(("127.0.0.1", server.port())).await.unwrap();
    for direction in [Direction::ClientToUpstream, Direction::UpstreamToClient] {
        proxy.set_delay(direction, Delay::Fixed(Duration::from_millis(100)));
    }
    assert_can_lock(&proxy).await;
}
