//! Each metric counts what its name says, and each event and span has the label of its lock.

mod alerts;
mod export;
mod labels;
mod lasting;
mod names;
mod spans;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::store::memory::MemoryStore;
use leasehold::{Fault, LeaseHandle, LockError, LockKey, Locks, Rate};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio::time::sleep;

/// All metrics with their labels, and how often each counted since the last call.
fn counted(snapshotter: &Snapshotter) -> BTreeMap<String, i64> {
    let metrics = snapshotter.snapshot().into_vec().into_iter();
    let count = metrics.map(|(key, _, _, value)| {
        let key = key.key();
        let labels: Vec<_> = key.labels().map(metrics::Label::value).collect();
        let times = match value {
            DebugValue::Counter(count) => count.try_into().unwrap(),
            DebugValue::Histogram(values) => values.len().try_into().unwrap(),
            // Whole numbers, but for times.
            DebugValue::Gauge(value) => format!("{:.0}", value.into_inner()).parse().unwrap(),
        };
        (format!("{} {}", key.name(), labels.join(" ")).trim_end().to_owned(), times)
    });
    count.collect()
}

#[tokio::test(start_paused = true)]
async fn each_metric_counts_what_its_name_says() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);

    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("secret").ttl(Duration::from_secs(9)).lock().await.unwrap();
    let permit = locks.semaphore("s", 1).acquire().await.unwrap();
    locks.mutex("secret").try_lock().await.unwrap_err();
    sleep(Duration::from_secs(4)).await;
    permit.release().await.unwrap();
    faults.always(Fault::LoseCommand);
    lease.lost().await;
    locks.mutex("b").try_lock().await.unwrap_err();
    drop(lease);

    let counted = counted(&snapshotter);
    let times = |name: &str| counted.get(name).copied().unwrap_or_default();
    assert_eq!(times("leasehold_acquisitions_total mutex (no label) acquired"), 1, "{counted:?}");
    assert_eq!(
        times("leasehold_acquisitions_total semaphore (no label) acquired"),
        1,
        "{counted:?}"
    );
    assert_eq!(times("leasehold_wait_seconds mutex (no label)"), 1, "{counted:?}");
    assert_eq!(times("leasehold_acquisitions_total mutex (no label) held"), 1, "{counted:?}");
    assert_eq!(times("leasehold_acquisitions_total mutex (no label) failed"), 1, "{counted:?}");
    assert_eq!(times("leasehold_hold_seconds mutex (no label)"), 1, "{counted:?}");
    assert_eq!(times("leasehold_hold_seconds semaphore (no label)"), 1, "{counted:?}");
    assert_eq!(times("leasehold_lost_total mutex (no label) expired"), 1, "{counted:?}");
    assert_eq!(times("leasehold_renewals_total mutex (no label) renewed"), 1, "{counted:?}");
    assert!(times("leasehold_renewals_total mutex (no label) failed") > 1, "{counted:?}");
    assert!(times("leasehold_renewal_seconds mutex (no label)") > 2, "{counted:?}");
    assert!(times("leasehold_late_renewals_total mutex (no label)") > 0, "{counted:?}");
    assert!(!counted.keys().any(|name| name.contains("secret")), "{counted:?}");
}

/// A release or a success finds that the lease had ended, at once or in the background: that is a loss
/// like any other, and counts once.
#[tokio::test(start_paused = true)]
async fn a_loss_that_is_found_at_the_end_is_counted_once() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let store = Arc::new(MemoryStore::default());
    let locks = Locks::over(store.clone());
    let second = Duration::from_secs(1);
    // How many losses of each kind there are since the last look.
    let losses = |reason: &str| {
        let name = format!("leasehold_lost_total mutex (no label) {reason}");
        counted(&snapshotter).get(&name).copied().unwrap_or_default()
    };
    let [plain, lingers, once] =
        [locks.mutex("a"), locks.mutex("b").linger(second * 9), locks.mutex("c").once(second * 60)];
    for lock in [&plain, &lingers, &once] {
        let lease = lock.lock().await.unwrap();
        assert!(store.expire(lease.key()));
        assert!(lease.release().await.is_err());
        assert_eq!(losses("gone"), 1, "a release of {lock:?}");
        let lease = lock.lock().await.unwrap();
        assert!(store.expire(lease.key()));
        drop(lease);
        sleep(second / 10).await;
        assert_eq!(losses("gone"), 1, "a drop of {lock:?}");
        let work = async |lease: LeaseHandle| {
            assert!(store.expire(lease.key()));
            Ok::<_, LockError>(())
        };
        lock.run(work).await.expect("its work came to its end");
        assert_eq!(losses("gone"), 1, "a run of {lock:?}");
    }
    let lease = once.lock().await.unwrap();
    assert!(store.expire(lease.key()));
    assert!(lease.complete().await.is_err());
    assert_eq!(losses("gone"), 1);
    // It was known before.
    let lease = plain.lock().await.unwrap();
    let _ = locks.force_release("a").await.unwrap();
    lease.lost().await;
    assert_eq!(losses("forced"), 1);
    assert!(lease.release().await.is_err());
    assert_eq!((losses("forced"), losses("gone")), (0, 0));
}

/// Who waited gets an offer, which lasts for a second or so until it is confirmed.
#[tokio::test(start_paused = true)]
async fn the_confirmation_of_an_offer_is_not_late() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let (locks, faults) = Locks::in_memory_with_faults();
    let other = Locks::over(faults.store().clone());
    let held = locks.mutex("a").lock().await.unwrap();
    let mutex = other.mutex("a").wait(Duration::from_secs(60));
    let (lease, ()) = tokio::join!(mutex.lock(), async {
        sleep(Duration::from_secs(1)).await;
        held.release().await.unwrap();
    });
    sleep(Duration::from_secs(25)).await;
    let counted = counted(&snapshotter);
    let times = |name: &str| counted.get(name).copied().unwrap_or_default();
    assert!(times("leasehold_renewals_total mutex (no label) renewed") > 2, "{counted:?}");
    assert_eq!(times("leasehold_late_renewals_total mutex (no label)"), 0, "{counted:?}");
    drop(lease);
}

/// A job says what it runs, how that ended, and when it last succeeded.
#[tokio::test(start_paused = true)]
async fn jobs_say_how_they_go() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    // Each with its outcome, if it has one.
    let look = || {
        let metrics = snapshotter.snapshot().into_vec().into_iter();
        let values = metrics.filter_map(|(key, _, _, value)| {
            let labels: Vec<_> = key.key().labels().skip(1).map(metrics::Label::value).collect();
            let name = key.key().name().strip_prefix("leasehold_job_")?;
            let value = match value {
                DebugValue::Gauge(value) => value.into_inner(),
                DebugValue::Counter(count) => f64::from(u32::try_from(count).unwrap()),
                DebugValue::Histogram(_) => return None,
            };
            Some((format!("{name} {}", labels.join(" ")).trim_end().to_owned(), value))
        });
        values.collect::<BTreeMap<_, _>>()
    };
    let locks = Locks::in_memory();
    let day = Duration::from_secs(24 * 60 * 60);
    let job = locks.mutex("nightly").label("nightly").once_per(day).job().retry(day / 100);
    let mut begun = 0;
    let work = |_| {
        begun += 1;
        let is_first = begun == 1;
        async move {
            sleep(day / 1000).await;
            if is_first { Err("no") } else { Ok(()) }
        }
    };
    let mut running = Box::pin(job.run(work));
    // The first run goes on, then fails; the second succeeds.
    for (after, is_running, [failed, succeeded]) in [
        (day / 2000, true, [false, false]),
        (day / 500, false, [true, false]),
        (day / 50, false, [false, true]),
    ] {
        tokio::time::timeout(after, &mut running).await.unwrap_err();
        let seen = look();
        let value = |name: &str| seen.get(name).copied().unwrap_or_default();
        assert_eq!(value("running_since_seconds") > 1.0e9, is_running, "{seen:?}");
        let ended = ["failed", "succeeded"].map(|how| value(&format!("runs_total {how}")) > 0.0);
        assert_eq!(ended, [failed, succeeded], "{seen:?}");
        // The recorder forgets what is not set again.
        let is_told = value("tick_seconds") > 86_399.0 && value("last_success_seconds") > 1.0e9;
        assert!(is_told || failed, "{seen:?}");
    }
}

/// The gauges follow leases and waiters, whatever ends them.
#[tokio::test(start_paused = true)]
async fn gauges_go_up_and_down() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let locks = Locks::in_memory();
    let order = || locks.mutex(LockKey::new("order:1").unwrap()).label("order");
    // How much each has changed since the last look.
    let gauges = || {
        let now = counted(&snapshotter);
        ["held", "waiting"].map(|name| now[&format!("leasehold_{name} mutex order")])
    };

    let held = order().lock().await.unwrap();
    assert_eq!(gauges(), [1, 0]);
    let waiting = order();
    let mut waiter = Box::pin(waiting.lock());
    tokio::time::timeout(Duration::from_secs(1), &mut waiter).await.unwrap_err();
    assert_eq!(gauges(), [0, 1]);
    drop(waiter);
    assert_eq!(gauges(), [0, -1]);
    held.release().await.unwrap();
    assert_eq!(gauges(), [-1, 0]);

    let lost = order().lock().await.unwrap();
    assert_eq!(gauges(), [1, 0]);
    let _ = locks.force_release("order:1").await.unwrap();
    lost.lost().await;
    assert_eq!(gauges(), [-1, 0]);
    drop(lost);
    let ticket = order().lock().await.unwrap().detach().await.unwrap();
    assert_eq!(gauges(), [0, 0]);
    let adopted = locks.adopt(ticket).await.unwrap();
    assert_eq!(gauges(), [1, 0]);
    drop(adopted);
}

/// A caller that gives up while it waits is counted, and is no error.
#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_counts_as_cancelled() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let locks = Locks::in_memory();
    let _held = locks.mutex("a").lock().await.unwrap();
    let patient = locks.mutex("a");
    tokio::time::timeout(Duration::from_secs(1), patient.lock()).await.unwrap_err();
    let counted = counted(&snapshotter);
    assert_eq!(
        counted["leasehold_acquisitions_total mutex (no label) cancelled"], 1,
        "{counted:?}"
    );
    assert_eq!(counted["leasehold_acquisitions_total mutex (no label) acquired"], 1, "{counted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_waiting_for_a_rate_counts_as_cancelled() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let locks = Locks::in_memory();
    let limit = locks.rate("r", Rate::per_minute(2).burst(1)).wait(Duration::from_secs(60));
    limit.acquire().await.unwrap();
    let patience = Duration::from_secs(1);
    let (first, behind) = tokio::join!(
        tokio::time::timeout(patience, limit.acquire()),
        tokio::time::timeout(patience, limit.acquire()),
    );
    assert!(first.is_err() && behind.is_err());
    let mut waiting = std::pin::pin!(limit.acquire());
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let (_, refused) = tokio::join!(locks.shutdown(), waiting);
    assert!(matches!(refused, Err(LockError::ShutDown)), "{refused:?}");
    let counted = counted(&snapshotter);
    let times = |outcome: &str| {
        let name = format!("leasehold_acquisitions_total rate (no label) {outcome}");
        counted.get(&name).copied().unwrap_or_default()
    };
    assert_eq!(["acquired", "cancelled", "failed"].map(times), [1, 2, 1], "{counted:?}");
}

/// Work that lingers says so, with the label of its lock.
#[tokio::test(start_paused = true)]
async fn lingering_locks_count_recalls() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let (locks, faults) = Locks::in_memory_with_faults();
    let other = Locks::over(faults.store().clone());
    let cart = locks.mutex("cart:1").label("cart").linger(Duration::from_secs(60));
    for _ in 0..3 {
        cart.lock().await.unwrap().release().await.unwrap();
    }
    let theirs = other.mutex("cart:1").lock().await.unwrap();
    theirs.release().await.unwrap();
    // The time stands still until the client has read the answer to its question, too.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let counted = counted(&snapshotter);
    assert_eq!(counted["leasehold_local_grants_total mutex cart"], 2, "{counted:?}");
    assert_eq!(counted["leasehold_recalls_total mutex cart"], 1, "{counted:?}");
}

/// Each of several leases counts. A refusal of all counts once.
#[tokio::test(start_paused = true)]
async fn each_of_several_leases_counts() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);

    let (locks, faults) = Locks::in_memory_with_faults();
    locks.all(["a", "b", "c"]).lock().await.unwrap().release().await.unwrap();
    let held = locks.mutex("a").lock().await.unwrap();
    locks.all(["a", "b", "c"]).try_lock().await.unwrap_err();
    faults.always(Fault::LoseCommand);
    locks.all(["b", "c"]).try_lock().await.unwrap_err();
    faults.heal();
    held.release().await.unwrap();

    let counted = counted(&snapshotter);
    let times = |name: &str| counted.get(name).copied().unwrap_or_default();
    assert_eq!(times("leasehold_acquisitions_total mutex (no label) acquired"), 4, "{counted:?}");
    assert_eq!(times("leasehold_wait_seconds mutex (no label)"), 4, "{counted:?}");
    assert_eq!(times("leasehold_hold_seconds mutex (no label)"), 4, "{counted:?}");
    assert_eq!(times("leasehold_acquisitions_total mutex (no label) held"), 1, "{counted:?}");
    assert_eq!(times("leasehold_acquisitions_total mutex (no label) failed"), 1, "{counted:?}");
}
