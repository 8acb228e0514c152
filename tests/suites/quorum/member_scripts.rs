//! The scripts of a quorum's member, where the memory store has no counterpart, or where random
//! cases rarely get. `state_machine` tests all else on both stores.

use leasehold_tests::requests;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use leasehold::store::redis::{RedisStore, Settings};
use leasehold::store::{
    Ask, Attempt, ClientId, Ended, Kind, Owner, Renewal, Repaired, Request, RequestId,
};
use leasehold_tests::server::Server;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Handle;

const SECOND: Duration = Duration::from_secs(1);

/// A server whose clock stands still, a store on it, and another way to it.
async fn start() -> (Server, RedisStore, MultiplexedConnection) {
    let server = Server::start_skewed();
    let (url, settings) = (server.url(), Settings::default());
    let store = RedisStore::connect(&url, &settings, ClientId::random(), Handle::current()).await;
    let raw = server.redis().await;
    server.stop_clock();
    (server, store.expect("the server is there"), raw)
}

fn request(kind: Kind, owner: Option<&str>) -> Request {
    let owner = owner.map(|name| Owner::new(name).expect("a name"));
    Request { owner, ..requests::request("a", kind, SECOND) }
}

fn record(request: &Request) -> String {
    request.key.in_store("leasehold", "lock")
}

#[tokio::test]
async fn a_foreign_string_is_neither_granted_nor_overwritten() {
    let (_server, store, mut raw) = start().await;
    // The second value looks free. The third one is as long as a record, too.
    for theirs in ["theirs", "xF", &format!("xF{:90}", "")] {
        for kind in [Kind::Mutex, Kind::Read, Kind::Write] {
            let request = request(kind, None);
            let key = record(&request);
            redis::cmd("SET").arg(&key).arg(theirs).exec_async(&mut raw).await.unwrap();
            let repaired = store.repair(&request, 1, SECOND).await.unwrap();
            assert_eq!(repaired, Repaired::NotHeld, "{kind:?} over {theirs:?}");
            let vote = store.vote(&request, SECOND).await.unwrap();
            assert!(matches!(vote, Attempt::Busy { expiry_added: true, .. }), "{kind:?}: {vote:?}");
            let still: String = redis::cmd("GET").arg(&key).query_async(&mut raw).await.unwrap();
            assert_eq!(still, theirs, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn a_key_that_is_no_string_is_another_kind() {
    let (_server, store, mut raw) = start().await;
    let key = record(&request(Kind::Mutex, None));
    redis::cmd("HSET").arg(&key).arg("theirs").arg(1).exec_async(&mut raw).await.unwrap();
    for kind in [Kind::Mutex, Kind::Read, Kind::Write] {
        let request = request(kind, None);
        assert_eq!(store.repair(&request, 1, SECOND).await.unwrap(), Repaired::NotHeld, "{kind:?}");
        let vote = store.vote(&request, SECOND).await.unwrap();
        assert!(matches!(vote, Attempt::WrongKind), "{kind:?}: {vote:?}");
    }
}

/// The record may be evicted alone while readers hold the lock.
#[tokio::test]
async fn a_lost_record_is_restored_with_its_token() {
    let (_server, store, mut raw) = start().await;
    let request = request(Kind::Read, None);
    store.vote(&request, Duration::ZERO).await.unwrap();
    redis::cmd("UNLINK").arg(record(&request)).exec_async(&mut raw).await.unwrap();
    let repaired = store.repair(&request, 7, SECOND).await.unwrap();
    assert_eq!(repaired, Repaired::Held { token: 7 });
    assert!(matches!(store.renew(&request).await, Ok(Renewal::Renewed)));
    let repaired = store.repair(&request, 0, Duration::ZERO).await.unwrap();
    assert_eq!(repaired, Repaired::Held { token: 7 }, "it is known again");
}

/// An owner that reads after it wrote may leave a record that ends soon. The clock is then
/// behind the token, because another server's clock was ahead.
#[tokio::test]
async fn a_token_is_not_forgotten_before_the_clock_is_there() {
    let (server, store, _raw) = start().await;
    let [read, write] = [Kind::Read, Kind::Write].map(|kind| request(kind, Some("me")));
    store.vote(&read, Duration::ZERO).await.unwrap();
    server.jump(Duration::from_millis(980));
    let vote = store.vote(&write, Duration::ZERO).await.unwrap();
    let Attempt::Granted { token } = vote else { panic!("{vote:?}") };
    let token = token + 80_000;
    let repaired = store.repair(&write, token, Duration::ZERO).await.unwrap();
    assert_eq!(repaired, Repaired::Held { token });
    assert!(matches!(store.release(&write, Duration::ZERO).await, Ok(Ended::Released)));
    server.jump(Duration::from_millis(30));
    let vote = store.vote(&request(Kind::Write, None), Duration::ZERO).await.unwrap();
    let Attempt::Granted { token: next } = vote else { panic!("{vote:?}") };
    assert!(next > token, "{next} after {token}");
}

/// A server forgets a token with its lease. By then the clock must have reached it, and no later
/// than the end of a next lease.
#[tokio::test]
async fn a_token_that_the_clock_does_not_reach_in_time_is_refused() {
    for kind in [Kind::Mutex, Kind::Write] {
        let (server, store, _raw) = start().await;
        let request = request(kind, None);
        let vote = store.vote(&request, Duration::ZERO).await.unwrap();
        let Attempt::Granted { token: first } = vote else { panic!("{vote:?}") };
        // A grant takes 64 tokens, which are a part of a millisecond.
        for (later_ms, ahead_ms, behind_ms) in [(0, 250, 151), (950, 80, 31)] {
            server.jump(Duration::from_millis(later_ms));
            let token = first + (later_ms + ahead_ms) * 1000;
            let repaired = store.repair(&request, token, Duration::ZERO).await.unwrap();
            let behind = Duration::from_millis(behind_ms);
            assert_eq!(repaired, Repaired::Behind(behind), "{kind:?}, {ahead_ms} ms ahead");
        }
        let token = first + 990_000;
        let repaired = store.repair(&request, token, Duration::ZERO).await.unwrap();
        assert_eq!(repaired, Repaired::Held { token }, "{kind:?}");
    }
}

/// The mark is the writer's alone, and admits no reader of its process.
#[tokio::test]
async fn a_mark_stays_when_another_of_the_writers_process_reads() {
    let (_server, store, _raw) = start().await;
    let write = request(Kind::Write, None);
    let mut again = request(Kind::Read, Some("me"));
    again.id = RequestId::next(write.id.client(), &AtomicU64::new(1));
    for (asks, is_granted) in [
        (request(Kind::Read, Some("me")), true),
        (write, false),
        // Its owner already holds the lock.
        (again, true),
        (request(Kind::Read, None), false),
    ] {
        let vote = store.vote(&asks, SECOND).await.unwrap();
        assert_eq!(matches!(vote, Attempt::Granted { .. }), is_granted, "{asks:?}: {vote:?}");
    }
}
