//! Locks on a cluster. Each lock is in one slot.

use leasehold_tests::requests::{Requests, redis_store_of};
use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::store::redis::RedisStore;
use leasehold::store::{
    Adoption, Ask, Attempt, ClientId, Ended, Hint, Kind, QueuePosition, Renewal, Request,
    RequestId, Store, Subscription, Waiting,
};
use leasehold::{LockError, LockKey, Locks, Wait};
use leasehold_tests::cluster::Cluster;
use leasehold_tests::hints::HintRecorder;
use leasehold_tests::kinds::{self, EVERY_KIND, Guard, hand_over_each};
use leasehold_tests::rights::{LOGIN, Rights, assert_nothing_was_refused};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::until;
use redis::FromRedisValue;
use tokio::time::timeout;

/// Much longer than anything here takes.
const SOON: Duration = Duration::from_secs(60);

const PERMIT: Kind = Kind::Semaphore { limit: 1, weight: 1 };

struct Client {
    store: RedisStore,
    requests: Requests,
    hints: HintRecorder,
}

impl Client {
    async fn connect(cluster: &Cluster) -> Self {
        Self::to(&cluster.url()).await
    }

    async fn to(url: &str) -> Self {
        let id = ClientId::random();
        let store = redis_store_of(url, id).await;
        let hints = HintRecorder::new(&store, id);
        Self { store, requests: Requests::of(id), hints }
    }

    fn request(&self, name: &str, kind: Kind) -> Request {
        self.requests.next(name, kind, Duration::from_secs(30))
    }

    async fn take(&self, name: &str, kind: Kind) -> Request {
        let request = self.request(name, kind);
        let granted = self.store.acquire(&request, None).await.unwrap();
        assert!(matches!(granted, Attempt::Granted { .. }), "{granted:?}");
        request
    }

    async fn queue(&self, name: &str, kind: Kind) -> (Request, Subscription) {
        let request = self.request(name, kind);
        let subscription = self.store.subscribe(&request).expect("a cluster").await.unwrap();
        let position = QueuePosition::New { age: Duration::ZERO };
        let waiting = Waiting { live: Duration::from_secs(14), position };
        let queued = self.store.acquire(&request, Some(waiting)).await.unwrap();
        assert!(matches!(queued, Attempt::Queued { .. }), "{queued:?}");
        (request, subscription)
    }

    async fn release(&self, request: &Request) {
        let released = self.store.release(request, Duration::ZERO).await.unwrap();
        assert_eq!(released, Ended::Released);
    }

    /// The next offer. Other hints are skipped.
    async fn offer(&mut self) -> RequestId {
        loop {
            let hint = timeout(SOON, self.hints.received.recv()).await.expect("a hint");
            if let Hint::Offered { id, .. } = hint.expect("the sender is there") {
                return id;
            }
        }
    }

    /// Waits for the hint that others may have been missed.
    async fn missed(&mut self) {
        let missed = async { while self.hints.received.recv().await != Some(Hint::Missed) {} };
        timeout(SOON, missed).await.expect("it is told");
    }

    /// `first` hands over a lock, and this client receives the offer. Its subscription exists.
    async fn is_handed(&mut self, first: &Self, name: &str) {
        let held = first.take(name, Kind::Mutex).await;
        let (waiting, _subscription) = self.queue(name, Kind::Mutex).await;
        first.release(&held).await;
        assert_eq!(self.offer().await, waiting.id);
        self.release(&waiting).await;
    }
}

/// The answers of all masters.
async fn ask_all<T: FromRedisValue>(cluster: &Cluster, line: &str) -> Vec<T> {
    let mut answers = Vec::new();
    for node in cluster.nodes() {
        let mut words = line.split(' ');
        let mut command = redis::cmd(words.next().expect("a command"));
        command.arg(words.collect::<Vec<_>>());
        answers.push(command.query_async(&mut node.redis().await).await.expect(line));
    }
    answers
}

/// Waits until clients are subscribed to so many channels.
async fn until_subscribed(cluster: &Cluster, channels: usize) {
    let all = async || ask_all::<Vec<String>>(cluster, "PUBSUB SHARDCHANNELS").await.concat();
    let what = format!("{channels} channels have subscribers");
    until(&what, async || all().await.len() == channels).await;
}

/// Waits until no client is subscribed to anything.
async fn until_nobody_is_subscribed(cluster: &Cluster) {
    until_subscribed(cluster, 0).await;
}

#[tokio::test]
async fn hints_hand_over_locks_of_every_node() {
    let cluster = Cluster::start().await;
    let (first, mut second) = (Client::connect(&cluster).await, Client::connect(&cluster).await);
    for n in 0..12 {
        for (kind, letter) in [(Kind::Mutex, "m"), (PERMIT, "s")] {
            let name = format!("{letter}:{n}");
            let held = first.take(&name, kind).await;
            let (waiting, _subscription) = second.queue(&name, kind).await;
            first.release(&held).await;
            assert_eq!(second.offer().await, waiting.id);
            second.release(&waiting).await;
        }
    }
    for stats in ask_all::<String>(&cluster, "INFO commandstats").await {
        assert!(stats.contains("cmdstat_spublish:") && stats.contains("cmdstat_evalsha:"));
        assert!(!stats.contains("cmdstat_publish:"), "{stats}");
    }
    until_nobody_is_subscribed(&cluster).await;
}

/// Several waiters of one lock share a subscription, and the last ends it.
#[tokio::test]
async fn clients_share_subscriptions_and_end_them() {
    let cluster = Cluster::start().await;
    let (first, mut second) = (Client::connect(&cluster).await, Client::connect(&cluster).await);
    for _ in 0..20 {
        let held = first.take("a", Kind::Mutex).await;
        let (one, of_one) = second.queue("a", Kind::Mutex).await;
        let (other, of_other) = second.queue("a", Kind::Mutex).await;
        drop(of_one);
        first.release(&held).await;
        assert_eq!(second.offer().await, one.id);
        second.release(&one).await;
        assert_eq!(second.offer().await, other.id);
        // The next round subscribes while this one unsubscribes.
        drop(of_other);
        second.release(&other).await;
    }
    until_nobody_is_subscribed(&cluster).await;
    drop((first, second));
    let clients = async || ask_all::<String>(&cluster, "CLIENT LIST").await;
    // The list contains only the connection that asks.
    until("no connection is left", async || {
        clients().await.iter().all(|list| list.lines().count() == 1)
    })
    .await;
}

#[tokio::test]
async fn locks_work_and_keep_their_keys_together() {
    let cluster = Cluster::start().await;
    let locks = async || Locks::builder().connect(&cluster.url()).await.unwrap();
    let (first, second) = (locks().await, locks().await);
    let mut slots = HashSet::new();
    for name in (0..12).map(|n| format!("order:{n}")).chain(["{tag}:a".into(), "a{b}{c}".into()]) {
        let permits = format!("permits:{name}");
        let lease = first.mutex(&name).lock().await.unwrap();
        let permit = first.semaphore(&permits, 1).acquire().await.unwrap();
        let waiting = tokio::spawn({
            let (mutex, semaphore) = (second.mutex(&name), second.semaphore(&permits, 1));
            async move {
                let lease = mutex.wait(Wait::Forever).lock().await.unwrap();
                let permit = semaphore.wait(Wait::Forever).acquire().await.unwrap();
                lease.release().await.unwrap();
                permit.release().await.unwrap();
            }
        });
        lease.release().await.unwrap();
        permit.release().await.unwrap();
        waiting.await.unwrap();
        let key = LockKey::new(&name).unwrap();
        let roles = ["lock", "holders", "queue", "waiters", "wake"];
        let keys = roles.map(|role| key.in_store("leasehold", role));
        let mut of_one = HashSet::new();
        for key in keys {
            let line = format!("CLUSTER KEYSLOT {key}");
            of_one.insert(ask_all::<u16>(&cluster, &line).await[0]);
        }
        assert_eq!(of_one.len(), 1, "{name}");
        slots.extend(of_one);
    }
    assert!(slots.len() > 6);
    for keys in ask_all::<Vec<String>>(&cluster, "KEYS leasehold:lock:*").await {
        assert!(!keys.is_empty(), "each master has some");
    }
    drop((first, second));
    until_nobody_is_subscribed(&cluster).await;
}

#[tokio::test]
async fn hints_come_again_after_lost_connections() {
    let cluster = Cluster::start().await;
    let (first, mut second) = (Client::connect(&cluster).await, Client::connect(&cluster).await);
    for name in ["a", "b", "c", "d"] {
        let subscription =
            second.store.subscribe(&second.request(name, Kind::Mutex)).unwrap().await;
        let subscription = subscription.unwrap();
        second.is_handed(&first, name).await;
        let _ = ask_all::<u32>(&cluster, "CLIENT KILL TYPE pubsub").await;
        second.missed().await;
        second.is_handed(&first, name).await;
        drop(subscription);
    }
    until_nobody_is_subscribed(&cluster).await;
}

/// One command for all channels of a node would be refused: they are in several slots.
#[tokio::test]
async fn hints_of_many_slots_come_again_after_lost_connections() {
    let cluster = Cluster::start().await;
    let (first, mut second) = (Client::connect(&cluster).await, Client::connect(&cluster).await);
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut subscriptions = Vec::new();
    for name in names {
        let request = second.request(name, Kind::Mutex);
        subscriptions.push(second.store.subscribe(&request).unwrap().await.unwrap());
    }
    for _ in 0..3 {
        let _ = ask_all::<u32>(&cluster, "CLIENT KILL TYPE pubsub").await;
        second.missed().await;
        until_subscribed(&cluster, names.len()).await;
        for name in names {
            second.is_handed(&first, name).await;
        }
    }
    drop(subscriptions);
    until_nobody_is_subscribed(&cluster).await;
}

#[tokio::test]
async fn hints_follow_a_slot_that_moves() {
    let cluster = Cluster::start().await;
    let (first, mut second) = (Client::connect(&cluster).await, Client::connect(&cluster).await);
    let ids = ask_all::<String>(&cluster, "CLUSTER MYID").await;
    let slot = ask_all::<u16>(&cluster, "CLUSTER KEYSLOT {a}").await[0];
    let owner = usize::from(slot > 5460) + usize::from(slot > 10922);
    let subscription = second.store.subscribe(&second.request("a", Kind::Mutex)).unwrap().await;
    for step in 1..=2 {
        let to = (owner + step) % 3;
        let bump = redis::cmd("CLUSTER").arg("BUMPEPOCH").clone();
        bump.exec_async(&mut cluster.nodes()[to].redis().await).await.unwrap();
        // All its keys must be gone, so they do not have to be moved.
        let flush = redis::cmd("FLUSHALL");
        for node in cluster.nodes() {
            flush.exec_async(&mut node.redis().await).await.unwrap();
        }
        let _ =
            ask_all::<String>(&cluster, &format!("CLUSTER SETSLOT {slot} NODE {}", ids[to])).await;
        second.missed().await;
        second.is_handed(&first, "a").await;
        let there = cluster.nodes()[to].redis().await;
        let shard: Vec<String> = redis::cmd("PUBSUB")
            .arg("SHARDCHANNELS")
            .query_async(&mut there.clone())
            .await
            .unwrap();
        assert_eq!(shard.len(), 1, "{shard:?}");
    }
    drop(subscription);
    until_nobody_is_subscribed(&cluster).await;
}

/// A former master is a replica afterwards, and takes subscriptions without a word. But scripts on the
/// master count no receiver there.
#[tokio::test]
async fn hints_follow_a_master_that_becomes_a_replica() {
    let cluster = Cluster::start_with(1, Duration::from_secs(5)).await;
    let (first, mut second) = (Client::connect(&cluster).await, Client::connect(&cluster).await);
    let slot = cluster.slot("a").await;
    // From now on there are connections.
    drop(second.store.subscribe(&second.request("a", Kind::Mutex)).unwrap().await.unwrap());
    until_nobody_is_subscribed(&cluster).await;
    for _ in 0..2 {
        // It is refused until the replica has all of the data.
        until("another is the master", async || cluster.hand_over(slot).await).await;
        let held = second.take("a", Kind::Mutex).await;
        second.release(&held).await;
        let subscription = second.store.subscribe(&second.request("a", Kind::Mutex)).unwrap().await;
        let master = cluster.until_master_of(slot).await;
        let mut redis = master.redis().await;
        let channels = redis::cmd("PUBSUB").arg("SHARDCHANNELS").clone();
        until("its subscription follows the master", async || {
            !channels.query_async::<Vec<String>>(&mut redis).await.unwrap().is_empty()
        })
        .await;
        second.is_handed(&first, "a").await;
        drop(subscription);
    }
}

/// A replica takes subscriptions without a word, also while its master lets nobody in.
#[tokio::test]
async fn hints_do_not_stay_with_a_replica() {
    let cluster = Cluster::start_with(1, Duration::from_secs(5)).await;
    let (first, mut second) = (Client::connect(&cluster).await, Client::connect(&cluster).await);
    let subscription = second.store.subscribe(&second.request("a", Kind::Mutex)).unwrap().await;
    let master = cluster.until_master_of(cluster.slot("a").await).await;
    let mut redis = master.redis().await;
    let mut limit = redis::cmd("CONFIG");
    limit.arg("SET").arg("maxclients");
    limit.clone().arg(1).exec_async(&mut redis).await.unwrap();
    let kill = redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("pubsub").clone();
    assert_eq!(kill.query_async::<u32>(&mut redis).await.unwrap(), 1);
    let info = redis::cmd("INFO").arg("stats").clone();
    let few = ["0", "1", "2"].map(|count| format!("rejected_connections:{count}\r"));
    until("the client tries to come back", async || {
        let stats: String = info.query_async(&mut redis).await.unwrap();
        !few.iter().any(|few| stats.contains(few))
    })
    .await;
    // It knows of the loss before it is back: another client may have what is idle here.
    timeout(SOON, second.missed()).await.expect("it is told at once");
    limit.arg(1_000).exec_async(&mut redis).await.unwrap();
    let channels = redis::cmd("PUBSUB").arg("SHARDCHANNELS").clone();
    until("it is subscribed at the master", async || {
        !channels.query_async::<Vec<String>>(&mut redis).await.unwrap().is_empty()
    })
    .await;
    second.missed().await;
    second.is_handed(&first, "a").await;
    drop(subscription);
}

/// A master that does not answer costs time once, and not for each of its locks.
#[tokio::test]
async fn hints_of_many_locks_leave_a_silent_master() {
    const LOCKS: usize = 200;
    let cluster = Cluster::start_with(1, Duration::from_secs(5)).await;
    let client = Client::connect(&cluster).await;
    let mut subscriptions = Vec::new();
    for lock in 0..LOCKS {
        let request = client.request(&format!("of:{{a}}:{lock}"), Kind::Mutex);
        subscriptions.push(client.store.subscribe(&request).unwrap().await.unwrap());
    }
    let slot = cluster.slot("a").await;
    let former = cluster.until_master_of(slot).await.port();
    let others = cluster.nodes().iter().filter(|node| node.port() != former);
    let mut others = join_all(others.map(Server::redis)).await;
    let channels = redis::cmd("PUBSUB").arg("SHARDCHANNELS").clone();
    let have_moved = until("the subscriptions have moved", async || {
        for redis in &mut others {
            let there: Vec<String> = channels.query_async(redis).await.unwrap();
            if there.len() == LOCKS {
                return true;
            }
        }
        false
    });
    // The client finds that it is silent within six seconds, and then who has taken over.
    tokio::select! {
        () = have_moved => {}
        _ = cluster.fail_over(slot, SOON) => panic!("they wait for it"),
    }
    drop(subscriptions);
}

/// All keys of a lock are in one slot, for every kind of lock; a client's record is found
/// on any node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_lock_works() {
    let cluster = Cluster::start().await;
    let locks = Locks::builder().service("billing").connect(&cluster.url()).await.unwrap();
    crate::kinds::every_kind_and_question(&locks).await;
    let lease = locks.rw_lock("known").read().await.unwrap();
    // The client writes its record in the background.
    while locks.inspect("known").await.unwrap().holders[0].client.is_none() {
        tokio::task::yield_now().await;
    }
    lease.release().await.unwrap();
}

/// The nodes of one cluster share neither scripts nor slots.
#[tokio::test]
async fn leases_of_all_nodes_are_adopted_and_renewed_in_batches() {
    let cluster = Cluster::start().await;
    let (first, second) = (Client::connect(&cluster).await, Client::connect(&cluster).await);
    let (mut heirs, mut former) = (Vec::new(), Vec::new());
    for kind in [Kind::Mutex, PERMIT] {
        for name in ["a", "b", "c", "d", "e", "f"] {
            let name = format!("{name}:{}", kind.is_fenced());
            let from = first.take(&name, kind).await;
            let heir = second.request(&name, kind);
            let adopted = second.store.adopt(from.id.into(), &heir).await.unwrap();
            assert!(matches!(adopted, Adoption::Adopted { .. }), "{adopted:?}");
            heirs.push(heir);
            former.push(from);
        }
    }
    let _ = ask_all::<String>(&cluster, "SCRIPT FLUSH").await;
    let both: Vec<_> = heirs.iter().zip(&former).flat_map(|(one, other)| [one, other]).collect();
    let both: Vec<_> = both.into_iter().cloned().collect();
    for (nth, renewal) in second.store.renew_all(&both).await.into_iter().enumerate() {
        assert_eq!(renewal.unwrap() == Renewal::Renewed, nth % 2 == 0, "{:?}", both[nth]);
    }
    assert!(second.store.renew_all(&[]).await.is_empty());
    for heir in &heirs {
        second.release(heir).await;
    }
}

/// A cluster, and the URL of a user with exactly the rights that docs/keys.md lists for one.
async fn with_few_rights() -> (Cluster, String) {
    let cluster = Cluster::start().await;
    let user = Rights::of_the_docs().also("On a cluster, add `…`:");
    user.give(cluster.nodes()).await;
    let url = cluster.url_as(LOGIN);
    (cluster, url)
}

#[tokio::test]
async fn the_documented_rights_are_enough() {
    let (cluster, url) = with_few_rights().await;
    let (first, mut second) = (Client::to(&url).await, Client::to(&url).await);
    for name in ["a", "b", "c", "d", "e", "f"] {
        second.is_handed(&first, name).await;
    }
    let (first, second) =
        (Locks::connect(&url).await.unwrap(), Locks::connect(&url).await.unwrap());
    hand_over_each(&first, &second).await;
    crate::kinds::every_kind_and_question(&first).await;
    assert_nothing_was_refused(cluster.nodes()).await;
}

/// The former master redirects requests for moved keys. Both masters refuse a command whose keys
/// are split over the two until the slot has moved.
#[tokio::test]
async fn the_documented_rights_are_enough_during_a_slot_migration() {
    const LONG: Duration = Duration::from_secs(60);
    let (cluster, url) = with_few_rights().await;
    let locks = Locks::connect(&url).await.unwrap();
    let mut guards = Vec::new();
    for (nth, kind) in EVERY_KIND.into_iter().enumerate() {
        guards.push(kind.lock(&locks, &format!("{{moving}}:{nth}"), LONG).await.unwrap());
    }
    let slot = cluster.slot("moving").await;
    let master = cluster.master_of(slot).await.expect("a master").port();
    let other = cluster.nodes().iter().find(|node| node.port() != master).expect("another");
    cluster.begin_to_migrate(slot, other).await;
    for lease in guards.iter().flat_map(Guard::leases) {
        lease.renew().await.unwrap();
    }
    let (asked, _) = other.stats("asking").await;
    assert!(asked >= guards.len() as u64, "it was asked {asked} times");
    let acquiring = tokio::spawn(kinds::Kind::Mutex.lock(&locks, "{moving}:new", LONG));
    while other.stats("asking").await.0 == asked {
        tokio::task::yield_now().await;
    }
    cluster.migrate(slot, other).await;
    acquiring.await.unwrap().unwrap().release().await.unwrap();
    for guard in guards {
        guard.release().await.unwrap();
    }
    assert_nothing_was_refused(cluster.nodes()).await;
}

/// A reader may try to write but not wait for it, on a cluster as elsewhere.
#[tokio::test]
async fn a_reader_that_asks_to_write_would_deadlock() {
    let cluster = Cluster::start().await;
    let builder = Locks::builder();
    let locks = builder.connect(&cluster.url()).await.unwrap();
    let mine = locks.rw_lock("a").owner("me");
    let read = mine.read().await.unwrap();
    let refused = mine.write().await;
    assert!(matches!(refused, Err(LockError::WouldDeadlock { .. })), "{refused:?}");
    mine.try_write().await.unwrap().release().await.unwrap();
    read.release().await.unwrap();
    mine.write().await.unwrap().release().await.unwrap();
}
