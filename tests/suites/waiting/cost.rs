//! The server's cost of waiting.

use leasehold_tests::requests::{Requests, redis_store_of};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::store::redis::RedisStore;
use leasehold::store::{
    Ask, Attempt, ClientId, Ended, Kind, QueuePosition, Renewal, Request, Waiting,
};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::until;
use tokio::time::Instant;

use super::{ASK_AGAIN, LIVE, clients, until_queued, waiter};

/// A grant costs three commands, however many wait: the ask that queued the waiter, the release
/// before, and the renewal that confirms the offer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_costs_three_commands_however_many_wait() {
    let server = Server::start();
    let mut redis = server.redis().await;
    for count in [4_u32, 64, 512] {
        let mut clients = clients(&server, count as usize + 1).await;
        let held = clients.remove(0).mutex("a").lock().await.unwrap();
        server.forget_stats().await;
        let begun = Instant::now();
        let waiting = clients.into_iter().map(|locks| waiter(locks, "a"));
        let grants = waiting.collect::<Vec<_>>().into_iter().map(async |waiter| {
            let lease = waiter.await.unwrap();
            // An offer ends with the heartbeat; confirmed, it lasts longer.
            until("it is confirmed", async || lease.remaining() >= LIVE).await;
            lease.release().await.unwrap();
        });
        until_queued(&mut redis, "a", count.into()).await;
        held.release().await.unwrap();
        join_all(grants).await;
        let calls = server.script_calls().await;
        let took = begun.elapsed();
        let a_grant = f64::from(u32::try_from(calls).unwrap()) / f64::from(count);
        println!("{count} waiters: {a_grant:.3} script calls a grant, in {took:?}");
        let intervals = (took.as_secs_f64() / ASK_AGAIN.as_secs_f64()).floor();
        // Waiters that come after the first release do not ask twice.
        assert!(a_grant <= 3.0 + intervals + 1.0 / f64::from(count), "{count}: {a_grant}");
    }
}

/// A client that sends single requests to the store.
struct StoreClient {
    store: Arc<RedisStore>,
    requests: Requests,
}

impl StoreClient {
    async fn start(server: &Server) -> Self {
        let id = ClientId::random();
        let store = redis_store_of(&server.url(), id).await;
        Self { store: Arc::new(store), requests: Requests::of(id) }
    }

    fn next(&self, name: &str, kind: Kind) -> Request {
        self.requests.next(name, kind, Duration::from_secs(60))
    }

    async fn queue(&self, request: &Request) {
        let waiting = Waiting {
            live: Duration::from_secs(14),
            position: QueuePosition::New { age: Duration::ZERO },
        };
        let answer = self.store.acquire(request, Some(waiting)).await.unwrap();
        assert!(matches!(answer, Attempt::Queued { .. }), "{answer:?}");
    }

    /// Lets this many requests wait, or hold, at once.
    async fn all(&self, requests: &[Request], waits: bool) {
        for some in requests.chunks(100) {
            join_all(some.iter().map(|request| async move {
                if waits {
                    self.queue(request).await;
                } else {
                    let answer = self.store.acquire(request, None).await.unwrap();
                    assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
                }
            }))
            .await;
        }
    }

    async fn release(&self, request: &Request) {
        let ended = self.store.release(request, Duration::ZERO).await.unwrap();
        assert_eq!(ended, Ended::Released);
    }

    async fn confirm(&self, request: &Request) {
        assert_eq!(self.store.renew(request).await.unwrap(), Renewal::Renewed);
    }
}

/// The server's time for a script call, in microseconds.
async fn time_a_call(server: &Server) -> f64 {
    let (calls, time) = server.stats("evalsha").await;
    assert!(calls > 100, "{calls}");
    let number = |number| f64::from(u32::try_from(number).unwrap());
    number(time) / number(calls)
}

/// Does this a hundred times: the holder releases, the first waiter confirms, and the former holder
/// queues again.
async fn hand_round(server: &Server, client: &StoreClient, kind: Kind, waiters: usize) -> f64 {
    let name = format!("{waiters}");
    let mut line: std::collections::VecDeque<_> =
        (0..=waiters).map(|_| client.next(&name, kind)).collect();
    let holder = line.pop_front().unwrap();
    assert!(matches!(client.store.acquire(&holder, None).await.unwrap(), Attempt::Granted { .. }));
    client.all(line.make_contiguous(), true).await;
    server.forget_stats().await;
    let mut holder = holder;
    for _ in 0..100 {
        client.release(&holder).await;
        let first = line.pop_front().unwrap();
        client.confirm(&first).await;
        let again = client.next(&name, kind);
        client.queue(&again).await;
        line.push_back(again);
        holder = first;
    }
    let time = time_a_call(server).await;
    redis::cmd("FLUSHALL").exec_async(&mut server.redis().await).await.unwrap();
    time
}

/// Acquires and releases a hundred permits, beside this many that stay held.
async fn come_and_go(server: &Server, client: &StoreClient, holders: usize) -> f64 {
    let kind = Kind::Semaphore { limit: 20_000, weight: 1 };
    let name = format!("{holders}");
    let stay: Vec<_> = (0..holders).map(|_| client.next(&name, kind)).collect();
    client.all(&stay, false).await;
    server.forget_stats().await;
    for _ in 0..100 {
        let one = client.next(&name, kind);
        client.all(std::slice::from_ref(&one), false).await;
        client.release(&one).await;
    }
    let time = time_a_call(server).await;
    redis::cmd("FLUSHALL").exec_async(&mut server.redis().await).await.unwrap();
    time
}

/// The least of several rounds, taken in turns. Other load on the machine makes a round slower,
/// never faster.
async fn growth<F: Future<Output = f64>>(what: &str, time: impl Fn(usize) -> F) -> f64 {
    let (mut few, mut many) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..5 {
        few = few.min(time(10).await);
        many = many.min(time(10_000).await);
    }
    let growth = many / few;
    println!("{what}: {few:.1} µs a call with 10, {many:.1} µs with 10,000: {growth:.2} times");
    growth
}

/// With ten thousand waiters a grant costs the server little more than with ten. A set a thousand
/// times as large is a few levels deeper. A scan of it would cost hundreds of times as much. The
/// bound leaves room for a busy machine.
#[tokio::test]
async fn a_grant_costs_little_more_with_ten_thousand() {
    let server = Server::start();
    let client = StoreClient::start(&server).await;
    let (server, requests) = (&server, &client);
    let permit = Kind::Semaphore { limit: 1, weight: 1 };
    for growth in [
        growth("mutex, waiters", |n| hand_round(server, requests, Kind::Mutex, n)).await,
        growth("semaphore, waiters", |n| hand_round(server, requests, permit, n)).await,
        growth("semaphore, holders", |n| come_and_go(server, requests, n)).await,
    ] {
        assert!(growth <= 3.0, "{growth}");
    }
}

/// A refused try reads only what it needs, not even the time.
#[tokio::test]
async fn a_try_that_is_refused_does_not_ask_for_the_time() {
    let server = Server::start();
    let client = StoreClient::start(&server).await;
    let holder = client.next("a", Kind::Mutex);
    client.all(std::slice::from_ref(&holder), false).await;
    server.forget_stats().await;
    let refused = client.store.acquire(&client.next("a", Kind::Mutex), None).await.unwrap();
    assert!(matches!(refused, Attempt::Busy { .. }), "{refused:?}");
    assert_eq!(server.script_calls().await, 1);
    assert_eq!(server.stats("time").await.0, 0);
    assert_eq!((server.stats("get").await.0, server.stats("pttl").await.0), (1, 1));
}

/// A lock without waiters costs the server the commands that the protocol names, and no look at a
/// queue.
#[tokio::test]
async fn an_uncontended_lease_costs_few_commands() {
    let server = Server::start();
    let client = StoreClient::start(&server).await;
    let waiting = Waiting {
        live: Duration::from_secs(6),
        position: QueuePosition::New { age: Duration::ZERO },
    };
    // The script notes each token. It makes the key for them once.
    for (round, exists, sets) in [("of a new name", 1, 2), ("of a free one", 0, 1)] {
        let request = client.next("a", Kind::Mutex);
        server.forget_stats().await;
        let answer = client.store.acquire(&request, Some(waiting)).await.unwrap();
        assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
        for (command, calls) in [
            ("get", 2),
            ("time", 1),
            ("set", sets),
            ("setrange", 2 - sets),
            ("exists", exists),
            ("zadd", 0),
        ] {
            assert_eq!(server.stats(command).await.0, calls, "{command} for an acquire {round}");
        }
        server.forget_stats().await;
        client.confirm(&request).await;
        for (command, calls) in [("get", 1), ("pexpire", 1), ("set", 0)] {
            assert_eq!(server.stats(command).await.0, calls, "{command} for a renewal");
        }
        server.forget_stats().await;
        client.release(&request).await;
        for (command, calls) in [("get", 1), ("set", 1), ("time", 1), ("zrange", 0), ("zrem", 0)] {
            assert_eq!(server.stats(command).await.0, calls, "{command} for a release");
        }
    }
}

/// The same for a permit. The script looks at the holders, and at no queue.
#[tokio::test]
async fn an_uncontended_permit_looks_at_no_queue() {
    let server = Server::start();
    let client = StoreClient::start(&server).await;
    let kind = Kind::Semaphore { limit: 4, weight: 1 };
    let waiting = Waiting {
        live: Duration::from_secs(6),
        position: QueuePosition::New { age: Duration::ZERO },
    };
    for (number, is_new) in [(1, 1), (2, 0)] {
        let request = client.next("s", kind);
        server.forget_stats().await;
        let answer = client.store.acquire(&request, Some(waiting)).await.unwrap();
        assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
        for (command, calls) in [
            ("get", 1),
            ("time", 1),
            ("zcard", 1),
            // The holder, and since when.
            ("zadd", 2),
            ("pexpire", 1 + is_new),
            // The permit before may last longer.
            ("pttl", 1 - is_new),
            ("set", 1),
            // The script checks whether there is a queue without a record, or a weight above 1.
            ("exists", is_new),
            ("zscore", 1 - is_new),
            ("zcount", 1 - is_new),
            ("zrange", 0),
            ("hset", 0),
            ("hget", 0),
        ] {
            assert_eq!(server.stats(command).await.0, calls, "{command} for permit {number}");
        }
        server.forget_stats().await;
        client.confirm(&request).await;
        for (command, calls) in
            [("time", 1), ("zscore", 1), ("zadd", 1), ("pexpire", 2), ("get", 0)]
        {
            assert_eq!(server.stats(command).await.0, calls, "{command} for a renewal");
        }
    }
    let another = client.next("s", kind);
    client.store.acquire(&another, None).await.unwrap();
    server.forget_stats().await;
    client.release(&another).await;
    for (command, calls) in [
        ("get", 1),
        ("time", 1),
        ("zscore", 1),
        ("zrem", 1),
        ("zrange", 1),
        ("pexpire", 1),
        ("set", 1),
        ("zcard", 0),
        ("hdel", 0),
    ] {
        assert_eq!(server.stats(command).await.0, calls, "{command} for a release");
    }
    // A try that is refused at once.
    let full = client.next("s", Kind::Semaphore { limit: 2, weight: 1 });
    server.forget_stats().await;
    let refused = client.store.acquire(&full, None).await.unwrap();
    assert!(matches!(refused, Attempt::Busy { .. }), "{refused:?}");
    for (command, calls) in [("zscore", 2), ("hget", 0), ("hset", 0), ("set", 0)] {
        assert_eq!(server.stats(command).await.0, calls, "{command} for a try");
    }
}
