//! The end of a process or a client: its releases, and its report.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::{LeaseHandle, LeaseState, LockError, Locks, LossReason, Released};
use leasehold_tests::kinds::{EVERY_KIND, Guard, Kind};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{OwnTime, block_for, until};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::{TTL, ready, timeless};

/// The time that work may go on, and then the time for the releases.
const GRACE: Duration = Duration::from_secs(5);
const DRAIN: Duration = Duration::from_secs(2);

/// A thousand leases of every kind: none is left when the process is gone. The records of the other
/// kinds than the mutex are still there, free.
async fn nothing_is_left(how: &str, is_success: bool) {
    let server = timeless();
    let mut dropper = ready(&server, &["drop", "1000", how]);
    assert_eq!(dropper.is_success(), is_success);
    let known = server.known().await;
    assert!(known > 300, "they were there: {known}");
    assert_eq!(server.unfree().await, [""; 0]);
}

#[tokio::test]
async fn leases_dropped_just_before_main_returns_are_released() {
    nothing_is_left("main", true).await;
}

#[tokio::test]
async fn leases_dropped_on_a_worker_thread_are_released() {
    nothing_is_left("worker", true).await;
}

#[tokio::test]
async fn leases_dropped_on_a_thread_that_outlives_main_are_released() {
    nothing_is_left("static", true).await;
}

#[tokio::test]
async fn leases_dropped_with_the_runtime_are_released() {
    nothing_is_left("runtime", true).await;
}

#[tokio::test]
async fn leases_dropped_by_a_panic_are_released() {
    nothing_is_left("panic", true).await;
}

#[tokio::test]
async fn leases_dropped_by_a_panic_that_ends_the_process_are_released() {
    nothing_is_left("main-panic", false).await;
}

/// An exit drops nothing, so nothing is released. The leases end with their TTLs.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn leases_of_a_process_that_exits_are_gone_after_their_ttl() {
    let server = timeless();
    let mut process = ready(&server, &["drop", "1000", "exit"]);
    assert!(process.is_success());
    let locks = Locks::connect(&server.url()).await.unwrap();
    assert!(!server.unfree().await.is_empty());
    let instant = Duration::from_millis(1);
    server.jump(TTL.saturating_sub(instant));
    let refused = locks.mutex("dropped:0").try_lock().await;
    assert!(matches!(refused, Err(LockError::Busy { .. })), "not before: {refused:?}");
    server.jump(instant * 2);
    assert_eq!(server.unfree().await, [""; 0]);
    locks.mutex("dropped:0").try_lock().await.unwrap().release().await.unwrap();
}

/// Some leases of every kind: a hundred of each, or three hundred.
async fn hold_many(locks: &Locks) -> Vec<Guard> {
    let mut held = Vec::new();
    for n in 0..111 {
        for kind in EVERY_KIND {
            let guard = kind.lock(locks, &format!("m{n}:{kind:?}"), TTL).await.unwrap();
            held.push(guard);
        }
    }
    held.push(Kind::Mutex.lock(locks, "last", TTL).await.unwrap());
    assert_eq!(held.iter().map(|guard| guard.leases().count()).sum::<usize>(), 1_000);
    held
}

/// The holders see that the client shuts down, and release or drop their leases.
#[tokio::test]
async fn released_leases_are_reported_as_released() {
    let server = timeless();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let other = Locks::connect(&server.url()).await.unwrap();
    let others = other.mutex("another's").lock().await.unwrap();
    let (is_ending, ending) = watch::channel(false);
    for (n, guard) in hold_many(&locks).await.into_iter().enumerate() {
        let mut ending = ending.clone();
        tokio::spawn(async move {
            ending.wait_for(|it| *it).await.unwrap();
            if n % 2 == 0 {
                guard.release().await.unwrap();
            }
        });
    }
    let ended = tokio::spawn({
        let locks = locks.clone();
        async move { locks.shutdown().await }
    });
    // Once the shutdown has begun, nothing is acquired.
    while !matches!(locks.mutex("another's").try_lock().await, Err(LockError::ShutDown)) {
        tokio::task::yield_now().await;
    }
    is_ending.send(true).unwrap();
    let report = ended.await.unwrap();
    assert_eq!((report.released, report.left), (1_000, 0));
    others.release().await.unwrap();
    assert_eq!(server.unfree().await, [""; 0]);
}

/// The server does not answer. The shutdown reports that, and does not wait for it for ever.
#[tokio::test]
async fn releases_that_a_frozen_server_missed_are_reported_as_left() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let held = hold_many(&locks).await;
    let frozen = server.freeze().await;
    drop(held);
    let (begun, time) = (Instant::now(), OwnTime::begin());
    let report = locks.shutdown().await;
    let took = begun.elapsed();
    assert_eq!((report.released, report.left), (0, 1_000));
    // The shutdown tries for all of its time, and no longer. Seconds more would be a wait for the
    // server, or for the keeper's retries until the leases end by themselves.
    assert!(took >= GRACE + DRAIN, "{took:?}");
    assert!(time.passed() < GRACE + DRAIN + Duration::from_secs(5), "{:?}", time.passed());
    drop(frozen);
}

/// Their holders have released them, and the store has not.
#[tokio::test]
async fn idle_leases_are_reported_as_released_or_left() {
    for is_frozen in [false, true] {
        let server = timeless();
        let locks = Locks::connect(&server.url()).await.unwrap();
        for n in 0..100 {
            let mutex = locks.mutex(format!("m:{n}")).ttl(TTL).linger(TTL);
            assert_eq!(mutex.lock().await.unwrap().release().await.unwrap(), Released::Lingers);
            let permit = locks.semaphore(format!("s:{n}"), 2).ttl(TTL).linger(TTL);
            drop(permit.acquire().await.unwrap());
        }
        let in_use = locks.mutex("m:0").ttl(TTL).linger(TTL).lock().await.unwrap();
        let frozen = if is_frozen { Some(server.freeze().await) } else { None };
        drop(in_use);
        let report = locks.shutdown().await;
        let expected = if is_frozen { (0, 200) } else { (200, 0) };
        assert_eq!((report.released, report.left), expected);
        drop(frozen);
        if !is_frozen {
            assert_eq!(server.unfree().await, [""; 0]);
        }
    }
}

/// The waiting calls are refused at once, and do not delay the end.
#[tokio::test]
async fn waiting_acquires_end_with_the_shutdown() {
    let server = timeless();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let other = Locks::connect(&server.url()).await.unwrap();
    let mut held = Vec::new();
    let mut waiting = Vec::new();
    for kind in EVERY_KIND {
        let name = format!("m:{kind:?}");
        held.push(kind.rival().lock(&other, &name, TTL).await.unwrap());
        // The second of a client waits behind the first, and not in the server's queue.
        waiting.push(tokio::spawn(kind.lock(&locks, &name, TTL)));
        waiting.push(tokio::spawn(kind.lock(&locks, &name, TTL)));
    }
    let mut redis = server.redis().await;
    until("all wait", async || {
        let queues: Vec<String> =
            redis::cmd("KEYS").arg("leasehold:queue:*").query_async(&mut redis).await.unwrap();
        // For several locks at once, the second request waits in another queue than the first,
        // which holds the first lock.
        queues.len() == EVERY_KIND.len() + 1
    })
    .await;
    let leads = tokio::spawn({
        let locks = locks.clone();
        async move { locks.lead("m:Mutex", |_| pending::<()>()).await }
    });
    tokio::task::yield_now().await;

    let time = OwnTime::begin();
    let report = locks.shutdown().await;
    // This is before any of them would have asked again, every other second.
    assert!(time.passed() < Duration::from_secs(1), "{:?}", time.passed());
    // This is the first lease of the set, which still waited for others.
    assert_eq!((report.released, report.left), (1, 0));
    for waiter in waiting {
        let refused = waiter.await.unwrap();
        assert!(matches!(refused, Err(LockError::ShutDown)), "{refused:?}");
    }
    assert!(matches!(leads.await.unwrap(), Err(LockError::ShutDown)));
    for kind in EVERY_KIND {
        let refused = kind.try_lock(&locks, "m", TTL).await;
        assert!(matches!(refused, Err(LockError::ShutDown)), "{refused:?}");
    }
    // The waiters have left the queue: only the other client's keys are on the server.
    assert!(held.iter().all(Guard::is_held));
    for guard in held {
        guard.release().await.unwrap();
    }
    server.until_all_is_free().await;
}

/// A shutdown takes no lock from work that goes on. The holder keeps it until its TTL.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn leases_still_held_are_reported_as_left_and_not_taken_away() {
    let server = timeless();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let other = Locks::connect(&server.url()).await.unwrap();
    let mut held = Vec::new();
    for kind in EVERY_KIND {
        held.push(kind.lock(&locks, &format!("m:{kind:?}"), TTL).await.unwrap());
    }
    let count = held.iter().flat_map(Guard::leases).count();
    let report = locks.shutdown().await;
    assert_eq!((report.released, report.left), (0, count));
    for lease in held.iter().flat_map(Guard::leases) {
        assert_eq!(lease.state(), LeaseState::Lost(LossReason::ShutDown));
    }
    let rivals = EVERY_KIND.map(|kind| (kind.rival(), format!("m:{kind:?}")));
    for (kind, name) in &rivals {
        let refused = kind.try_lock(&other, name, TTL).await;
        assert!(matches!(refused, Err(LockError::Busy { .. })), "{refused:?}");
    }
    // Nobody renews it, although its guard still exists.
    server.jump(TTL + Duration::from_millis(1));
    for (kind, name) in &rivals {
        let taken = kind.try_lock(&other, name, TTL).await;
        taken.unwrap().release().await.unwrap();
    }
    drop(held);
}

/// Work goes on for the grace, and is dropped then. So its lock can be released.
#[tokio::test]
async fn work_does_not_go_on_when_the_grace_is_over() {
    let server = timeless();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut work = Vec::new();
    for kind in EVERY_KIND {
        let guard = kind.lock(&locks, &format!("m:{kind:?}"), TTL).await.unwrap();
        work.push(tokio::spawn(async move {
            let begun = Instant::now();
            let ran = match &guard {
                Guard::One(lease) => lease.run(pending::<()>()).await,
                Guard::All(leases) => leases.run(pending::<()>()).await,
            };
            (ran, begun.elapsed())
        }));
    }
    let report = locks.shutdown().await;
    assert_eq!((report.released, report.left), (EVERY_KIND.len() + 2, 0));
    for work in work {
        let (ran, lasted) = work.await.unwrap();
        match ran {
            Err(LockError::Lost { reason, .. }) => assert_eq!(reason, LossReason::ShutDown),
            other => panic!("{other:?}"),
        }
        assert!(lasted >= GRACE, "it had its time: {lasted:?}");
    }
    assert_eq!(server.unfree().await, [""; 0]);
}

/// A leader's work that takes some time to be dropped.
struct Slow {
    is_led_by_another: Arc<AtomicBool>,
    led_beside: Arc<Mutex<Vec<bool>>>,
}

impl Drop for Slow {
    fn drop(&mut self) {
        // Long enough for the other to lead, had the lock been released before.
        block_for(Duration::from_millis(300));
        let is_led = self.is_led_by_another.load(Ordering::SeqCst);
        self.led_beside.lock().unwrap().push(is_led);
    }
}

/// Leads on one client, and then on another. True if the second led before the first one's work was
/// dropped. `end` ends the first one.
async fn hand_over(end: impl AsyncFnOnce(&Locks, &AbortHandle)) -> bool {
    let server = Server::start();
    let first = Locks::connect(&server.url()).await.unwrap();
    let second = Locks::connect(&server.url()).await.unwrap();
    let is_led_by_another = Arc::new(AtomicBool::new(false));
    let led_beside = Arc::new(Mutex::new(Vec::new()));
    let (leads, is_led) = watch::channel(false);
    let slow = {
        let (is_led_by_another, led_beside) = (is_led_by_another.clone(), led_beside.clone());
        move || Slow {
            is_led_by_another: is_led_by_another.clone(),
            led_beside: led_beside.clone(),
        }
    };
    let mut is_leading = is_led.clone();
    let one = tokio::spawn({
        let mutex = first.mutex("leader").ttl(Duration::from_secs(3));
        async move {
            mutex
                .lead(|_: LeaseHandle| {
                    let slow = slow();
                    leads.send(true).unwrap();
                    async move {
                        let _slow = slow;
                        pending::<()>().await;
                    }
                })
                .await
        }
    });
    is_leading.wait_for(|it| *it).await.unwrap();
    let other = tokio::spawn({
        let (second, is_led_by_another) = (second.clone(), is_led_by_another.clone());
        async move {
            let lead = |_: LeaseHandle| {
                is_led_by_another.store(true, Ordering::SeqCst);
                async {}
            };
            second.lead("leader", lead).await
        }
    });
    let mut redis = server.redis().await;
    let mut queued = redis::cmd("EXISTS");
    queued.arg("leasehold:queue:{leader}");
    until("the other waits", async || queued.query_async(&mut redis).await == Ok(1)).await;
    end(&first, &one.abort_handle()).await;
    other.await.unwrap().unwrap();
    let _ = one.await;
    let dropped = led_beside.lock().unwrap();
    assert!(!dropped.is_empty(), "its work was dropped");
    dropped[0]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_shut_down_leaders_work_is_dropped_before_another_leads() {
    let is_led_beside = hand_over(async |first, _| {
        let report = first.shutdown().await;
        assert_eq!((report.released, report.left), (1, 0));
    });
    assert!(!is_led_beside.await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn an_aborted_leaders_work_is_dropped_before_another_leads() {
    assert!(!hand_over(async |_, one| one.abort()).await);
}
