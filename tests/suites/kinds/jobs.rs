//! Jobs: in each tick one success, by whoever is there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use leasehold::{Fault, Job, LeaseHandle, LockError, Locks};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{until, work_for};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// The ticks of the runs that have begun, and those that have succeeded.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<Vec<(SystemTime, bool)>>>);

impl Runs {
    fn note(&self, lease: &LeaseHandle, is_success: bool) -> Result<(), String> {
        self.0.lock().unwrap().push((lease.tick().unwrap().began, is_success));
        if is_success { Ok(()) } else { Err("no".to_owned()) }
    }

    fn all(&self) -> Vec<(SystemTime, bool)> {
        self.0.lock().unwrap().clone()
    }

    /// The ticks with a success, in order: each one once.
    fn successes(&self) -> Vec<SystemTime> {
        let all: Vec<_> = self.all().into_iter().filter(|run| run.1).map(|run| run.0).collect();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}");
        all
    }
}

fn job(locks: &Locks, period: Duration) -> Job {
    locks.mutex("job").once_per(period).job().jitter(Duration::ZERO)
}

/// Waits until an hour of UTC has begun: by its time, no tick of an hour ends during a test.
async fn an_hour_has_begun() {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    sleep(HOUR.saturating_sub(Duration::from_secs(since.as_secs() % 3600))).await;
}

/// Starts a job whose runs take this long and succeed.
fn start(job: Job, runs: &Runs, lasts: Duration) -> tokio::task::JoinHandle<Result<(), LockError>> {
    let runs = runs.clone();
    tokio::spawn(async move {
        job.run(|lease| {
            let runs = runs.clone();
            async move {
                work_for(lasts).await;
                runs.note(&lease, true)
            }
        })
        .await
    })
}

#[tokio::test(start_paused = true)]
async fn each_tick_has_one_success() {
    let (first, faults) = Locks::in_memory_with_faults();
    let clients: Vec<_> = (0..5).map(|_| Locks::over(faults.store().clone())).collect();
    let runs = Runs::default();
    let started: Vec<_> =
        clients.iter().map(|locks| start(job(locks, HOUR), &runs, MINUTE)).collect();
    sleep(HOUR * 10).await;
    let ticks = runs.successes();
    assert!((10..=11).contains(&ticks.len()), "{ticks:?}");
    for pair in ticks.windows(2) {
        assert_eq!(pair[1].duration_since(pair[0]).unwrap(), HOUR);
    }
    for locks in clients {
        locks.shutdown().await;
    }
    for job in started {
        job.await.unwrap().unwrap();
    }
    drop(first);
}

/// A process that starts in the middle of a tick runs what the tick lacks, and nothing twice.
#[tokio::test(start_paused = true)]
async fn a_process_that_starts_amid_a_tick_runs_what_it_lacks() {
    let locks = Locks::in_memory();
    an_hour_has_begun().await;
    sleep(HOUR / 2).await;
    let runs = Runs::default();
    let first = start(job(&locks, HOUR), &runs, Duration::ZERO);
    sleep(MINUTE).await;
    assert_eq!(runs.successes().len(), 1);
    first.abort();
    let next = start(job(&locks, HOUR), &runs, Duration::ZERO);
    sleep(MINUTE).await;
    assert_eq!(runs.successes().len(), 1, "the tick has its success");
    sleep(HOUR / 2).await;
    assert_eq!(runs.successes().len(), 2);
    next.abort();
}

/// After a failure it is run again within the tick, not at once, and by anybody.
#[tokio::test(start_paused = true)]
async fn a_failure_is_repeated_after_a_pause() {
    let locks = Locks::in_memory();
    an_hour_has_begun().await;
    let (runs, begun) = (Runs::default(), Instant::now());
    let times = Arc::new(Mutex::new(Vec::new()));
    let started: Vec<_> = (0..3)
        .map(|_| {
            let (job, runs, times) = (job(&locks, HOUR), runs.clone(), times.clone());
            tokio::spawn(async move {
                job.run(|lease| {
                    let mut times = times.lock().unwrap();
                    times.push(begun.elapsed());
                    let is_success = times.len() >= 4;
                    let runs = runs.clone();
                    async move { runs.note(&lease, is_success) }
                })
                .await
            })
        })
        .collect();
    sleep(MINUTE * 10).await;
    let times = times.lock().unwrap().clone();
    assert_eq!(times.len(), 4, "{times:?}");
    for pair in times.windows(2) {
        let pause = pair[1].saturating_sub(pair[0]);
        assert!(pause >= Duration::from_secs(10) && pause <= Duration::from_secs(90), "{times:?}");
    }
    assert_eq!(runs.successes().len(), 1);
    for job in started {
        job.abort();
    }
}

/// The store learns of a failure when its pause is over: there is nothing left to keep.
#[tokio::test(start_paused = true)]
async fn a_pause_is_counted_from_the_failure() {
    let (locks, faults) = Locks::in_memory_with_faults();
    an_hour_has_begun().await;
    let runs = Arc::new(AtomicU64::new(0));
    let (counted, failing) = (runs.clone(), faults.clone());
    let job = locks.mutex("job").ttl(MINUTE * 10).once_per(HOUR).job().jitter(Duration::ZERO);
    let running = tokio::spawn(async move {
        job.run(|_| {
            let is_first = counted.fetch_add(1, Ordering::Relaxed) == 0;
            let failing = failing.clone();
            async move {
                if !is_first {
                    std::future::pending::<()>().await;
                }
                failing.always(Fault::Unreachable);
                Err::<(), _>("no")
            }
        })
        .await
    });
    sleep(MINUTE * 2).await;
    assert_eq!(runs.load(Ordering::Relaxed), 1, "it can't ask");
    faults.heal();
    while runs.load(Ordering::Relaxed) == 1 {
        let kept = locks.inspect("job").await.unwrap().kept;
        assert!(kept.is_none(), "kept for {kept:?}");
        sleep(Duration::from_millis(10)).await;
    }
    running.abort();
}

/// A failing job does not hold up the next tick.
#[tokio::test(start_paused = true)]
async fn each_tick_is_tried_however_often_the_last_ones_failed() {
    let locks = Locks::in_memory();
    let runs = Runs::default();
    let (job, noted) = (job(&locks, MINUTE).retry(Duration::from_secs(50)), runs.clone());
    let running = tokio::spawn(async move {
        job.run(|lease| std::future::ready(noted.note(&lease, false))).await
    });
    sleep(MINUTE * 30).await;
    let mut ticks: Vec<_> = runs.all().into_iter().map(|(began, _)| began).collect();
    ticks.dedup();
    assert!((30..=31).contains(&ticks.len()), "{}", ticks.len());
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure() {
    let locks = Locks::in_memory();
    an_hour_has_begun().await;
    let (job, calls) = (job(&locks, HOUR), Arc::new(AtomicU64::new(0)));
    let counted = calls.clone();
    let running = tokio::spawn(async move {
        job.run(|_| {
            let nth = counted.fetch_add(1, Ordering::SeqCst);
            assert!(nth > 0, "the call itself panics");
            async move {
                assert!(nth > 1, "its future panics");
                Ok::<_, String>(())
            }
        })
        .await
    });
    sleep(MINUTE * 10).await;
    assert_eq!(calls.load(Ordering::SeqCst), 3, "the third one succeeds, and there is no fourth");
    assert!(!running.is_finished());
    running.abort();
}

/// A process that dies in the middle: its task is gone, and nobody releases the lock.
#[tokio::test(start_paused = true)]
async fn another_process_takes_over() {
    let (_locks, faults) = Locks::in_memory_with_faults();
    an_hour_has_begun().await;
    let [dies, lives] = [(); 2].map(|()| Locks::over(faults.store().clone()));
    let runs = Runs::default();
    let held = dies.mutex("job").once_per(HOUR).auto_renew(false).lock().await.unwrap();
    std::mem::forget(held);
    let running = start(job(&lives, HOUR), &runs, Duration::ZERO);
    sleep(Duration::from_secs(32)).await;
    assert_eq!(runs.successes().len(), 1, "the lease lasted for 30 s");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn without_catching_up_the_first_run_is_in_the_next_tick() {
    let locks = Locks::in_memory();
    an_hour_has_begun().await;
    let runs = Runs::default();
    // In the middle of a tick.
    let lease = locks.mutex("job").once_per(HOUR).lock().await.unwrap();
    let tick = lease.tick().unwrap();
    lease.release().await.unwrap();
    let running = start(job(&locks, HOUR).catch_up(false), &runs, Duration::ZERO);
    sleep(HOUR * 3).await;
    let ticks = runs.successes();
    assert!((2..=3).contains(&ticks.len()), "{ticks:?}");
    assert!(ticks[0] > tick.began, "{ticks:?}");
    running.abort();
}

/// Another process runs the present tick, and dies in the next one. That began when this process was
/// there.
#[tokio::test(start_paused = true)]
async fn a_tick_that_begins_while_another_process_runs_is_not_left_out() {
    let (_locks, faults) = Locks::in_memory_with_faults();
    let [dies, lives] = [(); 2].map(|()| Locks::over(faults.store().clone()));
    an_hour_has_begun().await;
    let (runs, ttl) = (Runs::default(), Duration::from_secs(90));
    let mutex = dies.mutex("job").once_per(MINUTE).ttl(ttl).auto_renew(false);
    let held = mutex.lock().await.unwrap();
    let tick = held.tick().unwrap();
    std::mem::forget(held);
    let running = start(job(&lives, MINUTE).catch_up(false), &runs, Duration::ZERO);
    sleep(ttl + Duration::from_secs(2)).await;
    let ticks = runs.successes();
    assert_eq!(ticks.len(), 1, "{ticks:?}");
    assert!(ticks[0] > tick.began);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_store_loses_no_tick() {
    let (locks, faults) = Locks::in_memory_with_faults();
    an_hour_has_begun().await;
    let runs = Runs::default();
    let running = start(job(&locks, HOUR), &runs, Duration::ZERO);
    sleep(MINUTE).await;
    faults.always(Fault::Unreachable);
    sleep(HOUR).await;
    assert!(!running.is_finished());
    faults.heal();
    sleep(MINUTE).await;
    let ticks = runs.successes();
    assert_eq!(ticks.len(), 2, "{ticks:?}");
    running.abort();
}

/// The run goes on while the shutdown lets it, and the job ends without an error.
#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_a_run_finish() {
    let locks = Locks::in_memory();
    an_hour_has_begun().await;
    let runs = Runs::default();
    let running = start(job(&locks, HOUR), &runs, Duration::from_secs(3));
    sleep(Duration::from_secs(1)).await;
    let report = locks.shutdown().await;
    assert_eq!(report.left, 0);
    running.await.unwrap().unwrap();
    assert_eq!(runs.successes().len(), 1);
}

/// The process that ran the last ticks ends in good order. Its lease would have lasted for longer than
/// a tick, and the other one found the lock held.
#[tokio::test(start_paused = true)]
async fn short_ticks_are_not_slept_through_while_another_process_runs() {
    let (_locks, faults) = Locks::in_memory_with_faults();
    let [ends, stays] = [(); 2].map(|()| Locks::over(faults.store().clone()));
    let runs = Runs::default();
    let ten = Duration::from_secs(10);
    an_hour_has_begun().await;
    let first = start(job(&ends, ten), &runs, Duration::from_secs(2));
    tokio::task::yield_now().await;
    let second = start(job(&stays, ten), &runs, Duration::from_secs(2));
    sleep(Duration::from_secs(5)).await;
    ends.shutdown().await;
    first.await.unwrap().unwrap();
    sleep(ten * 6).await;
    let ticks = runs.successes();
    assert!((6..=7).contains(&ticks.len()), "{ticks:?}");
    second.abort();
}

/// Whoever asks for another run wants it now.
#[tokio::test(start_paused = true)]
async fn a_job_that_catches_nothing_up_runs_again_when_it_is_asked_to() {
    an_hour_has_begun().await;
    let locks = Locks::in_memory();
    sleep(MINUTE).await;
    let runs = Runs::default();
    let waits = job(&locks, HOUR).catch_up(false).jitter(HOUR);
    let running = start(waits, &runs, Duration::ZERO);
    sleep(MINUTE).await;
    assert!(runs.all().is_empty());
    // It has given the lock back, so there is a run to forget.
    let _ = locks.run_again("job", "ann", "").await.unwrap();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(runs.successes().len(), 1);
    // It ends at once, also while it is about to ask.
    let _ = locks.run_again("job", "ann", "").await.unwrap();
    tokio::task::yield_now().await;
    let ended = Instant::now();
    locks.shutdown().await;
    running.await.unwrap().unwrap();
    assert!(ended.elapsed() < Duration::from_millis(100), "{:?}", ended.elapsed());
}

/// The next tick is run in time, and no two runs at once.
#[tokio::test(start_paused = true)]
async fn a_run_that_outlasts_its_tick_is_replaced() {
    an_hour_has_begun().await;
    let (first, faults) = Locks::in_memory_with_faults();
    let second = Locks::over(faults.store().clone());
    let (runs, running) = (Runs::default(), Arc::new(AtomicU64::new(0)));
    let mut started = JoinSet::new();
    for locks in [&first, &second] {
        let job = locks.mutex("job").once_per(HOUR).replace(true).job().jitter(Duration::ZERO);
        let (runs, running) = (runs.clone(), running.clone());
        started.spawn(async move {
            job.run(|lease| {
                let (runs, running) = (runs.clone(), running.clone());
                async move {
                    let _one = Counted::new(&running);
                    // Each second run takes too long.
                    let begun = runs.all().iter().filter(|run| !run.1).count();
                    runs.note(&lease, false).unwrap_err();
                    sleep(if begun % 2 == 0 { HOUR / 4 } else { HOUR * 5 / 4 }).await;
                    runs.note(&lease, true)
                }
            })
            .await
        });
    }
    sleep(HOUR * 7 + MINUTE * 59).await;
    let ticks = |is_success| {
        let all = runs.all().into_iter().filter(|run| run.1 == is_success).map(|run| run.0);
        all.collect::<Vec<_>>()
    };
    let (begun, done) = (ticks(false), ticks(true));
    assert_eq!(begun.len(), 8, "{begun:?}");
    for pair in begun.windows(2) {
        assert_eq!(pair[1].duration_since(pair[0]).unwrap(), HOUR);
    }
    assert_eq!(done.len(), 4, "{done:?}");
}

/// Counts the runs that are under way.
struct Counted(Arc<AtomicU64>);

impl Counted {
    fn new(all: &Arc<AtomicU64>) -> Self {
        assert_eq!(all.fetch_add(1, Ordering::Relaxed), 0, "two runs at once");
        Self(all.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn what_has_no_ticks_is_no_job() {
    let locks = Locks::in_memory();
    let run = async |job: Job| job.run(|_| async { Ok::<_, String>(()) }).await.unwrap_err();
    let error = run(locks.mutex("a").job()).await.to_string();
    assert!(error.contains("`once_per` or `schedule`"), "{error}");
    let error = run(locks.mutex("a").once(HOUR).job()).await;
    assert!(matches!(error, LockError::InvalidOption { .. }), "{error}");
    let error = run(locks.mutex("a").once_per(HOUR).job().retry(Duration::ZERO)).await.to_string();
    assert!(error.contains("`retry`") && error.contains("100ms"), "{error}");
    let error = run(locks.mutex("a").schedule("daily in Berlin").job()).await.to_string();
    assert!(error.contains("IANA"), "{error}");
}

/// Eight processes, on a server whose seconds are the ticks.
#[tokio::test]
async fn each_second_has_one_success_on_a_server() {
    let server = Server::start();
    let runs = Runs::default();
    let mut started = JoinSet::new();
    for _ in 0..8 {
        let locks = Locks::connect(&server.url()).await.unwrap();
        let (job, runs) = (job(&locks, Duration::from_secs(1)), runs.clone());
        started.spawn(
            async move { job.run(|lease| std::future::ready(runs.note(&lease, true))).await },
        );
    }
    until("four ticks have their success", async || runs.successes().len() >= 4).await;
    let ticks = runs.successes();
    let apart = ticks[3].duration_since(ticks[0]).unwrap();
    assert!(apart >= Duration::from_secs(3), "{ticks:?}");
}
