//! Commands in a batch. Each gets the answer that it would get alone, and none harms another.

use leasehold_tests::requests;
use leasehold_tests::requests::{in_flight, sent_together};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use bb8_redis::RedisConnectionManager;
use bb8_redis::bb8::Pool;
use futures_util::future::join_all;
use leasehold::store::redis::{RedisStore, Settings};
use leasehold::store::{
    Ask, Attempt, ClientId, Ended, Kind, Owner, QueuePosition, Renewal, Request, RequestId,
    StoreError, Waiting,
};
use leasehold::{Locks, LossReason, Outcome};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::until;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Handle;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(30);

async fn store(server: &Server) -> RedisStore {
    store_with(server, &Settings::default()).await
}

/// A store that gives each command for a long lease this time.
async fn store_that_waits(server: &Server, command_timeout: Duration) -> RedisStore {
    store_with(server, &Settings { command_timeout, ..Settings::default() }).await
}

async fn store_with(server: &Server, settings: &Settings) -> RedisStore {
    let (client, runtime) = (ClientId::random(), Handle::current());
    RedisStore::connect(&server.url(), settings, client, runtime).await.unwrap()
}

fn request(name: &str, ttl: Duration) -> Request {
    requests::request(name, Kind::Mutex, ttl)
}

fn permit(name: &str, limit: u32, weight: u32) -> Request {
    Request { kind: Kind::Semaphore { limit, weight }, ..request(name, LONG) }
}

async fn ask(redis: &mut MultiplexedConnection, line: &str) {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().expect("a command"));
    command.arg(words.collect::<Vec<_>>()).exec_async(redis).await.expect(line);
}

/// Locks in every state that a request may find, and a request for each.
async fn found(store: &RedisStore, redis: &mut MultiplexedConnection, round: &str) -> Vec<Request> {
    let at = |what: &str| request(&format!("{what}:{round}"), LONG);
    let (own, ended, left) = (at("own"), at("ended"), at("left"));
    for held in [&own, &at("held"), &ended, &left] {
        store.acquire(held, None).await.unwrap();
    }
    store.acquire(&Request { kind: Kind::Read, ..at("read") }, None).await.unwrap();
    for done in [&ended, &left] {
        let _ = store.release(done, Duration::ZERO).await.unwrap();
    }
    for put in ["RPUSH leasehold:lock:{list:?} a", "SET leasehold:queue:{odd:?} a"] {
        ask(redis, &put.replace('?', round)).await;
    }
    ask(redis, &format!("SET leasehold:lock:{{foreign:{round}}} mine PX 9000")).await;
    vec![
        at("free"),
        at("held"),
        at("list"),
        own,
        ended,
        at("odd"),
        at("left"),
        at("foreign"),
        at("read"),
        at("also free"),
    ]
}

/// The answers, without tokens and times.
fn attempts(answers: Vec<Result<Attempt, StoreError>>) -> Vec<String> {
    let said = |answer: Result<Attempt, StoreError>| match answer {
        Ok(Attempt::Granted { .. }) => "granted".to_owned(),
        Ok(Attempt::Busy { expiry_added: false, .. }) => "busy".to_owned(),
        Ok(other) => format!("{other:?}"),
        Err(error) => error.source.to_string(),
    };
    answers.into_iter().map(said).collect()
}

fn said<T: std::fmt::Debug>(answers: Vec<Result<T, StoreError>>) -> Vec<String> {
    answers.into_iter().map(|answer| format!("{:?}", answer.unwrap())).collect()
}

#[tokio::test]
async fn each_command_is_answered_as_it_would_be_alone() {
    let server = Server::start();
    let (store, mut redis) = (store(&server).await, server.redis().await);
    let mut alone = [Vec::new(), Vec::new(), Vec::new()];
    for request in &found(&store, &mut redis, "alone").await {
        alone[0].extend(attempts(vec![store.acquire(request, None).await]));
        alone[1].extend(said(vec![store.renew(request).await]));
        alone[2].extend(said(vec![store.release(request, Duration::ZERO).await]));
    }
    let expected = [
        "granted",
        "busy",
        "WrongKind",
        "granted",
        "Ended",
        "WrongKind",
        "granted",
        "busy",
        "WrongKind",
        "granted",
    ];
    assert_eq!(alone[0], expected);
    assert!(!in_flight(&store).await.unwrap(), "its script is known");
    for forgotten in [false, true] {
        let requests = found(&store, &mut redis, if forgotten { "eval" } else { "sha" }).await;
        for (nth, alone) in alone.iter().enumerate() {
            if forgotten {
                ask(&mut redis, "SCRIPT FLUSH").await;
            }
            server.forget_stats().await;
            let commands = async {
                let before = in_flight(&store);
                let together = match nth {
                    0 => {
                        attempts(join_all(requests.iter().map(|it| store.acquire(it, None))).await)
                    }
                    1 => said(store.renew_all(&requests).await),
                    _ => {
                        let release = |request| store.release(request, Duration::ZERO);
                        said(join_all(requests.iter().map(release)).await)
                    }
                };
                (together, before.await)
            };
            let (together, before) = sent_together(&server, commands).await;
            assert_eq!(together, *alone, "{nth}");
            assert!(!before.unwrap());
            let calls = (server.script_calls().await, server.stats("eval").await.0);
            let bodies = if forgotten { 2 } else { 0 };
            assert_eq!(calls, (2, bodies), "one call each, and its body if forgotten");
        }
    }
}

/// The renewal of a short lease gives up early. The other renewals of its batch do not.
#[tokio::test]
async fn a_short_lease_does_not_fail_other_renewals() {
    let server = Server::start();
    let store = store_that_waits(&server, Duration::from_secs(10)).await;
    let mut held: Vec<_> = (0..99).map(|n| request(&format!("long:{n}"), LONG)).collect();
    held.insert(50, request("short", Duration::from_millis(100)));
    join_all(held.iter().map(|it| store.acquire(it, None))).await;
    let frozen = server.freeze().await;
    let (renewed, later) = (store.renew_all(&held), store.renew(&held[50]));
    let thawed = async {
        // It has no more time than the one before.
        assert!(later.await.is_err());
        drop(frozen);
    };
    let (mut answers, ()) = tokio::join!(renewed, thawed);
    let error = answers.remove(50).unwrap_err();
    assert_eq!(error.outcome, Outcome::Unknown, "{}", error.source);
    assert_eq!(said(answers), ["Renewed"; 99]);
}

#[tokio::test]
async fn a_full_server_answers_each_command_of_a_batch() {
    let server = Server::start();
    let (store, mut redis) = (store(&server).await, server.redis().await);
    let held: Vec<_> = (0..9).map(|n| request(&format!("held:{n}"), LONG)).collect();
    let new: Vec<_> = (0..9).map(|n| request(&format!("new:{n}"), LONG)).collect();
    join_all(held.iter().map(|it| store.acquire(it, None))).await;
    ask(&mut redis, "CONFIG SET maxmemory 1").await;
    let renewed = store.renew_all(&held);
    let acquired = join_all(new.iter().map(|it| store.acquire(it, None)));
    let released = join_all(held.iter().map(|it| store.release(it, Duration::ZERO)));
    for answer in renewed.await {
        assert_eq!(answer.unwrap(), Renewal::Renewed);
    }
    for answer in acquired.await {
        let error = answer.unwrap_err();
        assert_eq!((error.outcome, error.is_passing), (Outcome::NotRun, true));
        assert!(error.source.to_string().contains("memory is full"), "{}", error.source);
    }
    for answer in released.await {
        assert_eq!(answer.unwrap(), Ended::Released);
    }
}

/// A user with rights for some of the keys is granted those.
#[tokio::test]
async fn a_forbidden_key_does_not_disturb_other_commands() {
    let server = Server::start();
    let mut redis = server.redis().await;
    ask(&mut redis, "ACL SETUSER some on >pw ~leasehold:*:{may:*} ~leasehold:tokens &* +@all")
        .await;
    let url = server.url().replace("redis://", "redis://some:pw@");
    let client = ClientId::random();
    let store =
        RedisStore::connect(&url, &Settings::default(), client, Handle::current()).await.unwrap();
    let names = ["may:1", "not:1", "may:2", "not:2"];
    let requests = names.map(|name| request(name, LONG));
    let answers = join_all(requests.iter().map(|it| store.acquire(it, None))).await;
    for (name, answer) in names.iter().zip(answers) {
        assert_eq!(
            name.starts_with("may"),
            matches!(answer, Ok(Attempt::Granted { .. })),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_short_time_out_does_not_fail_other_commands() {
    let server = Server::start();
    let store = store_that_waits(&server, Duration::from_secs(10)).await;
    let (short, long) = (Duration::from_millis(150), LONG);
    let requests: Vec<_> =
        (0..40).map(|n| request(&n.to_string(), if n % 2 == 0 { short } else { long })).collect();
    let frozen = server.freeze().await;
    let given_up = Cell::new(0);
    let answers = join_all(requests.iter().map(async |it| {
        let answer = store.acquire(it, None).await;
        given_up.set(given_up.get() + u32::from(answer.is_err()));
        answer
    }));
    let thawed = async {
        until("the short ones have given up", async || given_up.get() == 20).await;
        drop(frozen);
    };
    let (answers, ()) = tokio::join!(answers, thawed);
    for (request, answer) in requests.iter().zip(answers) {
        match answer {
            Ok(answer) => {
                assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
                assert_eq!(request.ttl, long);
            }
            Err(error) => {
                assert_eq!((request.ttl, error.outcome), (short, Outcome::Unknown));
            }
        }
    }
}

#[tokio::test]
async fn a_silent_server_fails_each_command_at_its_time_out() {
    let server = Server::start();
    // Between two limits there is more time than a busy machine may stand still.
    let ttls = [150, 3_000, 30_000].map(Duration::from_millis);
    let limits = [50, 1_000, 2_000].map(Duration::from_millis);
    let store = store_that_waits(&server, limits[2]).await;
    let _frozen = server.freeze().await;
    let begun = Instant::now();
    let ended = RefCell::new(Vec::new());
    let ask = async |nth: usize| {
        let answer = store.acquire(&request(&nth.to_string(), ttls[nth % 3]), None).await;
        assert_eq!(answer.unwrap_err().outcome, Outcome::Unknown);
        let (took, limit) = (begun.elapsed(), limits[nth % 3]);
        assert!(took >= limit, "{took:?} of {limit:?}");
        ended.borrow_mut().push(limit);
    };
    timeout(LONG, join_all((0..60).map(ask))).await.expect("the last of them ends too");
    let ended = ended.into_inner();
    assert!(ended.len() == 60 && ended.is_sorted(), "none waits for a longer limit: {ended:?}");
}

#[tokio::test]
async fn a_batch_is_few_calls() {
    let server = Server::start();
    let store = store(&server).await;
    let requests: Vec<_> = (0..100).map(|n| request(&n.to_string(), LONG)).collect();
    server.forget_stats().await;
    let acquires = join_all(requests.iter().map(|it| store.acquire(it, None)));
    sent_together(&server, acquires).await;
    // The first is sent at once, and the others meanwhile wait. A script must not block the
    // server for long, so they are several calls.
    assert_eq!(server.script_calls().await, 1 + 7);
    join_all(requests.iter().map(|it| store.release(it, Duration::ZERO))).await;
    // After many answers at the same time the next commands wait for each other.
    assert_calls(&server, 1 + 7 + 7).await;
}

/// The releases came last. If the answers before them did not come at the same time, the first goes
/// alone.
async fn assert_calls(server: &Server, least: u64) {
    let calls = server.script_calls().await;
    assert!(calls == least || calls == least + 1, "{calls} calls instead of {least}");
}

/// Commands that share no call do not wait for each other's answers. The driver of a user's pool
/// takes 50 at a time, and a task may do 128 things in a row.
#[tokio::test]
async fn many_calls_are_in_flight_at_a_time() {
    let server = Server::start();
    let manager = RedisConnectionManager::new(server.url()).unwrap();
    let pool = Pool::builder().build(manager).await.unwrap();
    let own = Locks::connect(&server.url()).await.unwrap();
    let pooled = Locks::builder().connect_pool(pool).await.unwrap();
    for locks in [own, pooled] {
        let read = async |n: u32| locks.rw_lock(format!("{n}")).read().await.unwrap();
        // It makes the connection, and loads the script.
        drop(read(0).await);
        let before = server.info("stats", "total_reads_processed").await;
        let leases = join_all((1..=400).map(read)).await;
        assert_eq!(leases.len(), 400);
        let reads = server.info("stats", "total_reads_processed").await - before;
        assert!(reads < 150, "one after the other: {reads} reads");
    }
}

/// Many tasks at one semaphore cost few calls as well.
#[tokio::test]
async fn the_permits_of_a_semaphore_are_few_calls() {
    let server = Server::start();
    let (store, mut redis) = (store(&server).await, server.redis().await);
    let requests: Vec<_> = (0..20).map(|_| permit("a", 18, 1)).collect();
    server.forget_stats().await;
    let acquires = join_all(requests.iter().map(|it| store.acquire(it, None)));
    let answers = sent_together(&server, acquires).await;
    let mut expected = ["granted"; 20];
    expected[18..].fill("busy");
    assert_eq!(attempts(answers), expected, "in their order, and no more than there are");
    let held = &requests[..18];
    assert_eq!(said(store.renew_all(held).await), ["Renewed"; 18]);
    let released = join_all(held.iter().map(|it| store.release(it, Duration::ZERO))).await;
    assert_eq!(said(released), ["Released"; 18]);
    assert_calls(&server, (1 + 2) + 2 + 2).await;
    let left: u64 =
        redis::cmd("EXISTS").arg("leasehold:holders:{a}").query_async(&mut redis).await.unwrap();
    assert_eq!(left, 0);
}

/// A semaphore keeps the token of its name: the next mutex counts from it.
#[tokio::test]
async fn a_permit_keeps_the_token_of_its_name() {
    let server = Server::start();
    let (store, mut redis) = (store(&server).await, server.redis().await);
    let nobody = "-".repeat(34);
    ask(
        &mut redis,
        &format!("SET leasehold:lock:{{a}} SF{nobody}80000000000000000{nobody} PX 9000"),
    )
    .await;
    let permit = permit("a", 2, 1);
    store.acquire(&permit, None).await.unwrap();
    let _ = store.release(&permit, Duration::ZERO).await.unwrap();
    let mutex = store.acquire(&request("a", LONG), None).await.unwrap();
    assert_eq!(mutex, Attempt::Granted { token: 8_000_000_000_000_064 });
}

/// Semaphores in every state that a request may find, and a request for each.
async fn semaphores(
    store: &RedisStore,
    redis: &mut MultiplexedConnection,
    round: &str,
) -> Vec<Request> {
    let at = |what: &str, limit, weight| permit(&format!("{what}:{round}"), limit, weight);
    let by = |name: &str, request| Request { owner: Some(Owner::new(name).unwrap()), ..request };
    let mutex = |what: &str| request(&format!("{what}:{round}"), LONG);
    let (own, ended, left) = (at("own", 1, 1), at("ended", 2, 1), mutex("left"));
    for held in [&own, &ended, &left, &mutex("mutex"), &mutex("waiting")] {
        store.acquire(held, None).await.unwrap();
    }
    for held in [at("full", 1, 1), at("shared", 3, 1), at("heavy", 4, 3), at("waited", 1, 1)] {
        store.acquire(&held, None).await.unwrap();
    }
    for done in [&ended, &left] {
        let _ = store.release(done, Duration::ZERO).await.unwrap();
    }
    // One request waits for a held semaphore, and one where the record is gone.
    let waiting = Waiting {
        live: Duration::from_secs(9),
        position: QueuePosition::New { age: Duration::ZERO },
    };
    for next in [at("waited", 1, 1), mutex("waiting")] {
        store.acquire(&next, Some(waiting)).await.unwrap();
    }
    for put in [
        "DEL leasehold:lock:{waiting:?}",
        "RPUSH leasehold:holders:{list:?} a",
        "SET leasehold:queue:{odd:?} a",
        "SET leasehold:lock:{foreign:?} mine PX 9000",
        // It looks like our records up to the 87th byte, which is missing.
        "SET leasehold:lock:{alike:?} SH--------------------------------------------------0--------------------------------- PX 9000",
    ] {
        ask(redis, &put.replace('?', round)).await;
    }
    vec![
        at("free", 1, 1),
        own,
        at("full", 1, 1),
        at("shared", 3, 1),
        by("bob", at("shared", 3, 1)),
        at("shared", 3, 1),
        at("heavy", 4, 1),
        at("heavy", 4, 1),
        ended,
        at("ended", 2, 2),
        at("waited", 2, 1),
        at("mutex", 1, 1),
        at("left", 1, 1),
        at("waiting", 1, 1),
        at("list", 1, 1),
        at("odd", 1, 1),
        at("foreign", 1, 1),
        at("alike", 1, 1),
    ]
}

#[tokio::test]
async fn each_permit_is_answered_as_it_would_be_alone() {
    let server = Server::start();
    let (store, mut redis) = (store(&server).await, server.redis().await);
    let mut alone = [Vec::new(), Vec::new(), Vec::new()];
    let requests = semaphores(&store, &mut redis, "alone").await;
    for request in &requests {
        alone[0].extend(attempts(vec![store.acquire(request, None).await]));
    }
    for request in &requests {
        alone[1].extend(said(vec![store.renew(request).await]));
    }
    for request in &requests {
        alone[2].extend(said(vec![store.release(request, Duration::ZERO).await]));
    }
    let expected = [
        "granted",
        "granted",
        "busy",
        "granted",
        "granted",
        "busy",
        "granted",
        "busy",
        "Ended",
        "granted",
        "busy",
        "WrongKind",
        "granted",
        "WrongKind",
        "WrongKind",
        "WrongKind",
        "busy",
        "busy",
    ];
    assert_eq!(alone[0], expected);
    let requests = semaphores(&store, &mut redis, "together").await;
    server.forget_stats().await;
    let asks = join_all(requests.iter().map(|it| store.acquire(it, None)));
    let acquired = attempts(sent_together(&server, asks).await);
    let renewed = said(store.renew_all(&requests).await);
    let release = |request| store.release(request, Duration::ZERO);
    let released = said(join_all(requests.iter().map(release)).await);
    assert_eq!([acquired, renewed, released], alone);
    assert_calls(&server, (1 + 2) + 2 + 2).await;
}

/// A server that does not name a connection may be a proxy. It may send a call to one server
/// although the keys are on several.
#[tokio::test]
async fn without_a_connection_name_each_command_is_a_call() {
    let server = Server::start();
    let mut redis = server.redis().await;
    ask(&mut redis, "ACL SETUSER some on >pw ~* &* +@all -client|info").await;
    let url = server.url().replace("redis://", "redis://some:pw@");
    let client = ClientId::random();
    let store =
        RedisStore::connect(&url, &Settings::default(), client, Handle::current()).await.unwrap();
    let requests: Vec<_> = (0..20).map(|n| request(&n.to_string(), LONG)).collect();
    server.forget_stats().await;
    let answers = join_all(requests.iter().map(|it| store.acquire(it, None))).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Attempt::Granted { .. }))));
    assert_eq!(server.script_calls().await, 20);
}

#[tokio::test]
async fn a_command_is_sent_after_its_caller_has_gone() {
    let server = Server::start();
    let store = store(&server).await;
    // The server knows both scripts. A command whose script it has forgotten is sent again, and
    // then is behind those that followed it.
    let known = request("known", LONG);
    store.acquire(&known, None).await.unwrap();
    assert!(store.cancel(&known).await.unwrap());
    let requests: Vec<_> = (0..50).map(|n| request(&n.to_string(), LONG)).collect();
    let mut cancelled = Vec::new();
    for request in &requests {
        drop(store.acquire(request, None));
        cancelled.push(store.cancel(request));
    }
    for (request, cancelled) in requests.iter().zip(cancelled) {
        assert!(cancelled.await.unwrap(), "behind its acquire");
        assert_eq!(store.acquire(request, None).await.unwrap(), Attempt::Ended);
    }
}

/// A model of one lock, changed by one command after another.
#[derive(Default)]
struct Model {
    holder: Option<RequestId>,
    ended: Option<RequestId>,
}

impl Model {
    fn answer(&mut self, what: u32, id: RequestId) -> String {
        let (is_held, has_ended) = (self.holder == Some(id), self.ended == Some(id));
        match what {
            0..4 if has_ended => "Ended".to_owned(),
            0..4 if self.holder.is_none() || is_held => {
                self.holder = Some(id);
                "Granted".to_owned()
            }
            0..4 => "Busy".to_owned(),
            4 if is_held => format!("{:?}", Renewal::Renewed),
            4 => format!("{:?}", Renewal::NotHeld(LossReason::Taken)),
            5 if !is_held => format!("{is_held}"),
            _ if is_held || has_ended => {
                if is_held {
                    (self.holder, self.ended) = (None, Some(id));
                }
                format!("{:?}", Ended::Released)
            }
            _ => format!("{:?}", Ended::NotHeld(LossReason::Taken)),
        }
    }
}

/// Whatever the batches are, the commands of a lock get the answers that they would get one after
/// another, in the order in which they were sent.
#[tokio::test]
async fn the_commands_of_a_lock_stay_in_order() {
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let server = Server::start();
        let store = store(&server).await;
        let mut locks: HashMap<usize, (Model, Vec<Request>)> = HashMap::new();
        for n in 0..8 {
            // A record to begin with.
            let first = request(&n.to_string(), LONG);
            store.acquire(&first, None).await.unwrap();
            let _ = store.release(&first, Duration::ZERO).await.unwrap();
            // A new script runs only after the server has refused its hash.
            let _ = store.renew(&first).await.unwrap();
            store.cancel(&first).await.unwrap();
            let model = Model { holder: None, ended: Some(first.id) };
            locks.insert(n, (model, vec![first]));
        }
        for _ in 0..40 {
            let (mut expected, mut answers) = (Vec::new(), Vec::new());
            for _ in 0..random.usize(1..150) {
                let n = random.usize(0..8);
                let (model, requests) = locks.get_mut(&n).expect("all are there");
                if random.u32(0..3) == 0 {
                    requests.push(request(&n.to_string(), LONG));
                }
                let recent = requests.len().saturating_sub(3);
                let request = requests[random.usize(recent..requests.len())].clone();
                let what = random.u32(0..8);
                if what == 5 && model.holder != Some(request.id) {
                    continue; // it would be noted as ended: that is the cancel's own test
                }
                expected.push((
                    n,
                    what,
                    model.answer(if what == 5 { 6 } else { what }, request.id),
                ));
                answers.push(send(&store, what, &request));
            }
            for ((n, what, expected), answer) in expected.into_iter().zip(join_all(answers).await) {
                let expected = if what == 5 { "true".to_owned() } else { expected };
                assert_eq!(answer, expected, "seed {seed}, lock {n}, command {what}");
            }
        }
    }
}

/// Sends a command at once. The future is its answer.
fn send(
    store: &RedisStore,
    what: u32,
    request: &Request,
) -> std::pin::Pin<Box<dyn Future<Output = String>>> {
    match what {
        0..4 => {
            let answer = store.acquire(request, None);
            Box::pin(async move {
                let said = format!("{:?}", answer.await.unwrap());
                said.split(' ').next().unwrap_or_default().to_owned()
            })
        }
        4 => {
            let answer = store.renew(request);
            Box::pin(async move { format!("{:?}", answer.await.unwrap()) })
        }
        5 => {
            let answer = store.cancel(request);
            Box::pin(async move { format!("{:?}", answer.await.unwrap()) })
        }
        _ => {
            let answer = store.release(request, Duration::ZERO);
            Box::pin(async move { format!("{:?}", answer.await.unwrap()) })
        }
    }
}
