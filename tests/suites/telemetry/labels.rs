//! Events about a lock have its label, and never its name.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use http::Request;
use http_body_util::Full;
use leasehold::layer::template_key;
use leasehold::{Fault, LockError, LockLayer, Locks, Wait, distributed_lock, lock_key};
use leasehold_tests::logs::LogRecorder;
use tower::{Layer, ServiceExt};
use tracing::Level;

use super::counted;
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
    assert_labelled(&recorder, "requests pass without their lock", "tenant:{header:x-tenant}");
    faults.always(Fault::Refuse);
    assert_eq!(ask(layer(true)).await, 200);
    assert_labelled(&recorder, "a request passes without its lock", "tenant:{header:x-tenant}");
    faults.always(Fault::Unreachable);
    let counted = counted(&snapshotter);
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

/// A service whose locks have plain names, as in the guide's first examples, and labels. Its
/// routes are asked again and again: in order, while others hold their locks, and in an outage.
#[tokio::test(start_paused = true)]
async fn each_line_of_a_hammered_service_has_the_field() {
    let (recorder, _guard) = LogRecorder::start(Level::TRACE);
    let metrics = metrics_util::debugging::DebuggingRecorder::new();
    let snapshotter = metrics.snapshotter();
    let _counting = metrics::set_default_local_recorder(&metrics);
    let (locks, faults) = Locks::in_memory_with_faults();
    let by_hand = |label: Option<&'static str>| {
        let mutex = locks.mutex("by hand").wait(Duration::from_millis(10));
        let mutex = label.into_iter().fold(mutex, leasehold::Mutex::label);
        get(async move || -> Result<(), LockError> {
            let lease = mutex.lock().await?;
            lease.run(tokio::time::sleep(Duration::from_millis(1))).await?;
            lease.release().await.map(drop)
        })
    };
    let app = Router::new()
        .route("/plain", by_hand(None))
        .route("/labelled", by_hand(Some("hammered by hand")))
        .route("/layer", get(async || ()).layer(LockLayer::mutex(&locks, "layer")))
        .route(
            "/named",
            get(async || ())
                .layer(LockLayer::semaphore(&locks, "named", 1).label("hammered layer")),
        )
        .route(
            "/open",
            get(async || ())
                .layer(LockLayer::mutex(&locks, "open").label("hammered open").fail_open()),
        );
    let hammer = async |times: usize| {
        let mut answers = BTreeMap::<_, usize>::new();
        for path in ["/plain", "/labelled", "/layer", "/named", "/open"] {
            for _ in 0..times {
                let request = Request::get(path).body(axum::body::Body::empty()).unwrap();
                let answer = app.clone().oneshot(request).await.unwrap();
                *answers.entry((path, answer.status().as_u16())).or_default() += 1;
            }
        }
        answers
    };
    let answers = hammer(5).await;
    assert!(answers.keys().all(|(_, status)| *status == 200), "{answers:?}");
    let names = ["by hand", "layer", "open"];
    let held = locks.all(names).permit("named", 1).lock().await.unwrap();
    let answers = hammer(5).await;
    assert!(answers.keys().all(|(_, status)| [409, 429].contains(status)), "{answers:?}");
    assert!(faults.expire("layer"));
    held.lost().await;
    drop(held);
    faults.always(Fault::Unreachable);
    let answers = hammer(50).await;
    assert_eq!(answers[&("/labelled", 503)], 50, "{answers:?}");
    assert_eq!(answers[&("/named", 503)], 50, "{answers:?}");
    assert_eq!(answers[&("/open", 200)], 50, "{answers:?}");

    let log = recorder.take();
    let (mut labelled, mut unlabelled) = (0, 0);
    for line in log.lines() {
        let (_, said) = line.split_once(" leasehold").unwrap_or_default();
        let of_no_lock = OF_NO_LOCK.iter().any(|it| said.contains(it));
        assert!(of_no_lock || line.contains("lock=\""), "{line}");
        assert!(!line.contains("lock=\"\""), "{line}");
        labelled += usize::from(line.contains("lock=\"hammered"));
        unlabelled += usize::from(line.contains("lock=\"(no label)\""));
    }
    assert!(labelled > 10 && unlabelled > 10, "{labelled}, {unlabelled}: {log}");
    let counted = counted(&snapshotter);
    for name in counted.keys() {
        assert!(!name.contains("  ") && name.split(' ').count() > 2, "no label: {name}");
    }

    // In an outage, each lock has a line in ten seconds, which counts the rest.
    let warnings = |log: &str, label: &str| {
        let lock = format!("lock=\"{label}\"");
        let of_requests = log.lines().filter(|line| line.contains(" WARN leasehold::layer"));
        let left_out =
            |line: &str| Some(line.split_once("left_out=")?.1.split_once(' ')?.0.parse());
        let left_out = of_requests.filter(|line| line.contains(&lock)).filter_map(left_out);
        left_out.collect::<Result<Vec<usize>, _>>().unwrap()
    };
    let outage = "requests pass without their lock until the lock store answers again";
    let begun: Vec<_> = log.lines().filter(|line| line.contains(outage)).collect();
    assert_eq!(begun.len(), 1, "{begun:?}");
    assert!(begun[0].contains("lock=\"hammered open\""), "{begun:?}");
    let labels = ["hammered by hand", "hammered layer"];
    tokio::time::sleep(Duration::from_secs(60)).await;
    hammer(1).await;
    let later = recorder.take();
    for label in labels {
        let (first, next) = (warnings(&log, label), warnings(&later, label));
        assert_eq!(first.first(), Some(&0), "{label}: {log}");
        let said = first.len() + first.iter().sum::<usize>() + next.iter().sum::<usize>();
        assert_eq!((said, next.len()), (50, 1), "{label}: {first:?}, {next:?}");
        assert!(first.len() < 10 && next[0] > 0, "{label}: {first:?}, {next:?}");
    }
}

/// An error of the store knows the label of its lock, as all others do.
#[tokio::test(start_paused = true)]
async fn each_error_of_the_store_has_the_label_of_its_lock() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let order = locks.mutex("order:1").label("order");
    let held = order.lock().await.unwrap();
    faults.always(Fault::Unreachable);
    let tried = order.try_lock().await.map(drop);
    for failed in [tried, held.release().await.map(drop)] {
        let Err(LockError::Store { label, .. }) = failed else { panic!("{failed:?}") };
        assert_eq!(label, Some("order"));
    }
    let plain = locks.mutex("order:1").try_lock().await;
    assert!(matches!(plain, Err(LockError::Store { label: None, .. })), "{plain:?}");
}

/// Events that are about no lock in particular, or about one that only a name says.
const OF_NO_LOCK: [&str; 24] = [
    "a background task of the lock client has panicked",
    "the installed lock client was replaced",
    "a server of the quorum does not count yet",
    "a server of the quorum is unreachable",
    "shut down with leases left",
    "a person took a lock by force in the console",
    "the lock that was taken in the console",
    "an operator's limit is not understood",
    "the limits that operators set",
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
