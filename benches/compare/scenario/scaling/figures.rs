//! The contenders of these scenarios, and the points of their plots.

use crate::contender::Contender;
use crate::plot::Line;
use crate::stats::Spread;

/// Ours, and the bare commands beside it.
pub(super) const CONTENDERS: [Contender; 2] = [Contender::Ours, Contender::Raw];

/// The median of the rounds of some figure.
pub(super) fn median<T>(rounds: &[T], of: impl Fn(&T) -> f64) -> f64 {
    Spread::of(rounds.iter().map(of)).median
}

/// Adds a point to the line of this name.
pub(super) fn add(lines: &mut Vec<Line>, name: String, point: (f64, f64)) {
    match lines.iter_mut().find(|line| line.name == name) {
        Some(line) => line.points.push(point),
        None => lines.push(Line { name, points: vec![point] }),
    }
}
