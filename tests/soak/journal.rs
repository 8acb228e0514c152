//! A file of a history. A line is one write, so a process that is killed leaves all that it wrote.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_history::{Effect, Line, Nanos};

use crate::Failure;
use crate::clock::now;

/// Writes lines, from any task.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    file: Arc<Mutex<File>>,
}

impl Journal {
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self { file: Arc::new(Mutex::new(file)) })
    }

    /// # Panics
    ///
    /// If the line can't be written: nothing could be checked then.
    pub(crate) fn note(&self, line: &Line) {
        let line = format!("{line}\n");
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes()).expect("the history can be written");
    }

    /// Notes a fault that began at `from` and is over now.
    pub(crate) fn fault(&self, name: &str, effect: Effect, from: Nanos) {
        let name = name.to_owned();
        self.note(&Line::Fault { effect, from, to: now(), amount: 0, name, whose: None });
    }
}
