//! The chart of a lock: how long it was held and waited for while somebody looked.

use std::collections::VecDeque;
use std::fmt::Write;
use std::time::Duration;

use tokio::time::Instant;

use super::text::short;
use leasehold::LockInfo;

/// The time that the chart shows. The template names it.
const WINDOW: Duration = Duration::from_secs(120);
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;

/// What was seen within the last [`WINDOW`].
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<Sample>);

#[derive(Debug)]
struct Sample {
    at: Instant,
    /// The longest hold, and the longest wait.
    times: [Option<Duration>; 2],
}

/// What the template draws.
#[derive(Debug, Default)]
pub(super) struct Chart {
    /// The class and the points of each line.
    pub(super) lines: Vec<(&'static str, String)>,
    /// The time at the chart's upper edge, and half of it.
    pub(super) top: String,
    pub(super) half: String,
    /// What it shows, in words.
    pub(super) summary: String,
}

impl History {
    /// Looks arrive twice a second at most, so it has 240 samples at most.
    pub(super) fn add(&mut self, info: &LockInfo) {
        let at = Instant::now();
        self.0.retain(|sample| at - sample.at < WINDOW);
        let held = info.holders.iter().filter_map(|holder| holder.held_for).max();
        let waits = info.waiters.iter().map(|waiter| waiter.waiting_for).max();
        self.0.push_back(Sample { at, times: [held, waits] });
    }

    pub(super) fn chart(&self) -> Chart {
        let Some(last) = self.0.back() else { return Chart::default() };
        let times = self.0.iter().flat_map(|sample| sample.times).flatten();
        let top = times.max().unwrap_or_default().max(Duration::from_secs(1));
        let mut lines = Vec::new();
        for (which, class) in [(0, "held"), (1, "waits")] {
            let mut line = String::new();
            for sample in &self.0 {
                let Some(time) = sample.times[which] else {
                    lines.extend(finished(class, &mut line));
                    continue;
                };
                let age = (last.at - sample.at).as_secs_f64() / WINDOW.as_secs_f64();
                let height = time.as_secs_f64() / top.as_secs_f64();
                let (x, y) = (WIDTH * (1.0 - age), HEIGHT * (1.0 - height));
                let _ = write!(line, "{x:.1},{y:.1} ");
            }
            lines.extend(finished(class, &mut line));
        }
        let now = |time: Option<Duration>| time.map_or_else(|| "none".to_owned(), short);
        let summary = format!(
            "Longest hold now: {}. Longest wait now: {}.",
            now(last.times[0]),
            now(last.times[1])
        );
        Chart { lines, top: short(top), half: short(top / 2), summary }
    }
}

/// A line needs two points to be seen.
fn finished(class: &'static str, line: &mut String) -> Option<(&'static str, String)> {
    let line = std::mem::take(line);
    (line.matches(',').count() > 1).then(|| (class, line.trim_end().to_owned()))
}
