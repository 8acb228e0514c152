//! Medians, percentiles and spreads.

use std::time::Duration;

/// A count as a real number, for ratios.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn real(count: usize) -> f64 {
    count as f64
}

/// The least, the median and the most of some numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// # Panics
    ///
    /// If there is no number.
    pub(crate) fn of(numbers: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<_> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
        let median = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Self { least, median, most }
    }

    /// `median (least to most)`.
    pub(crate) fn show(self, digits: usize) -> String {
        let Self { least, median, most } = self;
        format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
    }
}

/// The ratios of rounds that were run in turns.
pub(crate) fn ratios(ours: &[f64], others: &[f64]) -> Spread {
    Spread::of(ours.iter().zip(others).map(|(ours, other)| ours / other))
}

/// Durations, sorted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(Vec<Duration>);

impl FromIterator<Duration> for Times {
    fn from_iter<I: IntoIterator<Item = Duration>>(times: I) -> Self {
        let mut sorted: Vec<_> = times.into_iter().collect();
        sorted.sort_unstable();
        Self(sorted)
    }
}

impl Times {
    /// The shortest time that `part` of a thousand do not exceed; 0 if there are none.
    pub(crate) fn per_mille(&self, part: usize) -> Duration {
        let last = self.0.len().saturating_sub(1);
        self.0.get(last * part / 1000).copied().unwrap_or_default()
    }

    pub(crate) fn p50(&self) -> Duration {
        self.per_mille(500)
    }

    pub(crate) fn p99(&self) -> Duration {
        self.per_mille(990)
    }

    /// The points of the distribution: a number of a thousand, and the time that they do not
    /// exceed.
    pub(crate) fn distribution(&self) -> impl Iterator<Item = (usize, Duration)> {
        let parts = (0..=1000).filter(|_| !self.is_empty());
        parts.map(|part| (part, self.per_mille(part)))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
