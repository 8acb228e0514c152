//! The spans of acquisitions and of held leases.

use std::time::Duration;

use leasehold::{LockError, Locks, distributed_lock, lock_key};
use leasehold_tests::logs::LogRecorder;
use tokio::time::timeout;
use tracing::Level;

/// The recorded lines that contain a text.
fn lines(recorder: &LogRecorder, text: &str) -> Vec<String> {
    recorder.text().lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_waits_is_queued_and_then_granted() {
    let (recorder, _guard) = LogRecorder::start(Level::DEBUG);
    let locks = Locks::in_memory();
    let id = 4711;
    let order = locks.mutex(lock_key!("order:{id}"));
    let first = order.lock().await.unwrap();
    assert_eq!(lines(&recorder, "queued"), [""; 0]);
    let second = tokio::join!(order.lock(), first.release()).0.unwrap();

    let acquire = r#"leasehold.acquire{kind="mutex" lock="order:{id}"}"#;
    let [queued] = &lines(&recorder, "queued")[..] else { panic!("{}", recorder.text()) };
    assert!(queued.contains(acquire), "{queued}");
    let granted = lines(&recorder, "granted");
    assert!(granted.len() == 2 && granted[1].contains(acquire), "{granted:?}");
    drop(second);
    let spans: Vec<_> = lines(&recorder, "leasehold::spans");
    assert!(!spans.iter().any(|line| line.contains("4711")), "{spans:?}");
}

#[tokio::test(start_paused = true)]
async fn work_and_its_loss_are_in_the_span_of_the_lease() {
    let (recorder, _guard) = LogRecorder::start(Level::DEBUG);
    let locks = Locks::in_memory();
    let stuck = locks.mutex("order:1").label("order").lock().await.unwrap();
    let fence = stuck.fence().unwrap();
    let work = stuck.run(async {
        tracing::info!("charging");
        let _ = locks.force_release("order:1").await.unwrap();
        std::future::pending::<()>().await;
    });
    assert!(matches!(work.await, Err(LockError::Lost { .. })));
    tracing::info!("after it");

    let hold = format!(r#"leasehold.hold{{kind="mutex" lock="order" fence={fence}"#);
    for text in ["charging", "a lease was lost"] {
        let [line] = &lines(&recorder, text)[..] else { panic!("{}", recorder.text()) };
        assert!(line.contains(&hold), "{line}");
    }
    assert!(!lines(&recorder, "after it")[0].contains("hold"), "{}", recorder.text());
}

#[distributed_lock(key = "report:{day}", locks = locks)]
async fn report(locks: &Locks, day: u32) -> Result<(), LockError> {
    tracing::info!("reporting");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_annotated_function_runs_in_the_span_of_its_lease() {
    let (recorder, _guard) = LogRecorder::start(Level::DEBUG);
    report(&Locks::in_memory(), 4711).await.unwrap();
    let [line] = &lines(&recorder, "reporting")[..] else { panic!("{}", recorder.text()) };
    assert!(line.contains(r#"leasehold.hold{kind="mutex" lock="report:{day}" fence="#), "{line}");
}

/// The span is closed when the guard is gone, although a handle is still there.
#[tokio::test(start_paused = true)]
async fn a_handle_does_not_keep_the_span_open() {
    let (recorder, _guard) = LogRecorder::start_with_spans(Level::DEBUG);
    let locks = Locks::in_memory();
    let lease = locks.mutex("a").lock().await.unwrap();
    let handle = lease.handle();
    let is_closed = || !lines(&recorder, "leasehold.hold").is_empty();
    assert!(!is_closed(), "{}", recorder.text());
    lease.release().await.unwrap();
    assert!(is_closed(), "{}", recorder.text());
    assert!(!handle.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_failure_has_the_type_of_its_error() {
    let (recorder, _guard) = LogRecorder::start_with_spans(Level::DEBUG);
    let (locks, faults) = Locks::in_memory_with_faults();
    let held = locks.mutex("a").lock().await.unwrap();
    locks.mutex("a").try_lock().await.unwrap_err();
    timeout(Duration::from_secs(1), locks.mutex("a").lock()).await.unwrap_err();
    drop(held);
    faults.always(leasehold::Fault::Unreachable);
    locks.mutex("b").try_lock().await.unwrap_err();

    let ended = lines(&recorder, "leasehold.acquire");
    let ended: Vec<_> = ended.iter().filter(|line| line.contains("close")).collect();
    let outcomes = [
        r#"outcome="acquired"}"#,
        r#"outcome="held"}"#,
        r#"outcome="cancelled"}"#,
        r#"outcome="failed" error.type="failed"}"#,
    ];
    assert_eq!(ended.len(), outcomes.len(), "{ended:#?}");
    for (line, outcome) in ended.iter().zip(outcomes) {
        assert!(line.contains(outcome), "{line}");
    }
}
