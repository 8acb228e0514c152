//! A release deletes the record of a request that left nothing under way, and the key `tokens`
//! stands for all deleted records: docs/keys.md.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::store::fault_injection::FaultInjector;
use leasehold::store::redis::{RedisStore, Settings};
use leasehold::store::{
    Ask, Attempt, ClientId, Ended, Kind, Once, Owner, QueuePosition, Request, RequestId, Waiting,
};
use leasehold::{Fault, Locks, LossReason, Step};
use leasehold_tests::cluster::Cluster;
use leasehold_tests::masters::Masters;
use leasehold_tests::requests::{self, in_flight, sent_together};
use leasehold_tests::server::Server;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Handle;

const HOUR: Duration = Duration::from_secs(3600);
const LONG: Duration = Duration::from_secs(60);
const TOKENS: &str = "leasehold:tokens";

/// The time for each command. A request with a command that was not answered in time keeps its
/// record, and the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client that is patient.
async fn client(server: &Server) -> Locks {
    Locks::builder().command_timeout(PATIENCE).connect(&server.url()).await.unwrap()
}

/// A store that is patient, too.
async fn store(url: &str) -> RedisStore {
    let settings = Settings { command_timeout: PATIENCE, ..Settings::default() };
    RedisStore::connect(url, &settings, ClientId::random(), Handle::current()).await.unwrap()
}

/// All keys but the clients' descriptions of themselves.
async fn keys(redis: &mut MultiplexedConnection) -> Vec<String> {
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(redis).await.unwrap();
    keys.retain(|key| !key.starts_with("leasehold:client:"));
    keys.sort();
    keys
}

async fn get(redis: &mut MultiplexedConnection, key: &str) -> Option<String> {
    redis::cmd("GET").arg(key).query_async(redis).await.unwrap()
}

fn request(name: &str, kind: Kind) -> Request {
    let owner = (kind == Kind::Reentrant).then(|| Owner::new("me").unwrap());
    Request { owner, ..requests::request(name, kind, LONG) }
}

async fn grant(store: &RedisStore, request: &Request) -> u64 {
    match store.acquire(request, None).await.unwrap() {
        Attempt::Granted { token } | Attempt::GrantedTick { token, .. } => token,
        other => panic!("{other:?}"),
    }
}

fn waiting() -> Waiting {
    Waiting { live: LONG / 10, position: QueuePosition::New { age: Duration::ZERO } }
}

/// A mutex whose record was deleted an hour ahead of the clock, and its token.
async fn forgotten(server: &Server, store: &RedisStore, name: &str) -> u64 {
    server.jump(HOUR);
    let first = request(name, Kind::Mutex);
    let token = grant(store, &first).await;
    assert_eq!(store.release_and_forget(&first).await.unwrap(), Ended::Released);
    server.jump_back(HOUR);
    token
}

#[tokio::test]
async fn a_released_mutex_leaves_no_record() {
    let server = Server::start();
    let locks = client(&server).await;
    let mut redis = server.redis().await;
    let mut last = 0;
    for round in 0..20 {
        let lease = locks.mutex("a").lock().await.unwrap();
        let token = lease.fence().unwrap().get();
        assert!(token > last, "{token} after {last}");
        last = token;
        if round % 2 == 0 {
            lease.release().await.unwrap();
        } else {
            drop(lease);
            while keys(&mut redis).await != [TOKENS] {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(keys(&mut redis).await, [TOKENS]);
        assert_eq!(get(&mut redis, TOKENS).await, Some(token.to_string()));
    }
    let ends: i64 = redis::cmd("PTTL").arg(TOKENS).query_async(&mut redis).await.unwrap();
    assert!((70_000_000..=86_400_000).contains(&ends), "{ends}");
}

#[tokio::test]
async fn ten_thousand_names_leave_no_keys() {
    let server = Server::start();
    let locks = client(&server).await;
    let mut redis = server.redis().await;
    for from in (0..10_000).step_by(500) {
        join_all((from..from + 500).map(|n| {
            let mutex = locks.mutex(format!("order:{n}"));
            async move { mutex.lock().await.unwrap().release().await.unwrap() }
        }))
        .await;
    }
    locks.all(["a", "b"]).lock().await.unwrap().release().await.unwrap();
    assert_eq!(keys(&mut redis).await, [TOKENS]);
    // Nobody takes the key for a lock.
    assert!(locks.list("*").next().await.is_none());
}

/// Every way to get a token where there is no record.
#[tokio::test]
async fn tokens_grow_after_a_release_though_the_clock_was_set_back() {
    let server = Server::start_skewed();
    let store = store(&server.url()).await;
    let once = Kind::Once(Once::For(LONG));
    for (n, kind) in [Kind::Mutex, Kind::Reentrant, Kind::Write, once].into_iter().enumerate() {
        let name = format!("single:{n}");
        let before = forgotten(&server, &store, &name).await;
        let token = grant(&store, &request(&name, kind)).await;
        assert!(token > before, "{kind:?}: {token} after {before}");
    }
    // In a batch.
    let before = forgotten(&server, &store, "b:0").await;
    let batch: Vec<_> = (0..3).map(|n| request(&format!("b:{n}"), Kind::Mutex)).collect();
    for token in join_all(batch.iter().map(|it| grant(&store, it))).await {
        assert!(token > before, "{token} after {before}");
    }
    // Together with others.
    for permit in [None, Some(Kind::Semaphore { limit: 1, weight: 1 })] {
        let name = format!("all:{}", permit.is_some());
        let before = forgotten(&server, &store, &name).await;
        let other = request(&format!("other:{name}"), permit.unwrap_or(Kind::Mutex));
        let both = [request(&name, Kind::Mutex), other];
        let tokens = store.acquire_all(&both, &[]).expect("one server").await.unwrap().unwrap();
        assert!(tokens[0] > before, "{tokens:?} after {before}");
    }
}

/// Permits put a record without a token into the place of the deleted one.
#[tokio::test]
async fn tokens_grow_though_permits_had_the_name_in_between() {
    let server = Server::start_skewed();
    let store = store(&server.url()).await;
    for (n, is_free) in [true, false].into_iter().enumerate() {
        let name = format!("a:{n}");
        let before = forgotten(&server, &store, &name).await;
        let permit = request(&name, Kind::Semaphore { limit: 1, weight: 1 });
        grant(&store, &permit).await;
        let mut after = before;
        if is_free {
            let _ = store.release(&permit, Duration::ZERO).await.unwrap();
        } else {
            let forced =
                store.force_release(&permit.key, leasehold_tests::requests::force()).await.unwrap();
            let leasehold::Forced::Released { fence, .. } = forced else { panic!("{forced:?}") };
            after = fence.get();
        }
        let token = grant(&store, &request(&name, Kind::Mutex)).await;
        assert!(token > before && token > after.min(token - 1), "{token} after {before}, {after}");
        assert!(after >= before, "a forced release gives a token too: {after}");
    }
}

/// A waiter in the queue of a lock without a record is offered it.
#[tokio::test]
async fn an_offer_without_a_record_has_a_greater_token() {
    let server = Server::start_skewed();
    let store = store(&server.url()).await;
    let mut redis = server.redis().await;
    let before = forgotten(&server, &store, "a").await;
    let (holder, waiter) = (request("a", Kind::Mutex), request("a", Kind::Mutex));
    grant(&store, &holder).await;
    let waiting = waiting();
    let queued = store.acquire(&waiter, Some(waiting)).await.unwrap();
    assert!(matches!(queued, Attempt::Queued { .. }), "{queued:?}");
    redis::cmd("DEL").arg("leasehold:lock:{a}").exec_async(&mut redis).await.unwrap();
    assert!(!store.cancel(&request("a", Kind::Mutex)).await.unwrap());
    let token = grant(&store, &waiter).await;
    assert!(token > before, "{token} after {before}");
}

/// While the clock stands still, each grant takes a block.
#[tokio::test]
async fn a_grant_takes_one_block_of_tokens() {
    let server = Server::start_skewed();
    server.stop_clock();
    let store = store(&server.url()).await;
    let mut last = None;
    for n in 0..100 {
        let request = request(&format!("a:{}", n % 3), Kind::Mutex);
        let token = grant(&store, &request).await;
        assert_eq!(store.release_and_forget(&request).await.unwrap(), Ended::Released);
        assert_eq!(token, last.map_or(token, |last| last + 64));
        last = Some(token);
    }
}

/// The ask was repeated: a copy of it may still arrive, and is refused.
#[tokio::test]
async fn a_request_with_a_lost_reply_keeps_its_record() {
    let server = Server::start();
    let store = store(&server.url()).await;
    let mut redis = server.redis().await;
    for fault in [Fault::LoseReply, Fault::LoseCommand] {
        let faulty = Arc::new(FaultInjector::over(Arc::new(store.clone())));
        let locks = Locks::over(faulty.clone());
        faulty.next(Some(Step::Acquire), Some(fault));
        let lease = locks.mutex("a").lock().await.unwrap();
        let record = get(&mut redis, "leasehold:lock:{a}").await.unwrap();
        lease.release().await.unwrap();
        let free = get(&mut redis, "leasehold:lock:{a}").await.expect("it is kept");
        assert_eq!((&free[..2], &free[53..87]), ("MF", &record[2..36]), "{fault:?}");
        let id = RequestId::read(&record.as_bytes()[2..36]).unwrap();
        let late = Request { id, ..request("a", Kind::Mutex) };
        assert_eq!(store.acquire(&late, None).await.unwrap(), Attempt::Ended, "{fault:?}");
        redis::cmd("FLUSHALL").exec_async(&mut redis).await.unwrap();
    }
}

/// It finds nothing when it is sent again, and is no loss.
#[tokio::test]
async fn a_release_that_deleted_the_record_may_lose_its_reply() {
    let server = Server::start();
    let store = store(&server.url()).await;
    let mut redis = server.redis().await;
    for is_dropped in [false, true] {
        let faulty = Arc::new(FaultInjector::over(Arc::new(store.clone())));
        let locks = Locks::over(faulty.clone());
        let lease = locks.mutex("a").lock().await.unwrap();
        faulty.next(Some(Step::Release), Some(Fault::LoseReply));
        if is_dropped {
            drop(lease);
            let report = locks.shutdown().await;
            assert_eq!((report.left, report.released), (0, 1), "{report:?}");
        } else {
            lease.release().await.unwrap();
        }
        assert_eq!(keys(&mut redis).await, [TOKENS]);
    }
}

/// The first request of an adopted lease belongs to another process.
#[tokio::test]
async fn an_adopted_lease_keeps_its_record() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let (one, other) = (client(&server).await, client(&server).await);
    let ticket = one.mutex("b").lock().await.unwrap().detach().await.unwrap();
    other.adopt(ticket).await.unwrap().release().await.unwrap();
    assert_eq!(keys(&mut redis).await, ["leasehold:lock:{b}", TOKENS]);
}

/// The record belongs to somebody else by now, or there is a waiter: nothing is deleted.
#[tokio::test]
async fn only_the_holders_own_record_is_deleted() {
    let server = Server::start();
    let store = store(&server.url()).await;
    let mut redis = server.redis().await;
    let (one, other) = (request("a", Kind::Mutex), request("a", Kind::Mutex));
    grant(&store, &one).await;
    let ended = store.release_and_forget(&other).await.unwrap();
    assert_eq!(ended, Ended::NotHeld(LossReason::Taken));
    let waiting = waiting();
    store.acquire(&other, Some(waiting)).await.unwrap();
    assert_eq!(store.release_and_forget(&one).await.unwrap(), Ended::Released);
    let record = get(&mut redis, "leasehold:lock:{a}").await.unwrap();
    assert_eq!(&record[..2], "MO", "the waiter has an offer");
    assert_eq!(record.as_bytes()[53..87], *one.id.as_bytes());
    let ended = store.release_and_forget(&one).await.unwrap();
    assert_eq!(ended, Ended::Released, "before");
}

/// A batch reads all records before it writes one.
#[tokio::test]
async fn a_batch_grants_each_lock_once() {
    let server = Server::start();
    let store = store(&server.url()).await;
    let mut redis = server.redis().await;
    for is_free_record in [false, true] {
        if is_free_record {
            let first = request("a", Kind::Mutex);
            grant(&store, &first).await;
            let _ = store.release(&first, Duration::ZERO).await.unwrap();
        }
        let names = ["a", "a", "b", "a", "b"];
        let requests = names.map(|name| request(name, Kind::Mutex));
        server.forget_stats().await;
        let commands = async {
            let before = in_flight(&store);
            let answers = join_all(requests.iter().map(|it| store.acquire(it, None))).await;
            (answers, before.await)
        };
        let (answers, before) = sent_together(&server, commands).await;
        assert!(!before.unwrap());
        assert_eq!(server.script_calls().await, 1 + 1, "they share a call");
        let before = in_flight(&store);
        let granted = answers.iter().map(|it| matches!(it, Ok(Attempt::Granted { .. })));
        assert_eq!(granted.collect::<Vec<_>>(), [true, false, true, false, false]);
        let ended = join_all(requests.iter().map(|it| store.release_and_forget(it))).await;
        assert!(!before.await.unwrap());
        let released = ended.iter().map(|it| matches!(it, Ok(Ended::Released)));
        assert_eq!(released.collect::<Vec<_>>(), [true, false, true, false, false]);
        assert_eq!(keys(&mut redis).await, [TOKENS]);
    }
}

/// A user from before `+mget` was among the rights: only batches cost more.
#[tokio::test]
async fn without_mget_a_batch_still_works() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let user = ["SETUSER", "u", "on", ">p", "~*", "&*", "+@all", "-mget"];
    redis::cmd("ACL").arg(&user).exec_async(&mut redis).await.unwrap();
    let store = store(&server.url_as("u:p@")).await;
    let requests: Vec<_> = (0..5).map(|n| request(&format!("{n}"), Kind::Mutex)).collect();
    join_all(requests.iter().map(|it| grant(&store, it))).await;
    let before = in_flight(&store);
    for ended in join_all(requests.iter().map(|it| store.release_and_forget(it))).await {
        assert_eq!(ended.unwrap(), Ended::Released);
    }
    assert!(!before.await.unwrap());
    let refused = join_all(requests.iter().map(|it| store.acquire(it, None))).await;
    assert!(refused.iter().all(|it| matches!(it, Ok(Attempt::Ended))), "{refused:?}");
}

/// There each lock has slots or servers of its own, and the record stays for a minute.
#[tokio::test]
async fn clusters_and_quorums_keep_the_free_record() {
    let (cluster, masters) = (Cluster::start().await, Masters::start(3));
    let on_cluster = Locks::connect(&cluster.url()).await.unwrap();
    on_cluster.mutex("a").lock().await.unwrap().release().await.unwrap();
    let mut redis = cluster.master_of(cluster.slot("a").await).await.unwrap().redis().await;
    assert_eq!(&get(&mut redis, "leasehold:lock:{a}").await.expect("it is kept")[..2], "MF");

    let builder = Locks::builder().assume_durable(true);
    let on_quorum = builder.connect_quorum(masters.urls()).await.unwrap();
    on_quorum.mutex("a").lock().await.unwrap().release().await.unwrap();
    let mut kept = 0;
    for node in masters.nodes() {
        let mut redis = node.redis().await;
        kept += usize::from(get(&mut redis, "leasehold:lock:{a}").await.is_some());
        assert_eq!(get(&mut redis, TOKENS).await, None);
    }
    assert!(kept >= 2, "{kept}");
}
