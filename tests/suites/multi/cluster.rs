//! Several locks on a cluster: one command can take only locks of one slot.

use leasehold_tests::requests::Requests;
use std::time::Duration;

use leasehold::store::redis::{RedisStore, Settings};
use leasehold::store::{Ask, ClientId, Kind, NotAll, Request};
use leasehold_tests::cluster::Cluster;
use tokio::runtime::Handle;

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
