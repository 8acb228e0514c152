//! Work that is to succeed once, when the master dies.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use leasehold::{LockError, Locks};
use leasehold_tests::sentinel::Sentinel;
use leasehold_tests::waiting::{until, work_for};
use redis_server_wrapper::Direction;

use super::DEAD;
use super::sentinel::with_a_link;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const PERIOD: Duration = Duration::from_millis(500);

/// A table with a unique key: the job's own transaction fails if the work was done before.
#[derive(Clone, Default)]
struct Table(Arc<Mutex<HashSet<SystemTime>>>);

impl Table {
    fn insert(&self, key: SystemTime) -> bool {
        self.0.lock().unwrap().insert(key)
    }
}

/// The replica does not know of the success when it becomes the master. So the work runs once more,
/// and not a third time. The table tells the second run that there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_success_that_the_replica_lacks_is_repeated_once() {
    let (sentinel, proxy) = with_a_link().await;
    let [master, _] = sentinel.servers() else { panic!("there are two") };
    let one = Locks::connect(&sentinel.url()).await.unwrap();
    let other = Locks::connect(&sentinel.url()).await.unwrap();
    let mail = |locks: &Locks| locks.mutex("mail:7").once(DAY).wait(Duration::from_secs(30));
    let (table, message, mut runs) = (Table::default(), SystemTime::UNIX_EPOCH, 0);
    proxy.set_stall(Direction::UpstreamToClient);
    let lease = mail(&one).lock().await.unwrap();
    assert!(table.insert(message));
    lease.complete().await.unwrap();
    assert!(mail(&other).lock().await.unwrap_err().is_done());
    master.kill().await;
    drop(proxy);
    sentinel.until_replaced(master).await;
    for locks in [&one, &other, &one] {
        match mail(locks).lock().await {
            Ok(lease) => {
                runs += 1;
                assert!(!table.insert(message), "the table remembers");
                lease.complete().await.unwrap();
            }
            Err(error) => assert!(error.is_done(), "{error}"),
        }
    }
    assert_eq!(runs, 1, "that is the documented repetition");
}

/// The master dies in the middle of ticks that succeed on three clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_go_on_after_a_failover() {
    let sentinel = Sentinel::start(2, DEAD).await;
    let (successes, table) = (Arc::<Mutex<BTreeMap<SystemTime, u32>>>::default(), Table::default());
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let locks = Locks::connect(&sentinel.url()).await.unwrap();
        let (successes, table) = (successes.clone(), table.clone());
        clients.spawn(async move {
            loop {
                let job = locks.mutex("job").ttl(Duration::from_secs(1)).once_per(PERIOD);
                match job.lock().await {
                    Ok(lease) => {
                        let tick = lease.tick().unwrap().began;
                        table.insert(tick);
                        if lease.complete().await.is_ok() {
                            *successes.lock().unwrap().entry(tick).or_default() += 1;
                        }
                    }
                    Err(LockError::Done { retry_after, .. }) => {
                        work_for(retry_after).await;
                    }
                    Err(LockError::Store { .. } | LockError::TimedOut { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
    let count = || successes.lock().unwrap().len();
    let go_on = async |by: usize| {
        let wanted = count() + by;
        until("more ticks succeed", async || count() >= wanted).await;
    };
    go_on(5).await;
    let master = sentinel.master().await.expect("a master");
    master.kill().await;
    sentinel.until_replaced(master).await;
    go_on(5).await;
    clients.shutdown().await;
    let successes = successes.lock().unwrap();
    let repeated = successes.values().filter(|&&count| count > 1).count();
    assert!(repeated <= 1 && successes.values().all(|&count| count <= 2), "{successes:?}");
    assert!(table.0.lock().unwrap().len() >= successes.len());
}
