//! Records what a test's thread logs.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::Level;
use tracing::subscriber::DefaultGuard;

/// The log of the thread that started it, as text.
#[derive(Clone, Debug, Default)]
pub struct LogRecorder(Arc<Mutex<Vec<u8>>>);

impl LogRecorder {
    /// Records events of this level and above until the guard is dropped.
    #[must_use]
    pub fn start(level: Level) -> (Self, DefaultGuard) {
        let recorder = Self::default();
        let writer = recorder.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (recorder, tracing::subscriber::set_default(subscriber))
    }

    /// Everything that was logged and not taken yet.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// The same, and forgets it.
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
