//! Prints all that a program could write down, one item a line, with its kind.

use std::collections::HashMap;
use std::fmt::{Debug, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use metrics_util::debugging::{DebuggingRecorder, Snapshotter};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata};

use crate::Failure;

/// Prints one item.
pub(super) fn say(kind: &str, what: &str) {
    println!("{kind} {}", what.replace('\n', " "));
}

/// Records everything of all threads, down to TRACE.
#[derive(Default)]
struct Everything {
    last: AtomicU64,
    /// The level of each span.
    spans: Mutex<HashMap<u64, Level>>,
}

#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Everything {
    fn write(kind: &str, level: Level, of: &str, record: impl FnOnce(&mut Fields)) {
        let mut fields = Fields::default();
        record(&mut fields);
        say(kind, &format!("{level} {of}:{}", fields.0));
    }
}

impl tracing::Subscriber for Everything {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let (id, of) = (self.last.fetch_add(1, Ordering::Relaxed) + 1, span.metadata());
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        spans.insert(id, *of.level());
        let name = format!("{} {}", of.target(), of.name());
        Self::write("span", *of.level(), &name, |fields| span.record(fields));
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        let level = spans.get(&span.into_u64()).copied().unwrap_or(Level::ERROR);
        Self::write("span", level, "", |fields| values.record(fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let of = event.metadata();
        Self::write("event", *of.level(), of.target(), |fields| event.record(fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The driver logs with `log`.
impl log::Log for Everything {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        say("log", &format!("{} {}: {}", record.level(), record.target(), record.args()));
    }

    fn flush(&self) {}
}

/// The recorded metrics.
pub(super) struct Metrics(Snapshotter);

impl Metrics {
    /// Starts to record everything.
    pub(super) fn install() -> Result<Self, Failure> {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        recorder.install()?;
        tracing::subscriber::set_global_default(Everything::default())?;
        log::set_boxed_logger(Box::new(Everything::default()))?;
        log::set_max_level(log::LevelFilter::Trace);
        Ok(Self(snapshotter))
    }

    /// Prints all names and labels.
    pub(super) fn say(&self) {
        for (key, _, about, _) in self.0.snapshot().into_vec() {
            say("metric", &format!("{:?} {about:?}", key.key()));
        }
    }
}
