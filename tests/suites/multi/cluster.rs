//! Several locks on a cluster: one command can take only locks of one slot.

use leasehold_tests::requests::Requests;
use std::time::Duration;

use leasehold::store::redis::{RedisStore, Settings};
use leasehold::store::{Ask, ClientId, Kind, NotAll, Request};
use leasehold::{Locks, Wait};
use leasehold_tests::cluster::Cluster;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(30);

async fn connect(cluster: &Cluster) -> Locks {
    Locks::builder().connect(&cluster.url()).await.unwrap()
}

fn requests<const N: usize>(names: [&str; N]) -> Vec<Request> {
    let requests = Requests::of(ClientId::random());
    let request = |name| requests.next(name, Kind::Mutex, Duration::from_secs(30));
    names.into_iter().map(request).collect()
}

#[tokio::test]
async fn locks_in_one_slot_take_one_command() {
    let cluster = Cluster::start().await;
    let (url, id) = (cluster.url(), ClientId::random());
    let store = RedisStore::connect(&url, &Settings::default(), id, Handle::current()).await;
    let store = store.unwrap();
    for names in [["a", "b"], ["order:{1}:a", "order:{2}:a"], ["{1}", "order:{1}:a"]] {
        assert!(store.acquire_all(&requests(names), &[]).is_none(), "{names:?}");
    }
    let together = requests(["order:{1}:a", "order:{1}:b", "1"]);
    let tokens = store.acquire_all(&together, &[]).expect("they share a slot").await.unwrap();
    assert_eq!(tokens.expect("they are free").len(), 3);
    let others = requests(["order:{1}:b", "order:{1}:c"]);
    assert_eq!(
        store.acquire_all(&others, &[]).expect("they share a slot").await.unwrap(),
        Err(NotAll::Busy(0))
    );
}

#[tokio::test]
async fn locks_of_several_slots_are_all_held_or_none() {
    let cluster = Cluster::start().await;
    let (first, second) = (connect(&cluster).await, connect(&cluster).await);
    let names: Vec<_> = (0..12).map(|n| format!("n:{n}")).collect();
    let leases = first.all(&names).lock().await.unwrap();
    for lease in &leases {
        assert!(second.mutex(lease.key()).try_lock().await.is_err());
    }
    leases.release().await.unwrap();

    let held = first.mutex("n:11").lock().await.unwrap();
    assert!(second.all(&names).wait(Duration::from_millis(50)).lock().await.is_err());
    assert!(second.all(&names).try_lock().await.is_err());
    for name in names.iter().filter(|name| *name != "n:11") {
        first.mutex(name).try_lock().await.unwrap().release().await.unwrap();
    }
    held.release().await.unwrap();
    let tags = ["order:{1}:a", "order:{1}:b"];
    let leases = first.all(tags).lock().await.unwrap();
    assert!(second.all(["order:{1}:b", "order:{2}:b"]).try_lock().await.is_err());
    leases.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_sets_take_turns() {
    let cluster = Cluster::start().await;
    let mut turns = JoinSet::new();
    for n in 0..6 {
        let locks = connect(&cluster).await;
        turns.spawn(async move {
            for _ in 0..10 {
                let mut names: Vec<_> = (0..6).map(|n| format!("n:{n}")).collect();
                names.rotate_left(n);
                let all = locks.all(&names[..3]).wait(Wait::Forever);
                let leases = all.lock().await.unwrap();
                assert!(leases.is_held() && leases.iter().len() == 3);
                leases.release().await.unwrap();
            }
        });
    }
    timeout(SOON, turns.join_all()).await.expect("no deadlock");
}
