//! The span of `#[instrument]` includes the wait or only the body, depending on where the
//! attribute stands.

use std::io;
use std::sync::{Arc, Mutex};

use leasehold::{LockError, Locks, distributed_lock};

/// Said in front of the wait, and then in the body.
fn say(what: &'static str) -> &'static str {
    tracing::info!("{what}");
    what
}

#[tracing::instrument]
#[distributed_lock(key = say("key"))]
async fn above() -> Result<(), LockError> {
    say("body");
    Ok(())
}

#[distributed_lock(key = say("key"))]
#[tracing::instrument]
async fn below() -> Result<(), LockError> {
    say("body");
    Ok(())
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns whether the log lines before the wait, and those in the body, are in a span.
async fn is_in_span(call: impl Future<Output = Result<(), LockError>>, span: &str) -> [bool; 2] {
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let guard = tracing::subscriber::set_default(subscriber);
    Locks::in_memory().scope(call).await.unwrap();
    drop(guard);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let said = |what| text.lines().find(|line| line.contains(what)).expect("it is said");
    ["key", "body"].map(|what| said(what).contains(&format!("{span}:")))
}

#[tokio::test]
async fn a_span_below_the_attribute_includes_the_wait_and_a_span_above_does_not() {
    assert_eq!(is_in_span(below(), "below").await, [true, true]);
    assert_eq!(is_in_span(above(), "above").await, [false, true]);
}
