//! What failures leave of a client that holds nothing: they do not delay its end, and cost few commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::store::{Answer, Command, RequestCommand, StoreError, StoreFuture};
use leasehold::{Fault, Locks, Outcome, Rate, Released, Wait};
use leasehold_tests::overridden::Overridden;
use leasehold_tests::polls::is_pending;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::{SECOND, TTL, another};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Each way to wait for a lock that another client holds.
const DOORS: [&str; 11] = [
    "mutex",
    "permit",
    "read",
    "write",
    "reentrant",
    "set",
    "together",
    "lead",
    "election",
    "job",
    "rate",
];

fn wait(door: &'static str, locks: &Locks) -> JoinHandle<()> {
    let (locks, forever) = (locks.clone(), Wait::Forever);
    let nothing = std::future::pending::<()>;
    tokio::spawn(async move {
        let rate = Rate::per_hour(1);
        match door {
            "mutex" => drop(locks.mutex("m").wait(forever).lock().await),
            "permit" => drop(locks.semaphore("s", 1).wait(forever).acquire().await),
            "read" => drop(locks.rw_lock("w").wait(forever).read().await),
            "write" => drop(locks.rw_lock("w").wait(forever).write().await),
            "reentrant" => {
                drop(locks.reentrant_mutex("e").owner("o").wait(forever).lock().await);
            }
            "set" => drop(locks.all(["k", "m"]).wait(forever).lock().await),
            "together" => {
                drop(locks.together().permit("s", 1).permit("t", 1).wait(forever).lock().await);
            }
            "lead" => drop(locks.mutex("m").lead(|_| nothing()).await),
            "election" => drop(locks.mutex("m").election().lead(|_| nothing()).await),
            "job" => {
                let job = locks.mutex("m").once_per(DAY).job();
                drop(job.run(|_| std::future::pending::<Result<(), String>>()).await);
            }
            _ => drop(locks.rate("q", rate).wait(forever).acquire().await),
        }
    })
}

/// Whatever could not be told during an outage: a client that holds nothing ends at once after it.
#[tokio::test(start_paused = true)]
async fn after_an_outage_a_waiter_ends_at_once() {
    for door in DOORS {
        for fault in [Fault::LoseReply, Fault::LoseCommand, Fault::LoseReplyAfter(SECOND / 2)] {
            let (locks, faults) = Locks::in_memory_with_faults();
            let other = another(faults.store());
            let _held = (
                other.mutex("m").ttl(TTL).lock().await.unwrap(),
                other.semaphore("s", 1).ttl(TTL).acquire().await.unwrap(),
                other.rw_lock("w").ttl(TTL).write().await.unwrap(),
                other.reentrant_mutex("e").owner("another").ttl(TTL).lock().await.unwrap(),
                other.rate("q", Rate::per_hour(1)).acquire().await.unwrap(),
            );
            let waits = wait(door, &locks);
            sleep(SECOND / 2).await;
            faults.always(fault);
            sleep(SECOND * 3).await;
            faults.heal();
            sleep(SECOND * 3).await;
            let begun = tokio::time::Instant::now();
            let report = locks.shutdown().await;
            assert_eq!((report.left, begun.elapsed()), (0, Duration::ZERO), "{door}, {fault:?}");
            waits.await.unwrap();
        }
    }
}

/// The first ask got no answer, so a late copy of it could grant the lock to nobody. Its second cancel
/// delays nobody.
#[tokio::test(start_paused = true)]
async fn a_release_after_a_lost_answer_delays_no_shutdown() {
    for lingers in [Duration::ZERO, TTL] {
        let (locks, faults) = Locks::in_memory_with_faults();
        faults.next(Fault::LoseReply);
        let lease = locks.mutex("m").ttl(TTL).linger(lingers).lock().await.unwrap();
        sleep(SECOND * 3).await;
        lease.release().await.unwrap();
        let begun = tokio::time::Instant::now();
        let report = locks.shutdown().await;
        assert_eq!((report.left, begun.elapsed()), (0, Duration::ZERO), "{lingers:?}");
        sleep(SECOND * 4).await;
        let sent = faults.store().log();
        let cancels = sent.iter().filter(|sent| sent.starts_with("cancel")).count();
        assert!(cancels > 0, "it is cancelled all the same: {sent:?}");
    }
}

/// Its task waits for something else: `select!` has left it alone.
#[tokio::test(start_paused = true)]
async fn an_acquisition_that_nobody_polls_delays_a_shutdown_for_a_moment() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let other = another(faults.store());
    let held = other.mutex("m").ttl(TTL).lock().await.unwrap();
    let mutex = locks.mutex("m").wait(Wait::Forever);
    let mut unpolled = Box::pin(mutex.lock());
    assert!(is_pending(&mut unpolled).await);
    let begun = tokio::time::Instant::now();
    let report = locks.shutdown().await;
    assert_eq!((report.left, begun.elapsed()), (0, SECOND / 2));
    drop(unpolled);
    assert_eq!(other.inspect("m").await.unwrap().waiting, 0, "it leaves all the same");
    drop(held);
}

/// Idle leases are released by the shutdown, and it says so.
#[tokio::test(start_paused = true)]
async fn idle_leases_are_reported_as_released() {
    let locks = Locks::in_memory();
    for n in 0..5 {
        let mutex = locks.mutex(format!("m{n}")).ttl(TTL).linger(TTL);
        assert_eq!(mutex.lock().await.unwrap().release().await.unwrap(), Released::Lingers);
    }
    let report = locks.shutdown().await;
    assert_eq!((report.released, report.left), (5, 0));
}

/// What is left has a name, in the report too.
#[tokio::test(start_paused = true)]
async fn a_report_names_what_is_left() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let other = another(faults.store());
    let _theirs = other.mutex("theirs").ttl(TTL).lock().await.unwrap();
    let held = locks.mutex("a").label("held").ttl(TTL).lock().await.unwrap();
    let dropped = locks.mutex("b").label("dropped").ttl(TTL).lock().await.unwrap();
    let waits = locks.mutex("theirs").label("waiting").wait(Wait::Forever);
    let waits = tokio::spawn(async move { waits.lock().await.map(drop) });
    sleep(SECOND).await;
    faults.always(Fault::LoseCommand);
    drop(dropped);
    let report = locks.shutdown().await;
    assert_eq!((report.released, report.left), (0, 3));
    assert_eq!(report.left_labels, ["dropped", "held", "waiting"]);
    faults.heal();
    drop(held);
    sleep(SECOND * 3).await;
    let report = locks.shutdown().await;
    assert_eq!((report.left, report.left_labels.len()), (0, 0), "the repeats have gone on");
    waits.await.unwrap().unwrap_err();
}

/// A release that has failed for long pauses between its tries. The shutdown does not wait for that.
#[tokio::test(start_paused = true)]
async fn a_shutdown_tries_at_once() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let leases = join_all((0..50).map(|n| {
        let mutex = locks.mutex(format!("m{n}")).ttl(DAY);
        async move { mutex.lock().await.unwrap() }
    }));
    let leases = leases.await;
    faults.always(Fault::Refuse);
    drop(leases);
    sleep(SECOND * 200).await;
    faults.heal();
    let begun = tokio::time::Instant::now();
    let report = locks.shutdown().await;
    assert_eq!((report.released, report.left), (50, 0));
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

/// Counts commands that fail while it is so: each acquisition and each cancel, with an error after which
/// nobody knows what was written; or each release, with one that may pass.
#[derive(Debug)]
struct Failing {
    is_passing: bool,
    fails: AtomicBool,
    sent: AtomicU32,
}

impl Failing {
    /// A client whose commands fail.
    fn client(is_passing: bool) -> (Locks, Arc<Self>) {
        let (_, faults) = Locks::in_memory_with_faults();
        let this =
            Arc::new(Self { is_passing, fails: AtomicBool::new(true), sent: AtomicU32::new(0) });
        let failing = this.clone();
        let store = Overridden::new(faults.store().clone(), move |store, command| {
            failing.error(&command).unwrap_or_else(|| store.send(command))
        });
        (Locks::over(store), this)
    }

    fn error(&self, command: &Command<'_>) -> Option<StoreFuture<Answer>> {
        use RequestCommand::{Acquire, Cancel, Release, ReleaseAndForget};
        let is_counted = match command {
            Command::Request(_, Acquire(_) | Cancel) => !self.is_passing,
            Command::Request(_, Release(_) | ReleaseAndForget) => self.is_passing,
            _ => false,
        };
        if !is_counted || !self.fails.load(Ordering::Relaxed) {
            return None;
        }
        self.sent.fetch_add(1, Ordering::Relaxed);
        let error = StoreError {
            outcome: if self.is_passing { Outcome::NotRun } else { Outcome::Unknown },
            is_passing: self.is_passing,
            is_shut_down: false,
            source: "it may not do this".into(),
        };
        Some(Box::pin(std::future::ready(Err(error))))
    }

    /// How many have failed since the last call.
    fn sent(&self) -> u32 {
        self.sent.swap(0, Ordering::Relaxed)
    }
}

/// So many acquisitions fail. Returns how many commands were sent for each in the first twenty seconds,
/// and how many a second for all together after that.
async fn cost_of(calls: u32, ttl: Duration) -> (Locks, Arc<Failing>, f64, f64) {
    let (locks, store) = Failing::client(false);
    for n in 0..calls {
        let mutex = locks.mutex(format!("m{n}")).ttl(ttl).wait(SECOND * 3);
        mutex.lock().await.map(drop).unwrap_err();
    }
    sleep(SECOND * 20).await;
    let first = store.sent();
    sleep(SECOND * 100).await;
    let each = f64::from(first) / f64::from(calls);
    let in_a_second = f64::from(store.sent()) / 100.0;
    (locks, store, each, in_a_second)
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_costs_few_commands() {
    // The ask, a cancel, and what is repeated: at half a second, a second and a half, three and a half …
    let (.., each, _) = cost_of(1, DAY).await;
    assert!((3.0..=9.0).contains(&each), "{each}");
    let (.., each, _) = cost_of(20, TTL).await;
    assert!(each <= 5.0, "{each}");
    // However many there are, and however long their TTLs.
    let (.., each, in_a_second) = cost_of(2_000, DAY).await;
    assert!(each <= 2.1, "{each}");
    assert!((0.5..=4.0).contains(&in_a_second), "{in_a_second}");
}

/// Nothing is known to be held, and the store has answered.
#[tokio::test(start_paused = true)]
async fn failed_calls_delay_no_shutdown() {
    let (locks, store, ..) = cost_of(20, DAY).await;
    let begun = tokio::time::Instant::now();
    let report = locks.shutdown().await;
    assert_eq!((report.left, begun.elapsed()), (0, Duration::ZERO));
    // Somebody gives the right. What was not known is taken back then.
    store.fails.store(false, Ordering::Relaxed);
    sleep(SECOND * 30).await;
    store.fails.store(true, Ordering::Relaxed);
    store.sent();
    sleep(SECOND * 30).await;
    assert_eq!(store.sent(), 0);
}

/// Releases of thousands of leases do not hammer a server that can't do them now, and are soon done when it
/// can.
#[tokio::test(start_paused = true)]
async fn repeats_are_bounded_together() {
    let (locks, store) = Failing::client(true);
    let mut leases = Vec::new();
    for n in 0..4_000 {
        leases.push(locks.mutex(format!("m{n}")).ttl(DAY).lock().await.unwrap());
    }
    drop(leases);
    sleep(SECOND * 10).await;
    store.sent();
    sleep(SECOND * 10).await;
    let in_a_second = f64::from(store.sent()) / 10.0;
    assert!((500.0..1_500.0).contains(&in_a_second), "{in_a_second}");
    store.fails.store(false, Ordering::Relaxed);
    sleep(SECOND * 8).await;
    let begun = tokio::time::Instant::now();
    let report = locks.shutdown().await;
    assert_eq!((report.released, report.left, begun.elapsed()), (0, 0, Duration::ZERO));
}
