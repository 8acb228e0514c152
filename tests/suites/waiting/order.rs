//! First come, first served.

use std::process::Command;
use std::time::Duration;

use leasehold::store::{Ask, Attempt, ClientId, Ended, Kind, QueuePosition, Waiting};
use leasehold::{Locks, Wait};
use leasehold_tests::backend::light_client;
use leasehold_tests::process::Process;
use leasehold_tests::requests::{Requests, redis_store_of};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::OwnTime;
use tokio::sync::mpsc;

use super::{ASK_AGAIN, LIVE, until_queued};

/// Fifty waiters come one after another, and a tenth of them are killed while they wait:
/// the others are served in order. Each dead process costs a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_waiters_are_served_in_order() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let holder = Locks::connect(&server.url()).await.unwrap();
    let held = holder.mutex("a").lock().await.unwrap();

    let (grants, mut granted) = mpsc::unbounded_channel();
    let (mut doomed, mut expected) = (Vec::new(), Vec::new());
    for n in 0..50 {
        if n % 10 == 4 {
            let mut wait = Command::new(env!("CARGO_BIN_EXE_worker"));
            doomed.push(Process::start(wait.args([&server.url(), "wait", "a"])));
        } else {
            let (locks, grants) = (light_client(&server).await, grants.clone());
            tokio::spawn(async move {
                let lease = locks.mutex("a").wait(Wait::Forever).lock().await.unwrap();
                grants.send((n, lease.fence().unwrap())).unwrap();
                lease.release().await.unwrap();
            });
            expected.push(n);
        }
        until_queued(&mut redis, "a", n + 1).await;
    }
    drop(grants);
    for process in &mut doomed {
        process.kill();
    }

    let time = OwnTime::begin();
    held.release().await.unwrap();
    let mut order = Vec::new();
    while let Some(grant) = granted.recv().await {
        order.push(grant);
    }
    let took = time.passed();
    assert!(order.is_sorted_by_key(|(_, fence)| *fence), "tokens are in the order of the grants");
    let order: Vec<_> = order.into_iter().map(|(n, _)| n).collect();
    assert_eq!(order, expected, "nobody was passed over");
    println!("{} grants and {} dead waiters: {took:?}", order.len(), doomed.len());
    assert!(took < LIVE + LIVE / 2, "each of the {} dead cost a window: {took:?}", doomed.len());
}

/// The keys of a queue last for 60 s, and each ask prolongs them.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_place_is_kept_for_hours() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let server = Server::start_skewed();
    server.stop_clock();
    let id = ClientId::random();
    let (store, requests) = (redis_store_of(&server.url(), id).await, Requests::of(id));
    let [holder, first, second] = [(); 3].map(|()| requests.next("a", Kind::Mutex, DAY));
    assert!(matches!(store.acquire(&holder, None).await.unwrap(), Attempt::Granted { .. }));
    let mut places =
        [&first, &second].map(|request| (request, QueuePosition::New { age: Duration::ZERO }));
    for nth in 0..1000 {
        for (request, place) in &mut places {
            let waiting = Waiting { live: ASK_AGAIN * 2, position: *place };
            let answer = store.acquire(request, Some(waiting)).await.unwrap();
            let Attempt::Queued { position, .. } = answer else {
                panic!("{answer:?} after {nth} asks")
            };
            let assigned = QueuePosition::Assigned(position);
            assert!(nth == 0 || *place == assigned, "another place after {nth} asks");
            *place = assigned;
        }
        server.jump(ASK_AGAIN);
    }
    assert_eq!(store.release(&holder, Duration::ZERO).await.unwrap(), Ended::Released);
    let waiting = |place: &(_, QueuePosition)| Some(Waiting { live: LIVE, position: place.1 });
    let answer = store.acquire(&second, waiting(&places[1])).await.unwrap();
    assert!(matches!(answer, Attempt::Queued { .. }), "{answer:?}");
    let answer = store.acquire(&first, waiting(&places[0])).await.unwrap();
    assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
}

/// The same for permits, some of which are heavy. A permit that would fit waits behind one that
/// does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_are_granted_in_order() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let holder = Locks::connect(&server.url()).await.unwrap();
    let held = holder.semaphore("s", 4).acquire_many(4).await.unwrap();
    let (grants, mut granted) = mpsc::unbounded_channel();
    for (n, weight) in [3, 2, 1, 4, 1, 1, 1, 1].into_iter().enumerate() {
        let (locks, grants) = (light_client(&server).await, grants.clone());
        tokio::spawn(async move {
            let many = locks.semaphore("s", 4).wait(Wait::Forever);
            let permit = many.acquire_many(weight).await.unwrap();
            let (done, release) = tokio::sync::oneshot::channel::<()>();
            grants.send((n, done)).unwrap();
            release.await.unwrap_err();
            permit.release().await.unwrap();
        });
        until_queued(&mut redis, "s", n as u64 + 1).await;
    }
    drop(grants);
    held.release().await.unwrap();

    // 3 alone, since the 2 behind it does not fit beside it; then 2 and 1; …
    for together in [vec![0], vec![1, 2], vec![3], vec![4, 5, 6, 7]] {
        let mut inside = Vec::new();
        for _ in &together {
            inside.push(granted.recv().await.unwrap());
        }
        inside.sort_unstable_by_key(|(n, _)| *n);
        assert_eq!(inside.iter().map(|(n, _)| *n).collect::<Vec<_>>(), together);
        let more = tokio::time::timeout(Duration::from_millis(50), granted.recv()).await;
        assert!(more.is_err(), "nothing more fits beside {together:?}");
    }
    assert!(granted.recv().await.is_none());
}

/// A try is refused while somebody waits, even in the moment when the lock is free for the first
/// waiter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_does_not_overtake() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let holder = Locks::connect(&server.url()).await.unwrap();
    let held = holder.mutex("a").lock().await.unwrap();
    let waiting = super::waiter(light_client(&server).await, "a");
    until_queued(&mut redis, "a", 1).await;
    held.release().await.unwrap();
    // This is the same client, so its try comes after its release.
    assert!(holder.mutex("a").try_lock().await.is_err());
    let lease = waiting.await.unwrap();
    assert!(holder.mutex("a").try_lock().await.is_err());
    lease.release().await.unwrap();
    holder.mutex("a").try_lock().await.unwrap().release().await.unwrap();
}
