//! What a process tells those who operate it: the figures of its metrics, and the lines of its log.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use tracing::Level;
use tracing::field::{Field, Visit};

use crate::network::Micros;

/// What a client says when a lease is lost.
pub(crate) const LOSS: &str = "a lease was lost";

/// A line of a log.
#[derive(Clone, Debug)]
pub(crate) struct LogLine {
    pub(crate) at: Micros,
    pub(crate) level: Level,
    pub(crate) message: String,
    pub(crate) fields: BTreeMap<&'static str, String>,
}

impl LogLine {
    pub(crate) fn new(at: Micros, level: Level) -> Self {
        Self { at, level, message: String::new(), fields: BTreeMap::new() }
    }

    /// A field, or nothing.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

impl Visit for LogLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            self.fields.insert(field.name(), format!("{value:?}"));
        }
    }
}

/// The value of a counter or a gauge, and the least that it ever was; of a histogram, how many values it has.
#[derive(Clone, Copy, Debug, Default)]
struct Value {
    now: i64,
    least: i64,
}

#[derive(Debug, Default)]
struct Figure(Mutex<Value>);

impl Figure {
    fn change(&self, to: impl FnOnce(i64) -> i64) {
        let mut value = lock(&self.0);
        value.now = to(value.now);
        value.least = value.least.min(value.now);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "they are whole numbers, or seconds")]
fn whole(value: f64) -> i64 {
    value as i64
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl CounterFn for Figure {
    fn increment(&self, value: u64) {
        self.change(|now| now + signed(value));
    }

    fn absolute(&self, value: u64) {
        self.change(|_| signed(value));
    }
}

impl GaugeFn for Figure {
    fn increment(&self, value: f64) {
        self.change(|now| now + whole(value));
    }

    fn decrement(&self, value: f64) {
        self.change(|now| now - whole(value));
    }

    fn set(&self, value: f64) {
        self.change(|_| whole(value));
    }
}

impl HistogramFn for Figure {
    fn record(&self, _: f64) {
        self.change(|now| now + 1);
    }
}

/// What is told of a process.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    figures: Mutex<BTreeMap<Key, Arc<Figure>>>,
    /// The lines that nobody has looked at.
    lines: Mutex<Vec<LogLine>>,
    /// How often a loss was logged, by the kind, the label and the reason.
    losses: Mutex<BTreeMap<[String; 3], i64>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Telemetry {
    fn figure(&self, key: &Key) -> Arc<Figure> {
        let mut figures = lock(&self.figures);
        if let Some(known) = figures.get(key) {
            return known.clone();
        }
        figures.entry(key.clone()).or_default().clone()
    }

    /// The sum of all figures of a name that have these labels.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> i64 {
        let figures = lock(&self.figures);
        let of_name = figures.iter().filter(|(key, _)| key.name() == name);
        let is_meant = |key: &Key| labels.iter().all(|(of, value)| label(key, of) == Some(*value));
        of_name.filter(|(key, _)| is_meant(key)).map(|(_, figure)| lock(&figure.0).now).sum()
    }

    /// The kinds and the labels of locks that it has told something of.
    pub(crate) fn series(&self) -> BTreeSet<(String, String)> {
        let figures = lock(&self.figures);
        let series =
            |key: &Key| Some((label(key, "kind")?.to_owned(), label(key, "lock")?.to_owned()));
        figures.keys().filter_map(series).collect()
    }

    /// The figures that were once below zero.
    pub(crate) fn below_zero(&self) -> Vec<String> {
        let figures = lock(&self.figures);
        let below = figures.iter().filter(|(_, figure)| lock(&figure.0).least < 0);
        below.map(|(key, _)| key.to_string()).collect()
    }

    /// Logs a line.
    pub(crate) fn log(&self, line: LogLine) {
        if line.message == LOSS {
            let of = ["kind", "lock", "reason"].map(|name| line.field(name).to_owned());
            *lock(&self.losses).entry(of).or_default() += 1;
        }
        if line.level <= Level::WARN {
            lock(&self.lines).push(line);
        }
    }

    /// The warnings and errors since the last time.
    pub(crate) fn take_lines(&self) -> Vec<LogLine> {
        std::mem::take(&mut lock(&self.lines))
    }

    /// How often losses were logged of this kind and this label, by their reasons.
    pub(crate) fn losses(&self, kind: &str, of: &str) -> BTreeMap<String, i64> {
        let losses = lock(&self.losses);
        let own = losses.iter().filter(|([its, label, _], _)| its == kind && label == of);
        own.map(|([.., reason], count)| (reason.clone(), *count)).collect()
    }
}

fn label<'a>(key: &'a Key, name: &str) -> Option<&'a str> {
    key.labels().find(|it| it.key() == name).map(metrics::Label::value)
}

impl Recorder for Telemetry {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.figure(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.figure(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.figure(key))
    }
}
