//! The clocks of a server or a worker, under the control of a test: `skew.c`, built with the
//! system's compiler and preloaded.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::shim::{build, folder};

/// The clocks of one process.
#[derive(Debug)]
pub struct Clock {
    file: File,
    path: PathBuf,
    offset: AtomicI64,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// A clock that is right.
    ///
    /// # Panics
    ///
    /// If its file can't be made.
    #[must_use]
    pub fn new() -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = folder().join(format!("clock-{}-{number}", std::process::id()));
        let file = File::create(&path).expect("a file in the target folder");
        let clock = Self { file, path, offset: AtomicI64::new(0) };
        for at in [0, 8, 16] {
            clock.write(at, 0);
        }
        clock
    }

    /// Makes the programs that a command starts use this clock.
    ///
    /// # Panics
    ///
    /// If there is no C compiler.
    pub fn govern(&self, command: &mut Command) {
        static SHIM: OnceLock<PathBuf> = OnceLock::new();
        let shim = SHIM.get_or_init(|| build("skew", include_str!("skew.c")));
        command.env("LD_PRELOAD", shim).env("SKEWED_CLOCK", &self.path);
    }

    /// Moves it by this many microseconds.
    ///
    /// # Panics
    ///
    /// If its file can't be written.
    pub fn jump(&self, micros: i64) {
        let offset = self.offset.fetch_add(micros, Ordering::Relaxed) + micros;
        self.write(0, offset);
    }

    /// Stops it at the beginning of a second.
    ///
    /// # Panics
    ///
    /// If its file can't be written.
    pub fn stop(&self) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        self.write(8, micros(Duration::from_secs(now.as_secs())));
    }

    /// Stops the monotonic clock for this long in total.
    ///
    /// # Panics
    ///
    /// If its file can't be written.
    pub fn suspend(&self, time: Duration) {
        self.write(16, micros(time));
    }

    /// The server has mapped the file, and sees the change at its next look.
    fn write(&self, at: u64, value: i64) {
        self.file.write_all_at(&value.to_ne_bytes(), at).expect("the clock's file");
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A time in microseconds.
///
/// # Panics
///
/// If it is longer than 292,000 years.
#[must_use]
pub fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).expect("less than 292,000 years")
}
