//! The record of a lock was deleted by hand or evicted. Its holders still hold it. In memory a lock
//! is one value, so no part of it can be lost.

use leasehold_tests::requests::Requests;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::store::redis::{RedisStore, Settings};
use leasehold::store::{
    Adoption, All, Ask, Attempt, ClientId, Ended, Kind, NotAll, Owner, QueuePosition, Renewal,
    Repaired, Request, Waiting,
};
use leasehold::{Forced, LockInfo, LockKey, LockKind, LossReason};
use leasehold_tests::cluster::Cluster;
use leasehold_tests::rights::{LOGIN, Rights, assert_nothing_was_refused};
use leasehold_tests::server::Server;
use tokio::runtime::Handle;

const SOON: Duration = Duration::from_secs(5);

/// Every way to hold a lock that others may hold too, at least in principle.
const HELD: [(Kind, Option<&str>); 8] = [
    (Kind::Reentrant, Some("me")),
    (permit(1), None),
    (permit(3), None),
    (permit(1), Some("me")),
    (Kind::Read, None),
    (Kind::Read, Some("me")),
    (Kind::Write, None),
    (Kind::Write, Some("me")),
];

/// Every way to ask. No owner here is another's.
const ASKS: [(Kind, Option<&str>); 5] = [
    (Kind::Mutex, None),
    (Kind::Reentrant, Some("you")),
    (permit(1), None),
    (Kind::Read, None),
    (Kind::Write, None),
];

const fn permit(weight: u32) -> Kind {
    Kind::Semaphore { limit: 3, weight }
}

/// Servers, a store on them, and a counter for request ids.
struct Bench<'a> {
    servers: &'a [Server],
    store: RedisStore,
    requests: Requests,
}

impl<'a> Bench<'a> {
    /// A store of a user with the rights of the docs, and no others.
    async fn new(servers: &'a [Server], rights: Rights, url: &str) -> Self {
        rights.give(servers).await;
        let client = ClientId::random();
        let settings = Settings { command_timeout: SOON, ..Settings::default() };
        let store = RedisStore::connect(url, &settings, client, Handle::current()).await.unwrap();
        Self { servers, store, requests: Requests::of(client) }
    }

    fn request(&self, name: &str, (kind, owner): (Kind, Option<&str>)) -> Request {
        let owner = owner.map(|it| Owner::new(it).unwrap());
        Request { owner, ..self.requests.next(name, kind, Duration::from_secs(60)) }
    }

    async fn ask(&self, request: &Request) -> Attempt {
        self.store.acquire(request, None).await.unwrap()
    }

    /// Acquires a lock and deletes its record.
    async fn hold(&self, name: &str, how: (Kind, Option<&str>)) -> Request {
        let request = self.request(name, how);
        assert!(matches!(self.ask(&request).await, Attempt::Granted { .. }), "{request:?}");
        self.lose(&request.key).await;
        request
    }

    /// Deletes a record.
    async fn lose(&self, key: &LockKey) {
        let (record, mut deleted) = (key.in_store("leasehold", "lock"), 0);
        for server in self.servers {
            // On a cluster, all nodes but one say that the key is not theirs.
            let mut redis = server.redis().await;
            deleted += redis::cmd("DEL").arg(&record).query_async(&mut redis).await.unwrap_or(0);
        }
        assert_eq!(deleted, 1, "{record} was there");
    }

    async fn look(&self, request: &Request) -> LockInfo {
        self.store.inspect(&request.key).await.unwrap()
    }
}

fn of(kind: Kind) -> LockKind {
    match kind {
        Kind::Mutex | Kind::Once(_) => LockKind::Mutex,
        Kind::Reentrant => LockKind::ReentrantMutex,
        Kind::Semaphore { .. } => LockKind::Semaphore,
        Kind::Read | Kind::Write => LockKind::RwLock,
    }
}

/// True if a request may have the lock beside the holder. `None` if it is of another kind.
fn is_free_beside(held: Kind, asks: Kind) -> Option<bool> {
    (of(held) == of(asks)).then_some(match (held, asks) {
        (Kind::Semaphore { weight, .. }, Kind::Semaphore { .. }) => weight < 3,
        (Kind::Read, Kind::Read) => true,
        _ => false,
    })
}

async fn who_holds_is_found(bench: &Bench<'_>) {
    for (place, how) in HELD.into_iter().enumerate() {
        let held = bench.hold(&format!("seen-{place}"), how).await;
        // Twice, because looking must change nothing.
        for _ in 0..2 {
            let info = bench.look(&held).await;
            assert_eq!((info.held, info.kind), (1, Some(of(how.0))), "{info:?}");
            let holder = &info.holders[0];
            assert_eq!(holder.owner.as_deref(), how.1);
            assert_eq!(holder.is_writer, how.0 == Kind::Write);
            // The token was in the record, and said since when.
            let is_fenced = matches!(how.0, Kind::Write | Kind::Reentrant);
            assert!(holder.fence.is_none(), "{holder:?}");
            assert_eq!(holder.held_for.is_none(), is_fenced, "{holder:?}");
            assert!(holder.remaining > Duration::from_secs(30), "{holder:?}");
        }
        let is_held_by = async |name: &str| {
            bench.store.is_held_by(&held.key, &Owner::new(name).unwrap()).await.unwrap()
        };
        assert_eq!([is_held_by("me").await, is_held_by("you").await], [how.1.is_some(), false]);
        let forced =
            bench.store.force_release(&held.key, leasehold_tests::requests::force()).await.unwrap();
        assert!(matches!(forced, Forced::Released { held: 1, .. }), "{how:?}: {forced:?}");
        assert!(bench.store.was_forced(&held).await.unwrap());
        assert_eq!(bench.look(&held).await.held, 0);
        let mutex = bench.request(held.key.name(), ASKS[0]);
        assert!(matches!(bench.ask(&mutex).await, Attempt::Granted { .. }), "{how:?} was forced");
    }
}

async fn only_compatible_requests_are_granted(bench: &Bench<'_>) {
    let waiting = |live| Waiting { live, position: QueuePosition::New { age: Duration::ZERO } };
    let waiting = Some(waiting(Duration::from_secs(6)));
    for (place, how) in HELD.into_iter().enumerate() {
        for (asked, asks) in ASKS.into_iter().enumerate() {
            let held = bench.hold(&format!("pair-{place}-{asked}"), how).await;
            let what = format!("{how:?}, then {asks:?}");
            // A cancelled ask is remembered, and must not make the name look free.
            let cancelled = bench.request(held.key.name(), asks);
            assert!(!bench.store.cancel(&cancelled).await.unwrap(), "{what}");
            let request = bench.request(held.key.name(), asks);
            let answer = bench.ask(&request).await;
            let granted = match is_free_beside(how.0, asks.0) {
                None => matches!(answer, Attempt::WrongKind),
                Some(true) => matches!(answer, Attempt::Granted { .. }),
                Some(false) => matches!(answer, Attempt::Busy { expiry_added: false, .. }),
            };
            assert!(granted, "{what}: {answer:?}");
            let waits = bench.store.acquire(&bench.request(held.key.name(), asks), waiting).await;
            match is_free_beside(how.0, asks.0) {
                None => assert_eq!(waits.unwrap(), Attempt::WrongKind, "{what}"),
                Some(true) => assert!(matches!(waits, Ok(Attempt::Granted { .. })), "{what}"),
                Some(false) => assert!(matches!(waits, Ok(Attempt::Queued { .. })), "{what}"),
            }
            // The former holders still hold the lock, and release it.
            assert_eq!(bench.store.renew(&held).await.unwrap(), Renewal::Renewed, "{what}");
            let released = bench.store.release(&held, Duration::ZERO).await.unwrap();
            assert_eq!(released, Ended::Released, "{what}");
        }
    }
}

async fn what_it_leaves_is_freed(bench: &Bench<'_>) {
    for (place, how) in HELD.into_iter().enumerate() {
        let held = bench.hold(&format!("freed-{place}"), how).await;
        let released = bench.store.release(&held, Duration::ZERO).await.unwrap();
        assert_eq!(released, Ended::Released, "{how:?}");
        let mutex = bench.request(held.key.name(), ASKS[0]);
        assert!(matches!(bench.ask(&mutex).await, Attempt::Granted { .. }), "{how:?}");
    }
    // A holder that only the record names has lost it.
    let lost = bench.hold("mutex", ASKS[0]).await;
    assert_eq!(bench.look(&lost).await.held, 0);
    assert_eq!(
        bench.store.force_release(&lost.key, leasehold_tests::requests::force()).await.unwrap(),
        Forced::NotHeld
    );
    let renewal = bench.store.renew(&lost).await.unwrap();
    assert_eq!(renewal, Renewal::NotHeld(LossReason::Expired));
    let next = bench.request("mutex", HELD[1]);
    assert!(matches!(bench.ask(&next).await, Attempt::Granted { .. }));
}

async fn batches_see_it(bench: &Bench<'_>) {
    for (place, how) in HELD.into_iter().enumerate() {
        // Names with one tag are in one slot.
        let name = |of: &str| format!("{of}:{{{place}}}");
        let held = bench.hold(&name("held"), how).await;
        let ask = |of: &str| bench.request(&name(of), ASKS[0]);
        let all: All =
            bench.store.acquire_all(&[ask("free"), ask("held")], &[]).unwrap().await.unwrap();
        assert_eq!(all, Err(NotAll::Busy(1)), "{how:?}");
        for asks in [ASKS[0], ASKS[2]] {
            let requests = ["a", "held", "b"].map(|of| bench.request(&name(of), asks));
            let each = requests.iter().map(|request| bench.store.acquire(request, None));
            let answers = join_all(each).await;
            for (of, (request, answer)) in requests.iter().zip(answers).enumerate() {
                let is_granted = matches!(answer, Ok(Attempt::Granted { .. }));
                let may_have = of != 1 || is_free_beside(how.0, asks.0) == Some(true);
                assert_eq!(is_granted, may_have, "{asks:?} beside {how:?}: {answer:?}");
                let _ = bench.store.release(request, Duration::ZERO).await.unwrap();
            }
        }
        assert_eq!(bench.store.renew(&held).await.unwrap(), Renewal::Renewed);
    }
}

/// The commands of a quorum's member.
async fn votes_and_repairs_see_it(bench: &Bench<'_>) {
    const TTL: Duration = Duration::from_secs(60);
    for (place, how) in HELD.into_iter().enumerate() {
        for (asked, asks) in [ASKS[0], ASKS[3], ASKS[4]].into_iter().enumerate() {
            let what = format!("{how:?}, then {asks:?}");
            let held = bench.hold(&format!("node-{place}-{asked}"), how).await;
            let is_free = is_free_beside(how.0, asks.0) == Some(true);
            let repair = bench.request(held.key.name(), asks);
            let repaired = bench.store.repair(&repair, 7, TTL).await.unwrap();
            assert_eq!(matches!(repaired, Repaired::Held { .. }), is_free, "{what}: {repaired:?}");
            bench.lose_if_there(&held.key).await;
            let vote = bench.request(held.key.name(), asks);
            let vote = bench.store.vote(&vote, Duration::ZERO).await.unwrap();
            assert_eq!(matches!(vote, Attempt::Granted { .. }), is_free, "{what}: {vote:?}");
            if matches!(how.0, Kind::Read | Kind::Write) {
                bench.lose_if_there(&held.key).await;
                let repaired = bench.store.repair(&held, 7, Duration::ZERO).await.unwrap();
                assert_eq!(repaired, Repaired::Held { token: 7 }, "{what}");
            }
        }
    }
}

async fn it_is_adopted(bench: &Bench<'_>) {
    for (place, how) in HELD.into_iter().enumerate() {
        let held = bench.hold(&format!("adopted-{place}"), how).await;
        let heir = bench.request(held.key.name(), how);
        let adopted = bench.store.adopt(held.id.into(), &heir).await.unwrap();
        assert!(matches!(adopted, Adoption::Adopted { .. }), "{how:?}: {adopted:?}");
        assert_eq!(bench.store.renew(&heir).await.unwrap(), Renewal::Renewed);
        let again =
            bench.store.adopt(held.id.into(), &bench.request(held.key.name(), how)).await.unwrap();
        assert_eq!(again, Adoption::NotHeld(LossReason::Taken), "{how:?}");
    }
}

impl Bench<'_> {
    /// Deletes a record, if there is one.
    async fn lose_if_there(&self, key: &LockKey) {
        for server in self.servers {
            let _: redis::RedisResult<u32> = redis::cmd("DEL")
                .arg(key.in_store("leasehold", "lock"))
                .query_async(&mut server.redis().await)
                .await;
        }
    }
}

/// The rights that the docs name are enough.
#[tokio::test]
async fn holders_survive_a_deleted_record() {
    let server = [Server::start()];
    let url = server[0].url_as(LOGIN);
    let bench = Bench::new(&server, Rights::of_the_docs(), &url).await;
    who_holds_is_found(&bench).await;
    only_compatible_requests_are_granted(&bench).await;
    what_it_leaves_is_freed(&bench).await;
    batches_see_it(&bench).await;
    votes_and_repairs_see_it(&bench).await;
    it_is_adopted(&bench).await;
    assert_nothing_was_refused(&server).await;
}

/// The scripts declare all keys that they read. All are in the lock's slot.
#[tokio::test]
async fn holders_on_a_cluster_survive_a_deleted_record() {
    let cluster = Cluster::start().await;
    let rights = Rights::of_the_docs().also("On a cluster, add `…`:");
    let bench = Bench::new(cluster.nodes(), rights, &cluster.url_as(LOGIN)).await;
    who_holds_is_found(&bench).await;
    only_compatible_requests_are_granted(&bench).await;
    what_it_leaves_is_freed(&bench).await;
    batches_see_it(&bench).await;
    it_is_adopted(&bench).await;
    assert_nothing_was_refused(cluster.nodes()).await;
}
