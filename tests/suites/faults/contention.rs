//! Many waiters for the same few locks. Commands arrive twice, replies are cut off, and abandoned
//! connections still hold bytes. No two are inside together, everybody is served, and nothing stays
//! held.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasehold::store::redis::{RedisStore, Settings};
use leasehold::store::{
    Answer, Attempt, ClientId, Command, Ended, Lingering, Renewal, RequestCommand, Store,
    StoreFuture,
};
use leasehold::{Lease, LockError, Locks, Wait};
use leasehold_tests::overridden::Overridden;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::work_for;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// The longest time that an unknown waiter can delay others.
const LIVE: Duration = Duration::from_secs(6);

/// The holders inside, by this process's own count.
#[derive(Default)]
struct Inside {
    now: AtomicU32,
    most: AtomicU32,
    served: AtomicU32,
    /// The greatest fencing token of a mutex.
    token: AtomicU64,
}

impl Inside {
    /// Stays inside for a moment under a lease, which may be lost meanwhile.
    async fn work(&self, weight: u32, lease: Result<Lease, LockError>) {
        // An unreachable store is an error like any other here.
        let Ok(lease) = lease else { return };
        if lease.is_held() {
            let now = self.now.fetch_add(weight, Ordering::SeqCst) + weight;
            self.most.fetch_max(now, Ordering::SeqCst);
            if let Ok(token) = lease.fence() {
                let before = self.token.fetch_max(token.get(), Ordering::SeqCst);
                assert!(before < token.get(), "{token:?} after {before}");
            }
            tokio::task::yield_now().await;
            self.now.fetch_sub(weight, Ordering::SeqCst);
            self.served.fetch_add(1, Ordering::SeqCst);
        }
        if is_a_third(self.served.load(Ordering::SeqCst)) {
            drop(lease);
        } else {
            let _ = lease.release().await;
        }
    }
}

/// True for every third number.
fn is_a_third(number: u32) -> bool {
    number.is_multiple_of(3)
}

/// How long the next lease lingers: mostly not at all.
fn linger() -> Duration {
    if fastrand::u32(..3) > 0 {
        Duration::ZERO
    } else {
        Duration::from_millis(fastrand::u64(..100))
    }
}

/// Each client takes its turns at a mutex and at a semaphore; some give up, and some leases linger.
async fn contend(clients: &[Locks], rounds: u32) -> [Arc<Inside>; 2] {
    let inside = [Arc::<Inside>::default(), Arc::<Inside>::default()];
    let mut work = JoinSet::new();
    for locks in clients {
        let (locks, inside) = (locks.clone(), inside.clone());
        work.spawn(async move {
            for round in 0..rounds {
                let mutex = locks.mutex("a").wait(Wait::Forever).linger(linger());
                inside[0].work(1, mutex.lock().await).await;
                let semaphore = locks.semaphore("s", 3).wait(Wait::Forever).linger(linger());
                let weight = 1 + round % 3;
                inside[1].work(weight, semaphore.acquire_many(weight).await).await;
                let short = locks.mutex("a").wait(Duration::from_millis(2)).linger(linger());
                let short = short.lock().await;
                inside[0].work(1, short).await;
            }
        });
    }
    work.join_all().await;
    inside
}

/// Checks that no two were inside together, and that all is free at the end.
async fn check(server: &Server, inside: [Arc<Inside>; 2], rounds: u32) {
    let [mutex, semaphore] = inside;
    assert_eq!(mutex.most.load(Ordering::SeqCst), 1);
    assert!(semaphore.most.load(Ordering::SeqCst) <= 3);
    let (mutexes, permits) =
        (mutex.served.load(Ordering::SeqCst), semaphore.served.load(Ordering::SeqCst));
    println!("{mutexes} mutexes, {permits} permits");
    assert!(mutexes >= rounds && permits >= rounds, "{mutexes}, {permits}");
    let observer = Locks::connect(&server.url()).await.unwrap();
    let begun = Instant::now();
    let lease = observer.mutex("a").wait(LIVE * 2).lock().await.unwrap();
    let all = observer.semaphore("s", 3).wait(LIVE * 2).acquire_many(3).await.unwrap();
    println!("all is free after {:?}", begun.elapsed());
    lease.release().await.unwrap();
    all.release().await.unwrap();
}

/// Picks one of two answers. The commands may have run in either order, and others may have run
/// between them.
fn one_of(first: Answer, second: Answer) -> Answer {
    let said = format!("{first:?} and {second:?}");
    match (first, second) {
        (Answer::Attempt(first), Answer::Attempt(second)) => {
            let agree = match (&first, &second) {
                (Attempt::Granted { token }, Attempt::Granted { token: again }) => token == again,
                (Attempt::Queued { position, .. }, Attempt::Queued { position: again, .. }) => {
                    position == again
                }
                (first, second) => *first != Attempt::Ended && *second != Attempt::Ended,
            };
            assert!(agree, "{said}");
            let is_granted = matches!(second, Attempt::Granted { .. });
            Answer::Attempt(if is_granted { second } else { first })
        }
        (Answer::All(first), Answer::All(second)) => {
            assert!(first.is_err() || second.is_err() || first == second, "{said}");
            Answer::All(if second.is_ok() { second } else { first })
        }
        // A release may have run between the two.
        (Answer::Renewal(first), Answer::Renewal(second)) => {
            let is_lost = matches!(second, Renewal::NotHeld(_));
            Answer::Renewal(if is_lost { second } else { first })
        }
        (Answer::Adoption(first), Answer::Adoption(second)) => {
            assert_eq!(first, second);
            Answer::Adoption(second)
        }
        // One of the two finds the lease, and ends it.
        (Answer::Ended(first), Answer::Ended(second)) => {
            assert!([first, second].contains(&Ended::Released), "{said}");
            Answer::Ended(if second == Ended::Released { second } else { first })
        }
        // A waiter may have come between the two, or the lease may have ended. Where the first
        // released the mutex, others may have had it before the second.
        (Answer::Lingering(first), Answer::Lingering(second)) => {
            let is_kept = |it: &Lingering| matches!(it, Lingering::Kept { .. });
            let has_released = first == Lingering::Ended(Ended::Released);
            let later = matches!(second, Lingering::Ended(Ended::NotHeld(_)));
            let agree = [first, second].iter().any(is_kept) || first == second;
            assert!(agree || has_released && later, "{said}");
            Answer::Lingering(if has_released { first } else { second })
        }
        // One of a cancel's two commands finds the lease.
        (Answer::Flag(first), Answer::Flag(second)) => {
            assert!(!(first && second), "{said}");
            Answer::Flag(first || second)
        }
        (Answer::Done(()), Answer::Done(())) => Answer::Done(()),
        _ => panic!("{said} answer one command"),
    }
}

/// Sends each command twice, both in flight at the same time.
fn twice(store: &dyn Store, command: Command<'_>) -> StoreFuture<Answer> {
    match command {
        Command::Request(_, RequestCommand::WasForced) => store.send(command),
        Command::Request(..) | Command::AcquireAll(..) => {
            let (first, second) = (store.send(command.clone()), store.send(command));
            Box::pin(async move {
                let (first, second) = tokio::join!(first, second);
                Ok(one_of(first?, second?))
            })
        }
        _ => store.send(command),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_may_arrive_twice() {
    let server = Server::start();
    let mut clients = Vec::new();
    for _ in 0..6 {
        let id = ClientId::random();
        let store = RedisStore::connect(&server.url(), &Settings::default(), id, Handle::current())
            .await
            .unwrap();
        clients.push(Locks::over_as(Overridden::new(Arc::new(store), twice), id));
    }
    let inside = contend(&clients, 40).await;
    check(&server, inside, 240).await;
}

async fn connected(server: &Server) -> Vec<Locks> {
    let mut clients = Vec::new();
    for _ in 0..6 {
        clients.push(Locks::connect(&server.url()).await.unwrap());
    }
    clients
}

/// All connections are cut again and again, so replies and hints are lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_are_cut_off_leave_nothing_held() {
    let server = Server::start();
    let clients = connected(&server).await;
    let mut redis = server.redis().await;
    let nemesis = tokio::spawn(async move {
        let mut kill = redis::cmd("CLIENT");
        kill.arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"]);
        let mut subscribers = redis::cmd("CLIENT");
        subscribers.arg(&["KILL", "TYPE", "pubsub", "SKIPME", "yes"]);
        loop {
            work_for(Duration::from_millis(200)).await;
            kill.exec_async(&mut redis).await.unwrap();
            subscribers.exec_async(&mut redis).await.unwrap();
        }
    });
    let inside = contend(&clients, 250).await;
    assert!(!nemesis.is_finished());
    nemesis.abort();
    check(&server, inside, 1200).await;
}

/// The server is frozen until its clients abandon their connections. Then it reads the bytes that
/// are left in them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_bytes_of_abandoned_connections_leave_nothing_held() {
    let server = Server::start();
    let clients = connected(&server).await;
    let work = contend(&clients, 60);
    let nemesis = async {
        for _ in 0..4 {
            work_for(Duration::from_millis(60)).await;
            let frozen = server.freeze().await;
            work_for(Duration::from_millis(800)).await;
            drop(frozen);
        }
    };
    let (inside, ()) = tokio::join!(work, nemesis);
    check(&server, inside, 300).await;
}
