//! Slots move with their locks while locks of all kinds are acquired and released.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::{LockError, Locks};
use leasehold_tests::cluster::Cluster;
use leasehold_tests::kinds::Kind::{self, All, Mutex, Permits, Read, Reentrant, Write};
use leasehold_tests::kinds::LIMIT;
use leasehold_tests::waiting::{until, until_outlived, work_for};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Longer than the test, so any loss is a bug.
const TTL: Duration = Duration::from_secs(60);

/// A reader takes one part of a read-write lock, a writer all.
const PARTS: u32 = 100;

/// Locks in one slot: a name, the kinds that two clients acquire, and its capacity. Four holds of
/// one owner may overlap.
const LOCKS: [(&str, [[Kind; 2]; 2], u32); 5] = [
    ("mutex", [[Mutex, Mutex], [Mutex, Mutex]], 1),
    ("reentrant", [[Reentrant("a"), Reentrant("b")], [Reentrant("c"), Reentrant("d")]], 1),
    ("permits", [[Permits(1), Permits(2)], [Permits(1), Permits(2)]], LIMIT),
    ("rw", [[Read, Write], [Read, Write]], PARTS),
    ("all", [[All, Mutex], [All, Mutex]], 1),
];

/// The part of its lock that a kind takes.
fn share(kind: Kind) -> u32 {
    match kind {
        Permits(weight) => weight,
        Write => PARTS,
        Mutex | Reentrant(_) | Read | All => 1,
    }
}

/// Acquires and releases, and checks that never more are inside than there is room for.
async fn come_and_go(
    locks: Locks,
    name: String,
    kind: Kind,
    (inside, room): (Arc<AtomicU32>, u32),
    (rounds, stop): (Arc<AtomicU64>, Arc<AtomicBool>),
) {
    while !stop.load(Ordering::SeqCst) {
        let guard = kind.lock(&locks, &name, TTL).await.unwrap();
        let before = inside.fetch_add(share(kind), Ordering::SeqCst);
        assert!(before + share(kind) <= room, "{kind:?}: {before} of {room} are taken");
        work_for(Duration::from_millis(1)).await;
        assert!(guard.is_held(), "{guard:?}");
        inside.fetch_sub(share(kind), Ordering::SeqCst);
        guard.release().await.unwrap();
        rounds.fetch_add(1, Ordering::SeqCst);
    }
}

/// Asks and mostly gives up on the way, or asks without waiting. If an acquire that is redirected
/// to another node overtook its cancel, it would block the lock for a TTL.
async fn give_up(locks: Locks, name: String, kind: Kind, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::SeqCst) {
        let patience = Duration::from_micros(fastrand::u64(..3000));
        if let Ok(guard) = timeout(patience, kind.lock(&locks, &name, TTL)).await {
            guard.unwrap().release().await.unwrap();
        }
        match kind.try_lock(&locks, &name, TTL).await {
            Ok(guard) => guard.release().await.unwrap(),
            Err(LockError::Busy { .. }) => {}
            Err(other) => panic!("{other}"),
        }
        work_for(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_migration_disturbs_nobody() {
    let cluster = Cluster::start().await;
    let (stop, mut tasks) = (Arc::<AtomicBool>::default(), JoinSet::new());
    let connect = async || Locks::connect(&cluster.url()).await.unwrap();
    let clients = [connect().await, connect().await];
    let mut rounds = Vec::new();
    for (lock, wishes, room) in LOCKS {
        let inside = Arc::<AtomicU32>::default();
        for (locks, kinds) in clients.iter().zip(wishes) {
            for kind in kinds {
                let (own, name) = (Arc::<AtomicU64>::default(), format!("of:{{moving}}:{lock}"));
                rounds.push(own.clone());
                let (inside, ending) = ((inside.clone(), room), (own, stop.clone()));
                tasks.spawn(come_and_go(locks.clone(), name, kind, inside, ending));
            }
            let (name, stop) = (format!("of:{{moving}}:{lock}"), stop.clone());
            tasks.spawn(give_up(locks.clone(), name, kinds[0], stop));
        }
    }
    // Each move of the slot takes a while.
    let slot = cluster.slot("moving").await;
    let mut master = cluster.master_of(slot).await.expect("a master").redis().await;
    for n in 0..200 {
        let key = format!("{{moving}}:{n}");
        redis::cmd("SET").arg(key).arg("here").exec_async(&mut master).await.unwrap();
    }
    for turn in 0..9 {
        let before: Vec<_> = rounds.iter().map(|own| own.load(Ordering::SeqCst)).collect();
        let go_on =
            |(own, before): (&Arc<AtomicU64>, &u64)| own.load(Ordering::SeqCst) > before + 1;
        tokio::join!(
            until("everybody is served", async || rounds.iter().zip(&before).all(go_on)),
            cluster.migrate(slot, &cluster.nodes()[turn % 3]),
        );
    }
    stop.store(true, Ordering::SeqCst);
    while let Some(ended) = timeout(TTL, tasks.join_next()).await.expect("they end") {
        ended.unwrap();
    }
}

/// Half way through the move, the old master redirects commands for moved keys one by one, and
/// there are many at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_renewed_during_a_slot_migration() {
    const SHORT: Duration = Duration::from_secs(1);
    let cluster = Cluster::start().await;
    let locks = Locks::connect(&cluster.url()).await.unwrap();
    let mut leases = Vec::new();
    for n in 0..50 {
        let mutex = locks.mutex(format!("of:{{moving}}:{n}")).ttl(SHORT);
        leases.push(mutex.lock().await.unwrap());
    }
    let slot = cluster.slot("moving").await;
    let master = cluster.master_of(slot).await.expect("a master").port();
    let other = cluster.nodes().iter().find(|node| node.port() != master).expect("another");
    cluster.begin_to_migrate(slot, other).await;
    join_all(leases.iter().map(|lease| until_outlived(lease, SHORT))).await;
    cluster.migrate(slot, other).await;
    for lease in leases {
        lease.release().await.unwrap();
    }
}
