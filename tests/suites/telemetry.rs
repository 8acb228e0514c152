//! Each metric counts what its name says.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::{Fault, Locks};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio::time::sleep;

/// All metrics with their labels, and how often each counted.
fn counted(snapshotter: &Snapshotter) -> BTreeMap<String, u64> {
    let metrics = snapshotter.snapshot().into_vec().into_iter();
    let count = metrics.map(|(key, _, _, value)| {
        let key = key.key();
        let labels: Vec<_> = key.labels().map(metrics::Label::value).collect();
        let times = match value {
            DebugValue::Counter(count) => count,
            DebugValue::Histogram(values) => values.len() as u64,
            DebugValue::Gauge(_) => 0,
        };
        (format!("{} {}", key.name(), labels.join(" ")), times)
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
    assert_eq!(times("leasehold_acquired_total mutex"), 1, "{counted:?}");
    assert_eq!(times("leasehold_acquired_total semaphore"), 1, "{counted:?}");
    assert_eq!(times("leasehold_wait_seconds mutex"), 1, "{counted:?}");
    assert_eq!(times("leasehold_refused_total mutex held"), 1, "{counted:?}");
    assert_eq!(times("leasehold_refused_total mutex failed"), 1, "{counted:?}");
    assert_eq!(times("leasehold_hold_seconds mutex"), 1, "{counted:?}");
    assert_eq!(times("leasehold_hold_seconds semaphore"), 1, "{counted:?}");
    assert_eq!(times("leasehold_lost_total mutex expired"), 1, "{counted:?}");
    assert_eq!(times("leasehold_renewals_total renewed"), 1, "{counted:?}");
    assert!(times("leasehold_renewals_total failed") > 1, "{counted:?}");
    assert!(!counted.keys().any(|name| name.contains("secret")), "{counted:?}");
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
    assert_eq!(times("leasehold_acquired_total mutex"), 4, "{counted:?}");
    assert_eq!(times("leasehold_wait_seconds mutex"), 4, "{counted:?}");
    assert_eq!(times("leasehold_hold_seconds mutex"), 4, "{counted:?}");
    assert_eq!(times("leasehold_refused_total mutex held"), 1, "{counted:?}");
    assert_eq!(times("leasehold_refused_total mutex failed"), 1, "{counted:?}");
}
