//! Events about a lock have its label, and never its name.

use std::time::Duration;

use http::Request;
use http_body_util::Full;
use leasehold::tower::template_key;
use leasehold::{Fault, LockError, LockLayer, Locks, Wait, distributed_lock, lock_key};
use leasehold_tests::logs::LogRecorder;
use tower::{Layer, ServiceExt};
use tracing::Level;

use crate::docs::events;

/// The lines that contain a text. Each has the label, and no line at all has the value.
#[track_caller]
fn assert_labelled(recorder: &LogRecorder, text: &str, label: &str) {
    let log = recorder.text();
    let lines: Vec<_> = log.lines().filter(|line| line.contains(text)).collect();
    assert!(!lines.is_empty(), "{log}");
    for line in lines {
        assert!(line.contains(&format!(r#"lock="{label}""#)), "{line}");
    }
    assert!(!log.contains("4711"), "{log}");
}

#[distributed_lock(key = "job:{id}", if_held = "skip", ttl = "1s", locks = locks)]
async fn job(locks: &Locks, id: u32) {
    std::future::pending::<()>().await;
}

#[distributed_lock(key = "late:{id}", on_lost = "finish", ttl = "1s", locks = locks)]
async fn late(locks: &Locks, faults: leasehold::Faults, id: u32) -> Result<(), LockError> {
    faults.always(Fault::Unreachable);
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(())
}

#[distributed_lock(key = "unreleased:{id}", locks = locks)]
async fn unreleased(locks: &Locks, faults: leasehold::Faults, id: u32) -> Result<(), LockError> {
    faults.always(Fault::Unreachable);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_the_attribute_logs_has_its_template() {
    let (recorder, _guard) = LogRecorder::start(Level::INFO);
    let (locks, faults) = Locks::in_memory_with_faults();
    unreleased(&locks, faults.clone(), 4711).await.unwrap();
    assert_labelled(&recorder, "a lock could not be released", "unreleased:{id}");
    faults.heal();
    late(&locks, faults.clone(), 4711).await.unwrap();
    assert_labelled(&recorder, "a lease was lost", "late:{id}");
    assert_labelled(&recorder, "leases could not be renewed", "late:{id}");
    assert_labelled(&recorder, "a function finished after its lock was lost", "late:{id}");
    let _ = recorder.take();
    job(&locks, 4711).await;
    assert_labelled(&recorder, "a job did not run", "job:{id}");
    faults.heal();
    let expire = async {
        while !faults.expire("job:4711") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::join!(job(&locks, 4711), expire);
    assert_labelled(&recorder, "a job was stopped halfway", "job:{id}");
}

#[tokio::test(start_paused = true)]
async fn what_the_layer_logs_has_its_template() {
    let (recorder, _guard) = LogRecorder::start(Level::INFO);
    let (locks, faults) = Locks::in_memory_with_faults();
    let layer = |fail_open| {
        let key = template_key("tenant:{header:x-tenant}");
        let layer = LockLayer::mutex(&locks, key);
        if fail_open { layer.fail_open() } else { layer }
    };
    let ask = async |layer: LockLayer<_>| {
        let service = layer.layer(tower::service_fn(|_: Request<()>| async {
            Ok::<_, std::convert::Infallible>(http::Response::new(Full::<bytes::Bytes>::default()))
        }));
        let request = Request::get("/").header("x-tenant", "4711").body(()).unwrap();
        service.oneshot(request).await.unwrap().status()
    };
    faults.always(Fault::Unreachable);
    assert_eq!(ask(layer(false)).await, 503);
    assert_labelled(&recorder, "a request is refused", "tenant:{header:x-tenant}");
    let metrics = metrics_util::debugging::DebuggingRecorder::new();
    let snapshotter = metrics.snapshotter();
    let counting = metrics::set_default_local_recorder(&metrics);
    assert_eq!(ask(layer(true)).await, 200);
    drop(counting);
    assert_labelled(&recorder, "a request passes without its lock", "tenant:{header:x-tenant}");
    let counted = super::counted(&snapshotter);
    let passed = "leasehold_fail_open_total mutex tenant:{header:x-tenant}";
    assert_eq!(counted[passed], 1, "{counted:?}");
    let named = layer(false).label("tenants");
    assert_eq!(ask(named).await, 503);
    assert_labelled(&LogRecorder::clone(&recorder), "lock=\"tenants\"", "tenants");
}

#[tokio::test(start_paused = true)]
async fn what_the_client_logs_has_the_label_of_its_call() {
    let (recorder, _guard) = LogRecorder::start(Level::INFO);
    let (locks, faults) = Locks::in_memory_with_faults();
    let id = 4711;
    let _held = locks.semaphore(lock_key!("seats:{id}"), 1).acquire().await.unwrap();
    let _ = locks.force_release(lock_key!("seats:{id}")).await.unwrap();
    assert_labelled(&recorder, "a lock was taken from its holders by force", "seats:{id}");
    assert_labelled(&recorder, "a lease was lost", "seats:{id}");
    faults.always(Fault::Unreachable);
    let patient = locks.mutex(format!("order:{id}")).label("order").wait(Wait::Forever);
    tokio::time::timeout(Duration::from_secs(9), patient.lock()).await.unwrap_err();
    assert_labelled(&recorder, "the lock store failed; retrying", "order");
    let ttl = Duration::from_secs(1);
    faults.heal();
    let lease = locks.mutex(format!("order:{id}")).label("order").ttl(ttl).lock().await.unwrap();
    faults.always(Fault::Unreachable);
    drop(lease);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_labelled(&recorder, "a lease could not be released", "order");
}

/// Events that are about no lock in particular, or about one that only a name says.
const OF_NO_LOCK: [&str; 22] = [
    "the installed lock client was replaced",
    "a server of the quorum does not count yet",
    "a server of the quorum is unreachable",
    "shut down with leases left",
    "a person took a lock by force in the console",
    "the lock that was taken in the console",
    "the lock client ended before all locks were released",
    "the client's record of itself was not written",
    "not all locks were released in time",
    "no node of the lock store's cluster reports the slots",
    "failed to unsubscribe from a lock's hints",
    "the lock store refuses pub/sub messages",
    "the lock store refuses the flags of scripts",
    "the lock store's settings put locks at risk",
    "connected to the lock store",
    "not connected to the lock store yet",
    "the lock store does not speak RESP3",
    "the connection to the lock store failed",
    "the connection for hints",
    "{self}",
    // In the span of their lock, which has the label.
    "granted",
    "queued",
];

/// Each event in the code has the field `lock`, but for these.
#[test]
fn each_event_about_a_lock_has_the_field() {
    let mut labelled = 0;
    for text in super::names::sources() {
        for (call, message) in events(&text, &["error", "warn", "info", "debug", "trace"]) {
            let is_of_no_lock = OF_NO_LOCK.iter().any(|it| message.starts_with(it));
            let fields: String = call.split('"').step_by(2).collect();
            let mut words = fields.split(|c: char| !c.is_alphanumeric() && c != '_');
            let has_label = words.any(|word| word == "lock");
            assert!(has_label != is_of_no_lock, "`lock` or not? {message}");
            labelled += usize::from(has_label);
        }
    }
    assert!(labelled > 20, "{labelled} have it");
}
