//! A master dies, and the sentinels make a replica the master.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use leasehold::{Lease, LockError, Locks, LocksBuilder};
use leasehold_tests::sentinel::{Sentinel, until_linked};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{until, work_for};
use redis_server_wrapper::{Direction, FaultProxy};
use tokio::task::JoinSet;

use super::counter::{Counter, NAME, Resource};
use super::{
    BOUND_BEHIND, DEAD, Replicated, a_lost_master_costs_no_update, after_another_took_over,
};

/// No lease ends in the meantime.
const LONG: Duration = Duration::from_secs(60);

/// The time that a replica has for a grant, and that a caller waits.
const WAIT: Duration = Duration::from_millis(200);

impl Replicated for Sentinel {
    async fn start() -> Self {
        Self::start(2, DEAD).await
    }

    fn url(&self) -> String {
        self.url()
    }

    async fn master(&self) -> &Server {
        self.master().await.expect("a master")
    }

    async fn until_replaced(&self, former: &Server) {
        self.until_replaced(former).await;
    }
}

a_lost_master_costs_no_update!(Sentinel);

/// The last token of a lock that a server knows.
async fn token(server: &Server, name: &str) -> u64 {
    let key = format!("leasehold:lock:{{{name}}}");
    let record: Option<String> =
        redis::cmd("GET").arg(key).query_async(&mut server.redis().await).await.unwrap();
    record.map_or(0, |record| record[36..52].parse().unwrap())
}

/// A master and a replica whose copying a test can stop.
pub(super) async fn with_a_link() -> (Sentinel, FaultProxy) {
    let sentinel = Sentinel::start(1, DEAD).await;
    let [master, replica] = sentinel.servers() else { panic!("there are two") };
    let proxy = FaultProxy::spawn(("127.0.0.1", master.port())).await.unwrap();
    let mut follow = redis::cmd("REPLICAOF");
    follow.arg("127.0.0.1").arg(proxy.addr().port());
    follow.exec_async(&mut replica.redis().await).await.unwrap();
    until_linked(replica).await;
    (sentinel, proxy)
}

/// The replica lacks the last writes when it becomes the master. It may grant a held lock, and does
/// not know the tokens of some grants.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_the_replica_lacks_cost_no_update() {
    let (sentinel, proxy) = with_a_link().await;
    let [master, replica] = sentinel.servers() else { panic!("there are two") };
    let counter = Counter::start(&sentinel.url()).await;
    proxy.set_stall(Direction::UpstreamToClient);
    counter.goes_on(100).await;
    assert!(token(replica, NAME).await < token(master, NAME).await);
    master.kill().await;
    drop(proxy);
    sentinel.until_replaced(master).await;
    after_another_took_over(counter, BOUND_BEHIND).await;
}

/// The new master does not know a lease, and grants another beside it. A resource that checks
/// tokens refuses the older one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_tell_two_holders_apart() {
    let (sentinel, proxy) = with_a_link().await;
    let [master, _] = sentinel.servers() else { panic!("there are two") };
    let one = Locks::connect(&sentinel.url()).await.unwrap();
    let other = Locks::connect(&sentinel.url()).await.unwrap();
    proxy.set_stall(Direction::UpstreamToClient);
    let older = one.mutex(NAME).ttl(LONG).auto_renew(false).lock().await.unwrap();
    master.kill().await;
    drop(proxy);
    sentinel.until_replaced(master).await;
    let newer = other.mutex(NAME).ttl(LONG).wait(LONG / 2).lock().await.unwrap();
    assert!(older.is_held() && newer.is_held(), "both hold it for all they know");

    let (mut resource, fence, next) =
        (Resource::default(), older.fence().unwrap(), newer.fence().unwrap());
    let read = resource.read(fence).unwrap();
    let read_next = resource.read(next).expect("its token is greater");
    assert!(resource.write(next, read_next + 1));
    assert!(!resource.write(fence, read + 1), "it would undo the other's update");
    assert!(matches!(older.renew().await, Err(LockError::Lost { .. })));
    newer.release().await.unwrap();
}

/// Takes one lock after another until there is no master, and keeps them.
async fn take(
    builder: LocksBuilder,
    url: String,
    task: usize,
    (answers, stop): (Arc<AtomicU32>, Arc<AtomicBool>),
) -> (Vec<Lease>, u32) {
    let locks = builder.connect(&url).await.unwrap();
    let (mut leases, mut refused) = (Vec::new(), 0);
    while !stop.load(Ordering::SeqCst) {
        let mutex = locks.mutex(format!("{task}:{}", leases.len())).ttl(LONG);
        match mutex.wait(WAIT).lock().await {
            Ok(lease) => leases.push(lease),
            Err(LockError::Store { .. } | LockError::TimedOut { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
        answers.fetch_add(1, Ordering::SeqCst);
        work_for(Duration::from_millis(2)).await;
    }
    (leases, refused)
}

/// Stops the copying, and then kills the master. Returns how many granted leases the new master
/// knows, how many it does not know, and how many acquires failed.
async fn known_and_lost(builder: impl Fn() -> LocksBuilder) -> (u32, u32, u32) {
    let (sentinel, proxy) = with_a_link().await;
    let [master, replica] = sentinel.servers() else { panic!("there are two") };
    let (answers, stop) = (Arc::<AtomicU32>::default(), Arc::<AtomicBool>::default());
    let mut tasks = JoinSet::new();
    for task in 0..4 {
        let shared = (answers.clone(), stop.clone());
        tasks.spawn(take(builder(), sentinel.url(), task, shared));
    }
    let more = async |count: u32| {
        let before = answers.load(Ordering::SeqCst);
        let count = async || answers.load(Ordering::SeqCst) >= before + count;
        until("they have asked for more locks", count).await;
    };
    more(100).await;
    proxy.set_stall(Direction::UpstreamToClient);
    more(20).await;
    master.kill().await;
    stop.store(true, Ordering::SeqCst);
    drop(proxy);
    sentinel.until_replaced(master).await;
    let (mut known, mut lost, mut refused) = (0, 0, 0);
    while let Some(ended) = tasks.join_next().await {
        let (leases, of_task) = ended.unwrap();
        refused += of_task;
        for lease in leases {
            // Its client has seen the master end, so it may have asked the next one already.
            let is_known = match lease.fence() {
                Ok(fence) => token(replica, lease.key().as_ref()).await == u64::from(fence),
                Err(_) => false,
            };
            *(if is_known { &mut known } else { &mut lost }) += 1;
            // There are many, and they end with the servers.
            std::mem::forget(lease);
        }
    }
    println!("{known} known, {lost} lost, {refused} refused");
    (known, lost, refused)
}

/// With `sync_replicas` the replica has every granted lease. Without it some are missing, which
/// shows that the test would find them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn synchronous_grants_are_not_lost_with_the_master() {
    let synced = || Locks::builder().sync_replicas(1, WAIT);
    let (known, lost, refused) = known_and_lost(synced).await;
    assert!(known > 50 && refused > 0, "{known} and {refused} prove little");
    assert_eq!(lost, 0);
    let (_, lost, _) = known_and_lost(Locks::builder).await;
    assert!(lost > 0, "nothing was lost without it, either");
}
