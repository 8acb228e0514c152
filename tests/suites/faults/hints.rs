//! Hints reach a waiter unasked. If they do not come, only time is lost.

use leasehold_tests::requests::{Requests, redis_store_of};
use std::fmt::Debug;
use std::time::{Duration, Instant};

use leasehold::store::redis::RedisStore;
use leasehold::store::{
    AnswerOf, Ask, Attempt, ClientId, Ended, Hint, Kind, QueuePosition, Reply, Request, Stamp,
    Store, Usage, Waiting,
};
use leasehold::{Locks, Wait};
use leasehold_tests::hints::HintRecorder;
use leasehold_tests::rights::{LOGIN, Rights, assert_nothing_was_refused};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{until, until_some};
use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, cmd};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Much longer than anything here takes.
const SOON: Duration = Duration::from_secs(60);

/// A client of a store, with a listener.
struct Client {
    store: RedisStore,
    id: ClientId,
    requests: Requests,
    hints: HintRecorder,
}

impl Client {
    async fn connect(url: &str) -> Self {
        let id = ClientId::random();
        let store = redis_store_of(url, id).await;
        let hints = HintRecorder::new(&store, id);
        Self { store, id, requests: Requests::of(id), hints }
    }

    fn channel(&self) -> String {
        format!("leasehold:wake:{}", self.id)
    }

    fn request(&self, kind: Kind) -> Request {
        self.requests.next("a", kind, Duration::from_secs(30))
    }

    /// A client that receives hints.
    async fn with_hints(url: &str) -> Self {
        let client = Self::connect(url).await;
        until("it gives hints", async || client.store.gives_hints()).await;
        client
    }

    async fn take(&self, kind: Kind) -> Request {
        let request = self.request(kind);
        let granted = insist(|| self.store.acquire(&request, None)).await;
        assert!(matches!(granted, Attempt::Granted { .. }), "{granted:?}");
        request
    }

    async fn queue(&self, kind: Kind) -> (Request, Stamp) {
        let request = self.request(kind);
        let position = QueuePosition::New { age: Duration::ZERO };
        let waiting = Waiting { live: Duration::from_secs(14), position };
        match insist(|| self.store.acquire(&request, Some(waiting))).await {
            Attempt::Queued { until, .. } => (request, until),
            other => panic!("{other:?}"),
        }
    }

    async fn release(&self, request: &Request) {
        let released = insist(|| self.store.release(request, Duration::ZERO)).await;
        assert_eq!(released, Ended::Released);
    }

    async fn hint(&mut self) -> Hint {
        timeout(SOON, self.hints.received.recv())
            .await
            .expect("a hint")
            .expect("the sender is there")
    }

    /// Sends commands until hints come again: the next command replaces a lost connection.
    async fn comes_back(&self) {
        let nobody = self.request(Kind::Mutex);
        until("it gives hints again", async || {
            self.store.renew(&nobody).await.is_ok() && self.store.gives_hints()
        })
        .await;
    }

    /// The next offer. Other hints are skipped: each connection may report missed hints.
    async fn offer(&mut self) -> Hint {
        loop {
            match self.hint().await {
                Hint::Missed
                | Hint::LimitsChanged
                | Hint::RunAgain { .. }
                | Hint::Free { .. }
                | Hint::Forced { .. }
                | Hint::Recalled { .. } => {}
                offer @ Hint::Offered { .. } => return offer,
            }
        }
    }
}

/// The first waiter's process has died, and the recall that it asked for was lost: here nobody
/// minds it. The next waiter asks again.
#[tokio::test]
async fn a_dead_waiter_keeps_nobody_from_recalling() {
    let server = Server::start();
    let mut holder = Client::with_hints(&server.url()).await;
    let waiter = Client::connect(&server.url()).await;
    let held = holder.take(Kind::Mutex).await;
    let _ = insist(|| holder.store.linger(&held, Usage::Ended).expect("it has hints")).await;
    let position = QueuePosition::New { age: Duration::ZERO };
    let ask = async |request: &Request, live| {
        let waiting = Waiting { live, position };
        let queued = insist(|| waiter.store.acquire(request, Some(waiting))).await;
        assert!(matches!(queued, Attempt::Queued { .. }), "{queued:?}");
    };
    ask(&waiter.request(Kind::Mutex), Duration::from_millis(300)).await;
    let is_recall = |hint| matches!(hint, Hint::Recalled { .. });
    while !is_recall(holder.hint().await) {}
    let second = waiter.request(Kind::Mutex);
    until("it is recalled", async || {
        ask(&second, Duration::from_secs(14)).await;
        std::iter::from_fn(|| holder.hints.received.try_recv().ok()).any(is_recall)
    })
    .await;
}

/// Sends a command until it is answered.
async fn insist<T: AnswerOf>(command: impl Fn() -> Reply<T>) -> T {
    loop {
        match command().await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_passing, "{error:?}"),
        }
    }
}

/// Servers and URLs for the ways of hints: on the connection of the commands, or on one of their
/// own where that is configured or needed.
fn ways() -> [(Server, String); 3] {
    let [first, second] = [(); 2].map(|()| Server::start());
    let third = Server::start_with(&["--rename-command", "HELLO", ""]);
    let urls = [first.url(), format!("{}?protocol=resp2", second.url()), third.url()];
    let [one, two, three] = urls;
    [(first, one), (second, two), (third, three)]
}

/// `first` hands its lock over to `second`, which gets the hint.
async fn hand_over(first: &Client, second: &mut Client, kind: Kind) {
    let held = first.take(kind).await;
    let (waiting, until) = second.queue(kind).await;
    first.release(&held).await;
    let Hint::Offered { id, token, until: said, early } = second.offer().await else {
        unreachable!()
    };
    assert_eq!((id, said), (waiting.id, until));
    // The heartbeat was 14 seconds at most, and an offer lasts one.
    assert!(early <= Duration::from_secs(13), "{early:?}");
    match second.store.acquire(&waiting, None).await.unwrap() {
        Attempt::Granted { token: granted } => assert_eq!(token, granted),
        other => panic!("{other:?}"),
    }
    second.release(&waiting).await;
}

/// `first` hands its lock over to `second`, which learns of it only by asking.
async fn hand_over_unheard(first: &Client, second: &mut Client) {
    let held = first.take(Kind::Mutex).await;
    let (waiting, _) = second.queue(Kind::Mutex).await;
    first.release(&held).await;
    let granted = second.store.acquire(&waiting, None).await.unwrap();
    assert!(matches!(granted, Attempt::Granted { .. }), "{granted:?}");
    second.release(&waiting).await;
    assert!(second.hints.received.try_recv().is_err());
}

async fn ask<T: FromRedisValue + Debug>(redis: &mut MultiplexedConnection, line: &str) -> T {
    let mut words = line.split(' ');
    let mut command = cmd(words.next().expect("a command"));
    command.arg(words.collect::<Vec<_>>()).query_async(redis).await.expect(line)
}

async fn kill_all(server: &Server) {
    let _: u32 = ask(&mut server.redis().await, "CLIENT KILL SKIPME yes").await;
}

async fn subscribers(redis: &mut MultiplexedConnection, channel: &str) -> u32 {
    let (_, count): (String, u32) = ask(redis, &format!("PUBSUB NUMSUB {channel}")).await;
    count
}

const PERMIT: Kind = Kind::Semaphore { limit: 1, weight: 1 };

#[tokio::test]
async fn an_offer_reaches_its_waiter() {
    for (_server, url) in ways() {
        let (first, mut second) = (Client::connect(&url).await, Client::with_hints(&url).await);
        for kind in [Kind::Mutex, PERMIT, Kind::Mutex] {
            hand_over(&first, &mut second, kind).await;
        }
    }
}

/// A holder has died. The next request serves the first waiter, which gets the hint.
#[tokio::test]
async fn an_offer_after_an_expiry_reaches_its_waiter() {
    let server = Server::start();
    let (dead, mut first, third) = (
        Client::connect(&server.url()).await,
        Client::with_hints(&server.url()).await,
        Client::connect(&server.url()).await,
    );
    for kind in [Kind::Mutex, PERMIT] {
        let held = Request { ttl: Duration::from_secs(2), ..dead.request(kind) };
        let granted = dead.store.acquire(&held, None).await.unwrap();
        assert!(matches!(granted, Attempt::Granted { .. }), "{granted:?}");
        let (waiting, until) = first.queue(kind).await;
        // This client asks again and again, and does not wait.
        let tries = third.request(kind);
        let ended = async || {
            let answer = third.store.acquire(&tries, None).await.unwrap();
            assert!(matches!(answer, Attempt::Busy { .. }), "{answer:?}");
            !first.hints.received.is_empty()
        };
        self::until("the lease has ended", ended).await;
        let Hint::Offered { id, until: said, .. } = first.offer().await else { unreachable!() };
        assert_eq!((id, said), (waiting.id, until));
        first.release(&waiting).await;
    }
}

/// A dead client gets no hint. The next waiter is told to ask, and so learns when the offer ends.
#[tokio::test]
async fn the_next_waiter_is_told_of_an_offer_to_a_dead_one() {
    for (server, url) in ways() {
        let (first, mut next) = (Client::connect(&url).await, Client::with_hints(&url).await);
        for kind in [Kind::Mutex, PERMIT] {
            let held = first.take(kind).await;
            let dead = Client::with_hints(&url).await;
            let (channel, (gone, _)) = (dead.channel(), dead.queue(kind).await);
            let (waiting, _) = next.queue(kind).await;
            drop(dead);
            until("it has unsubscribed", async || {
                subscribers(&mut server.redis().await, &channel).await == 0
            })
            .await;
            first.release(&held).await;
            // Its connection may first report missed hints.
            let mut heard = next.hint().await;
            while heard == Hint::Missed {
                heard = next.hint().await;
            }
            assert_eq!(heard, Hint::Free { id: waiting.id });
            first.release(&gone).await;
            let Hint::Offered { id, .. } = next.offer().await else { unreachable!() };
            assert_eq!(id, waiting.id);
            next.release(&waiting).await;
        }
    }
}

#[tokio::test]
async fn hints_come_again_after_a_lost_connection() {
    for (server, url) in ways() {
        let (first, mut second) = (Client::connect(&url).await, Client::with_hints(&url).await);
        for _ in 0..3 {
            hand_over(&first, &mut second, Kind::Mutex).await;
            kill_all(&server).await;
            // Nobody sends a command; the waiter must ask again.
            assert_eq!(second.hint().await, Hint::Missed);
            second.comes_back().await;
        }
        hand_over(&first, &mut second, Kind::Mutex).await;
    }
}

#[tokio::test]
async fn hints_come_again_after_a_restart() {
    for end in ["", "?protocol=resp2"] {
        let server = Server::start();
        let (port, url) = (server.port(), format!("{}{end}", server.url()));
        let (first, mut second) = (Client::connect(&url).await, Client::with_hints(&url).await);
        hand_over(&first, &mut second, Kind::Mutex).await;
        drop(server);
        until("it notices the end", async || !second.store.gives_hints()).await;
        let _server = Server::start_on(port);
        assert_eq!(second.hint().await, Hint::Missed);
        second.comes_back().await;
        hand_over(&first, &mut second, Kind::Mutex).await;
    }
}

#[tokio::test]
async fn hints_come_again_after_a_freeze() {
    for end in ["", "?protocol=resp2"] {
        let server = Server::start();
        let url = format!("{}{end}", server.url());
        let (first, mut second) = (Client::connect(&url).await, Client::with_hints(&url).await);
        hand_over(&first, &mut second, Kind::Mutex).await;
        let frozen = server.freeze().await;
        // A command without an answer for half a second is abandoned.
        let request = second.request(Kind::Mutex);
        until("it notices the freeze", async || {
            second.store.renew(&request).await.is_ok() || !second.store.gives_hints()
        })
        .await;
        drop(frozen);
        assert_eq!(second.hint().await, Hint::Missed);
        second.comes_back().await;
        hand_over(&first, &mut second, Kind::Mutex).await;
    }
}

/// Lets fifty tasks wait for locks that others hold.
async fn fifty_waiters(server: &Server) -> JoinSet<()> {
    let (holder, locks) = (
        Locks::connect(&server.url()).await.unwrap(),
        Locks::connect(&server.url()).await.unwrap(),
    );
    let mut waiters = JoinSet::new();
    for n in 0..50 {
        let held = holder.mutex(format!("a:{n}")).lock().await.unwrap();
        let mutex = locks.mutex(format!("a:{n}")).wait(Wait::Forever);
        waiters.spawn(async move {
            let _held = held;
            let _ = mutex.lock().await;
        });
    }
    until("all wait", async || {
        ask::<Vec<String>>(&mut server.redis().await, "KEYS *:queue:*").await.len() == 50
    })
    .await;
    waiters
}

/// A listener in the server's place closes each connection at once.
#[tokio::test]
async fn reconnecting_pauses_between_attempts() {
    let server = Server::start();
    let port = server.port();
    let _waiters = fifty_waiters(&server).await;
    drop(server);
    // The port is free once the server's process has ended.
    let listener = until_some("the port is free", async || {
        tokio::net::TcpListener::bind(("127.0.0.1", port)).await.ok()
    })
    .await;
    let begun = Instant::now();
    for _ in 0..10 {
        drop(listener.accept().await.unwrap());
    }
    let took = begun.elapsed();
    println!("ten tries by two clients in {took:?}");
    assert!(took > Duration::from_millis(300), "ten tries in {took:?}");
}

/// After a failover the address leads to a replica for a while. It refuses every command.
#[tokio::test]
async fn a_replica_is_not_stormed() {
    let server = Server::start();
    let _waiters = fifty_waiters(&server).await;
    let mut redis = server.redis().await;
    let _: String = ask(&mut redis, "REPLICAOF 127.0.0.1 1").await;
    let _: String = ask(&mut redis, "CONFIG RESETSTAT").await;
    let (begun, mut looks) = (Instant::now(), 0);
    let [connections, commands] = until_some("they have connected twelve times", async || {
        let stats: String = ask(&mut redis, "INFO stats").await;
        let count = |name: &str| -> u32 {
            let line = stats.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().parse().unwrap()
        };
        looks += 1;
        let commands = count("total_commands_processed:") - looks;
        let connections = count("total_connections_received:");
        (connections >= 12).then_some([connections, commands])
    })
    .await;
    let took = begun.elapsed();
    println!("{connections} connections and {commands} commands in {took:?} by two clients");
    assert!(took > connections * (Duration::from_secs(3) / 62), "{connections} in {took:?}");
    assert!(took > commands * (Duration::from_secs(3) / 5_000), "{commands} in {took:?}");
}

/// A server without room for a connection is not mistaken for an old version.
#[tokio::test]
async fn a_full_server_is_not_taken_for_an_old_one() {
    let server = Server::start();
    let client = Client::connect(&server.url()).await;
    let mut redis = server.redis().await;
    let _: String = ask(&mut redis, "CONFIG SET maxclients 1").await;
    let _: u32 = ask(&mut redis, "CLIENT KILL SKIPME yes").await;
    until("it has lost its connection", async || !client.store.gives_hints()).await;
    let request = client.request(Kind::Mutex);
    assert!(client.store.acquire(&request, None).await.is_err());
    let _: String = ask(&mut redis, "CONFIG SET maxclients 100").await;
    until("it gives hints again", async || client.store.gives_hints()).await;
    let clients: String = ask(&mut redis, "CLIENT LIST").await;
    assert!(clients.contains("resp=3"), "{clients}");
}

/// Gives a user all rights except those of `line`. The server ends connections that are subscribed
/// to a forbidden channel.
async fn user(server: &Server, line: &str) -> String {
    let rights = format!("ACL SETUSER u reset on >p ~* &* +@all {line}");
    let _: String = ask(&mut server.redis().await, &rights).await;
    format!("redis://u:p@127.0.0.1:{}/", server.port())
}

#[tokio::test]
async fn without_the_right_to_subscribe_locks_work() {
    for line in ["-subscribe", "resetchannels"] {
        let server = Server::start();
        let url = user(&server, line).await;
        for end in ["", "?protocol=resp2"] {
            let url = format!("{url}{end}");
            let (first, mut second) = (Client::connect(&url).await, Client::connect(&url).await);
            hand_over_unheard(&first, &mut second).await;
            assert!(!second.store.gives_hints(), "{line}");
        }
        let mut client = Client::connect(&url).await;
        // The right comes, and goes again.
        for (line, is_there) in [("", true), (line, false)] {
            user(&server, line).await;
            kill_all(&server).await;
            assert_eq!(client.hint().await, Hint::Missed);
            let nobody = client.request(Kind::Mutex);
            until("it notices its rights", async || {
                client.store.renew(&nobody).await.is_ok() && client.store.gives_hints() == is_there
            })
            .await;
        }
    }
}

/// On the same connection, ten seconds after the user was refused: nobody connects again.
#[tokio::test]
async fn hints_come_with_the_right_to_them() {
    for line in ["-subscribe", "resetchannels", "-publish", "-subscribe protocol=resp2"] {
        let server = Server::start();
        let (line, end) = line.split_once(' ').unwrap_or((line, ""));
        let url = user(&server, line).await;
        let mut client = Client::connect(&format!("{url}?{end}")).await;
        let mut redis = server.redis().await;
        let connected = connections(&mut redis).await;
        assert!(!client.store.gives_hints());
        let rights = "ACL SETUSER u reset on >p ~* &* +@all";
        let _: String = ask(&mut redis, rights).await;
        until("it asks again", async || client.store.gives_hints()).await;
        assert_eq!(client.hint().await, Hint::Missed);
        let more = connections(&mut redis).await - connected;
        assert!(more == 0 || !end.is_empty(), "{line}: {more} connections more");
    }
}

/// How many connections the server has ever had.
async fn connections(redis: &mut MultiplexedConnection) -> u64 {
    let stats: String = ask(redis, "INFO stats").await;
    let line = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    line.expect("it counts them").parse().expect("a number")
}

/// Exactly the rights that docs/keys.md lists.
#[tokio::test]
async fn the_documented_rights_are_enough_for_hints() {
    let server = Server::start();
    Rights::of_the_docs().give([&server]).await;
    let url = format!("redis://{LOGIN}127.0.0.1:{}/", server.port());
    let (first, mut second) = (Client::connect(&url).await, Client::with_hints(&url).await);
    for kind in [Kind::Mutex, PERMIT] {
        hand_over(&first, &mut second, kind).await;
    }
    assert_nothing_was_refused([&server]).await;
}

#[tokio::test]
async fn without_the_right_to_publish_only_the_hint_is_lost() {
    let server = Server::start();
    let url = user(&server, "-publish").await;
    let (first, mut second) =
        (Client::connect(&url).await, Client::with_hints(&server.url()).await);
    hand_over_unheard(&first, &mut second).await;
    assert!(!first.store.gives_hints(), "nor is it told anything by its like");
    assert!(second.store.gives_hints());
}

#[tokio::test]
async fn foreign_messages_are_ignored() {
    for (server, url) in ways() {
        let (first, mut second) = (Client::connect(&url).await, Client::with_hints(&url).await);
        hand_over(&first, &mut second, Kind::Mutex).await;
        let mut redis = server.redis().await;
        let other = first.request(Kind::Mutex).id;
        let long = "9".repeat(100_000);
        let numbers = "0".repeat(34);
        for message in ["", "x", &long[..68], &long, &format!("{other:?}{numbers}")] {
            let mut publish = cmd("PUBLISH");
            publish.arg(second.channel()).arg(message);
            let heard: u32 = publish.query_async(&mut redis).await.unwrap();
            assert_eq!(heard, 1);
        }
        let held = first.take(Kind::Mutex).await;
        second.queue(Kind::Mutex).await;
        first.release(&held).await;
        assert!(matches!(second.hint().await, Hint::Offered { .. }), "the first that is heard");
    }
}

#[tokio::test]
async fn each_client_has_one_subscription_and_ends_it() {
    for (server, url) in ways() {
        let mut redis = server.redis().await;
        let (first, second) = (Client::with_hints(&url).await, Client::with_hints(&url).await);
        let channels = [first.channel(), second.channel()];
        for channel in &channels {
            assert_eq!(subscribers(&mut redis, channel).await, 1);
        }
        drop((first, second));
        for channel in &channels {
            until("it has unsubscribed", async || subscribers(&mut redis, channel).await == 0)
                .await;
        }
        let clients = async || ask::<String>(&mut redis.clone(), "CLIENT LIST").await;
        until("both have gone", async || clients().await.lines().count() == 1).await;
    }
}
