//! Records what a test's thread logs.

use std::io;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Level};
use tracing_subscriber::fmt::format::FmtSpan;

/// A second subscriber, for as long as the process lives. With only one subscriber, tracing asks it
/// once for each log line, in the first thread that meets the line. If that thread has no
/// subscriber, the line is off in all threads.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));

/// The log of the thread that started it, as text.
#[derive(Clone, Debug, Default)]
pub struct LogRecorder(Arc<Mutex<Vec<u8>>>);

impl LogRecorder {
    /// Records events of this level and above until the guard is dropped.
    #[must_use]
    pub fn start(level: Level) -> (Self, DefaultGuard) {
        Self::start_with(level, FmtSpan::NONE)
    }

    /// Records the ends of spans, too.
    #[must_use]
    pub fn start_with_spans(level: Level) -> (Self, DefaultGuard) {
        Self::start_with(level, FmtSpan::CLOSE)
    }

    fn start_with(level: Level, spans: FmtSpan) -> (Self, DefaultGuard) {
        LazyLock::force(&SECOND);
        let recorder = Self::default();
        let writer = recorder.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_span_events(spans)
            .with_ansi(false)
            // Some digits of the time may be those that a test must not find.
            .without_time()
            .with_writer(move || writer.clone())
            .finish();
        (recorder, tracing::subscriber::set_default(subscriber))
    }

    /// Everything that was logged since the last `take`.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Returns the same text, and clears it.
    #[must_use]
    pub fn take(&self) -> String {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl io::Write for LogRecorder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
