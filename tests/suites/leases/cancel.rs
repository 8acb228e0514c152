//! Drops each public future after its k-th poll, for every k until it completes. No lock stays
//! held, and no place in a queue stays taken.
//!
//! The server's clock stands still, so a free lock was released, and did not expire.

use std::time::Duration;

use leasehold::{LeaseHandle, LockError, Locks, Wait};
use leasehold_tests::kinds::{EVERY_KIND, Guard, Kind, Taking};
use leasehold_tests::polls::{drop_after, is_pending};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::until;
use redis::aio::MultiplexedConnection;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{TTL, timeless};

/// The number of times that each case runs, because the background work differs.
const ROUNDS: usize = 3;

/// A server, a client whose futures are dropped, and one that holds the lock or checks it.
struct Setting {
    server: Server,
    locks: Locks,
    other: Locks,
    redis: MultiplexedConnection,
    /// Every lock that was used, with the kind that holds it exclusively.
    used: Vec<(Kind, String)>,
}

impl Setting {
    async fn new() -> Self {
        let server = timeless();
        let locks = Locks::connect(&server.url()).await.unwrap();
        let other = Locks::connect(&server.url()).await.unwrap();
        let redis = server.redis().await;
        Self { server, locks, other, redis, used: Vec::new() }
    }

    /// A new name.
    fn name(&mut self, kind: Kind) -> String {
        let name = format!("m{}", self.used.len());
        let whole = if kind == Kind::All { kind } else { kind.rival() };
        self.used.push((whole, name.clone()));
        name
    }

    /// Checks that nobody holds or wants a used lock, and that another client can have each of them
    /// at once.
    async fn assert_nothing_is_left(self, dropped: usize) {
        // An answer may come while the future is polled for the first time, but not always.
        assert!(dropped > 0, "it never suspends, so it was never dropped");
        assert!(!self.used.is_empty());
        self.server.until_all_is_free().await;
        for (kind, name) in &self.used {
            let taken = kind.try_lock(&self.other, name, TTL).await;
            assert!(taken.is_ok(), "{kind:?} {name}: {taken:?}");
        }
    }
}

/// Calls it with no poll, with one, with two, and so on, until it says that it is done. Returns how
/// often it was polled and not done.
async fn at_each_poll(mut is_done: impl AsyncFnMut(usize) -> bool) -> usize {
    for polls in 0..100_usize {
        if is_done(polls).await {
            return polls.saturating_sub(1);
        }
    }
    panic!("it never completes");
}

async fn until_queued(redis: &mut MultiplexedConnection, name: &str) {
    let queue = format!("leasehold:queue:{{{name}}}");
    while redis::cmd("EXISTS").arg(&queue).query_async(redis).await == Ok(0) {
        tokio::task::yield_now().await;
    }
}

type Take = fn(Kind, &Locks, &str, Duration) -> Taking;

#[tokio::test]
async fn an_acquisition_of_a_free_lock_that_is_dropped_leaves_nothing() {
    let (mut setting, mut dropped) = (Setting::new().await, 0);
    for kind in EVERY_KIND.repeat(ROUNDS) {
        for take in [Kind::lock as Take, Kind::try_lock] {
            dropped += at_each_poll(async |polls| {
                let name = setting.name(kind);
                drop_after(polls, take(kind, &setting.locks, &name, TTL)).await.is_some()
            })
            .await;
        }
    }
    setting.assert_nothing_is_left(dropped).await;
}

/// The holder releases while the future waits. So some futures are dropped before they are in the
/// queue, some in it, and some with an offer.
#[tokio::test]
async fn an_acquisition_of_a_held_lock_that_is_dropped_leaves_nothing() {
    let (mut setting, mut dropped) = (Setting::new().await, 0);
    for kind in EVERY_KIND.repeat(ROUNDS) {
        for take in [Kind::lock as Take, Kind::try_lock] {
            dropped += at_each_poll(async |polls| {
                let name = setting.name(kind);
                let held = kind.rival().lock(&setting.other, &name, TTL).await.unwrap();
                let (dropped, is_dropped) = oneshot::channel::<()>();
                // A task of its own: its wake-ups are none of the future's.
                let release = tokio::spawn({
                    let (mut redis, name) = (setting.redis.clone(), name.clone());
                    async move {
                        tokio::select! {
                            () = until_queued(&mut redis, &name) => {}
                            _ = is_dropped => {}
                        }
                        held.release().await.unwrap();
                    }
                });
                let taken = drop_after(polls, take(kind, &setting.locks, &name, TTL)).await;
                drop(dropped);
                release.await.unwrap();
                if let Some(Err(error)) = &taken {
                    assert!(matches!(error, LockError::Busy { .. }), "{error}");
                }
                taken.is_some()
            })
            .await;
        }
    }
    setting.assert_nothing_is_left(dropped).await;
}

/// The future is in the queue, the holder releases, and the future is dropped before its next poll.
#[tokio::test]
async fn an_offer_that_is_dropped_goes_to_the_next() {
    let (mut setting, mut dropped) = (Setting::new().await, 0);
    let last = Locks::connect(&setting.server.url()).await.unwrap();
    for kind in EVERY_KIND {
        let name = setting.name(kind);
        let held = kind.rival().lock(&setting.other, &name, TTL).await.unwrap();
        let mut first = kind.lock(&setting.locks, &name, TTL);
        let queue = format!("leasehold:queue:{{{name}}}");
        let mut queued = redis::cmd("ZCARD");
        queued.arg(&queue);
        while queued.query_async(&mut setting.redis).await != Ok(1) {
            assert!(is_pending(&mut first).await);
        }
        // On a clock that stands still both would have come at the same time.
        #[cfg(target_os = "linux")]
        setting.server.jump(Duration::from_millis(1));
        let next = match kind {
            Kind::Reentrant(_) => Kind::Reentrant("a third"),
            kind => kind.rival(),
        };
        let next = tokio::spawn(next.lock(&last, &name, TTL));
        until("both are in the queue", async || {
            queued.query_async(&mut setting.redis).await == Ok(2)
        })
        .await;
        held.release().await.unwrap();
        assert_eq!(queued.query_async(&mut setting.redis).await, Ok(1), "the first was served");
        drop(first);
        dropped += 1;
        let next = timeout(TTL, next).await.expect("it was handed on");
        next.unwrap().unwrap().release().await.unwrap();
    }
    setting.assert_nothing_is_left(dropped).await;
}

#[tokio::test]
async fn a_release_that_is_dropped_releases() {
    let (mut setting, mut dropped) = (Setting::new().await, 0);
    for kind in EVERY_KIND.repeat(ROUNDS) {
        dropped += at_each_poll(async |polls| {
            let name = setting.name(kind);
            let held = kind.lock(&setting.locks, &name, TTL).await.unwrap();
            drop_after(polls, held.release()).await.is_some_and(|it| it.is_ok())
        })
        .await;
    }
    setting.assert_nothing_is_left(dropped).await;
}

/// The work was protected to its end, although the keeper's release finds nothing any more.
#[tokio::test]
async fn a_release_whose_answer_nobody_awaits_is_no_loss() {
    let server = Server::start();
    for _ in 0..ROUNDS {
        let locks = Locks::connect(&server.url()).await.unwrap();
        let lease = locks.mutex("a").lock().await.unwrap();
        // It counts the leases that are released from now on.
        let mut shutdown = std::pin::pin!(locks.shutdown());
        assert!(is_pending(&mut shutdown).await, "the lease is left");
        drop_after(1, lease.release()).await;
        let report = shutdown.await;
        assert_eq!((report.released, report.left), (1, 0));
    }
}

#[tokio::test]
async fn a_renewal_by_hand_that_is_dropped_neither_ends_the_lease_nor_keeps_it() {
    let (mut setting, mut dropped) = (Setting::new().await, 0);
    for kind in EVERY_KIND.repeat(ROUNDS) {
        let name = setting.name(kind);
        let held = kind.lock(&setting.locks, &name, TTL).await.unwrap();
        for lease in held.leases() {
            dropped += at_each_poll(async |polls| {
                drop_after(polls, lease.renew()).await.is_some_and(|it| it.is_ok())
            })
            .await;
        }
        // One more renewal is in flight at the release.
        for lease in held.leases() {
            let _ = drop_after(1, lease.renew()).await;
        }
        assert!(held.is_held());
        held.release().await.unwrap();
    }
    setting.assert_nothing_is_left(dropped).await;
}

/// Three steps that keep a reference until they are dropped.
async fn three_steps(alive: std::sync::Arc<()>) {
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    drop(alive);
}

#[tokio::test]
async fn a_run_that_is_dropped_drops_its_work_and_not_the_lease() {
    let (mut setting, mut dropped) = (Setting::new().await, 0);
    for kind in EVERY_KIND {
        let name = setting.name(kind);
        let held = kind.lock(&setting.locks, &name, TTL).await.unwrap();
        dropped += at_each_poll(async |polls| {
            let alive = std::sync::Arc::new(());
            let work = three_steps(alive.clone());
            let ran = match &held {
                Guard::One(lease) => drop_after(polls, lease.run(work)).await,
                Guard::All(leases) => drop_after(polls, leases.run(work)).await,
            };
            assert_eq!(std::sync::Arc::strong_count(&alive), 1, "the work is gone");
            assert!(held.is_held());
            ran.is_some_and(|it| it.is_ok())
        })
        .await;
        held.release().await.unwrap();
    }
    setting.assert_nothing_is_left(dropped).await;
}

/// The future resolves only for a lost lease. Here the lease is lost by force.
#[tokio::test]
async fn a_wait_for_the_loss_that_is_dropped_leaves_nothing() {
    let (mut setting, mut dropped) = (Setting::new().await, 0);
    for kind in EVERY_KIND {
        dropped += at_each_poll(async |polls| {
            let name = setting.name(kind);
            // The renewal after a third of this finds the loss.
            let ttl = Duration::from_millis(300);
            let held = kind.lock(&setting.locks, &name, ttl).await.unwrap();
            let _ = setting.other.force_release(&*name).await.unwrap();
            match &held {
                Guard::One(lease) => drop_after(polls, lease.lost()).await.is_some(),
                Guard::All(leases) => drop_after(polls, leases.lost()).await.is_some(),
            }
        })
        .await;
    }
    setting.assert_nothing_is_left(dropped).await;
}

/// The ticket may be used up by then, but nobody holds the lock.
#[tokio::test]
async fn an_adoption_that_is_dropped_leaves_nothing() {
    let (mut setting, mut dropped) = (Setting::new().await, 0);
    for kind in EVERY_KIND.repeat(ROUNDS) {
        // Several are adopted one by one.
        if kind == Kind::All {
            continue;
        }
        dropped += at_each_poll(async |polls| {
            let name = setting.name(kind);
            let held = kind.lock(&setting.other, &name, TTL).await.unwrap();
            let Guard::One(lease) = held else { panic!("it is one") };
            let ticket = lease.detach().await.unwrap();
            let adopted = drop_after(polls, setting.locks.adopt(ticket.clone())).await;
            if polls == 0 {
                // The adoption was not sent, so the ticket is still good.
                setting.locks.adopt(ticket).await.unwrap().release().await.unwrap();
            }
            adopted.is_some_and(|it| it.is_ok())
        })
        .await;
    }
    setting.assert_nothing_is_left(dropped).await;
}

#[tokio::test]
async fn a_leader_that_is_dropped_leaves_nothing() {
    let (mut setting, mut dropped) = (Setting::new().await, 0);
    for round in 0..ROUNDS * 4 {
        dropped += at_each_poll(async |polls| {
            let name = setting.name(Kind::Mutex);
            let rival = if round % 2 == 0 {
                None
            } else {
                Some(setting.other.mutex(&*name).lock().await.unwrap())
            };
            let release = tokio::spawn({
                let (mut redis, name) = (setting.redis.clone(), name.clone());
                async move {
                    let queued = until_queued(&mut redis, &name);
                    if let Some(rival) = rival {
                        let _ = timeout(Duration::from_millis(50), queued).await;
                        rival.release().await.unwrap();
                    }
                }
            });
            let alive = std::sync::Arc::new(());
            let work = |lease: LeaseHandle| {
                let alive = alive.clone();
                async move {
                    three_steps(alive).await;
                    lease.fence().unwrap()
                }
            };
            let led = drop_after(polls, setting.locks.lead(&*name, work)).await;
            assert_eq!(std::sync::Arc::strong_count(&alive), 1, "the work is gone");
            release.await.unwrap();
            led.is_some_and(|it| it.is_ok())
        })
        .await;
    }
    setting.assert_nothing_is_left(dropped).await;
}

#[tokio::test]
async fn a_dropped_inspection_changes_nothing() {
    let (mut setting, mut dropped) = (Setting::new().await, 0);
    for kind in EVERY_KIND {
        let name = setting.name(kind);
        let held = kind.lock(&setting.other, &name, TTL).await.unwrap();
        let locks = &setting.locks;
        dropped += at_each_poll(async |polls| {
            drop_after(polls, locks.inspect(&*name)).await.is_some_and(|it| it.unwrap().held > 0)
        })
        .await;
        dropped += at_each_poll(async |polls| {
            drop_after(polls, locks.is_held_by(&*name, "me")).await.is_some_and(|it| it.is_ok())
        })
        .await;
        assert!(held.is_held());
        held.release().await.unwrap();
        // A force takes effect even if its future was dropped.
        dropped += at_each_poll(async |polls| {
            let _held = kind.lock(&setting.other, &name, TTL).await.unwrap();
            drop_after(polls, locks.force_release(&*name).into_future())
                .await
                .is_some_and(|it| it.is_ok())
        })
        .await;
    }
    setting.assert_nothing_is_left(dropped).await;
}

/// Nothing is acquired any more. Held leases go on until they are released.
#[tokio::test]
async fn a_shut_down_that_is_dropped_leaves_nothing() {
    let (mut setting, mut dropped) = (Setting::new().await, 0);
    for _ in 0..ROUNDS {
        dropped += at_each_poll(async |polls| {
            let locks = Locks::connect(&setting.server.url()).await.unwrap();
            let mut held = Vec::new();
            for kind in EVERY_KIND {
                let name = setting.name(kind);
                held.push(kind.lock(&locks, &name, TTL).await.unwrap());
            }
            assert!(drop_after(1, locks.shutdown()).await.is_none());
            let refused = locks.mutex("new").wait(Wait::Forever).lock().await;
            assert!(matches!(refused, Err(LockError::ShutDown)), "{refused:?}");
            assert!(held.iter().all(Guard::is_held));
            drop(held);
            drop_after(polls, locks.shutdown()).await.is_some()
        })
        .await;
    }
    setting.assert_nothing_is_left(dropped).await;
}

/// No connection stays, and no thread that keeps one.
#[tokio::test]
async fn connecting_that_is_dropped_leaves_no_connection() {
    let server = Server::start();
    let dropped = at_each_poll(async |polls| {
        drop_after(polls, Locks::connect(&server.url())).await.is_some_and(|it| it.is_ok())
    })
    .await;
    assert!(dropped > 0, "it never suspends");
    let mut redis = server.redis().await;
    until("no connection is left", async || {
        let list: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut redis).await.unwrap();
        list.lines().count() == 1
    })
    .await;
}
