//! Plots, as SVG.

use std::path::Path;

use plotters::prelude::*;

use crate::failure::Failure;
use crate::stats::{Times, real};

const SIZE: (u32, u32) = (960, 560);

/// The most points of a line that are marked.
const FEW: usize = 20;

/// A line of a plot.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Line {
    /// The percentage of waits that end within a number of milliseconds.
    pub(crate) fn distribution(name: String, times: &Times) -> Self {
        let points = times
            .distribution()
            .map(|(part, time)| (time.as_secs_f64().max(1e-6) * 1e3, real(part) / 10.0));
        Self { name, points: points.collect() }
    }
}

/// The axes of a plot; x is logarithmic.
pub(crate) struct Axes {
    pub(crate) title: &'static str,
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    /// True if y is logarithmic too.
    pub(crate) is_log_y: bool,
}

/// Draws lines over a logarithmic axis.
pub(crate) fn draw(file: &Path, axes: &Axes, lines: &[Line]) -> Result<(), Failure> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let least = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(f64::INFINITY, f64::min);
    let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(0.0, f64::max);
    // Leaves room for the labels beside the lines.
    let x = least(|point| point.0)..most(|point| point.0);
    let x = x.start..x.end * (x.end / x.start).powf(0.4).max(8.0);
    // No line runs along the frame.
    let margin = if axes.is_log_y { 1.25 } else { 1.0 };
    let y = least(|point| point.1) / margin..most(|point| point.1) * margin.max(1.05);
    if x.is_empty() || y.is_empty() {
        return Ok(());
    }
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut builder = ChartBuilder::on(&root);
    builder.caption(axes.title, ("sans-serif", 22)).margin(16);
    builder.x_label_area_size(44).y_label_area_size(64);
    // The two kinds of charts have different types, so each needs its own code.
    macro_rules! chart {
        ($y:expr) => {{
            let mut chart = builder.build_cartesian_2d(x.log_scale(), $y)?;
            let mut mesh = chart.configure_mesh();
            mesh.x_label_formatter(&label).y_label_formatter(&label);
            mesh.x_desc(axes.x).y_desc(axes.y).draw()?;
            for (n, line) in lines.iter().enumerate() {
                let color = Palette99::pick(n).stroke_width(2);
                let series = LineSeries::new(line.points.iter().copied(), color);
                let key = move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color);
                chart.draw_series(series)?.label(&line.name).legend(key);
                // A line of few points shows where something was measured.
                let few = line.points.iter().filter(|_| line.points.len() <= FEW);
                chart.draw_series(few.map(|&point| Circle::new(point, 4, color.filled())))?;
            }
            let mut labels = chart.configure_series_labels();
            labels.background_style(WHITE).border_style(BLACK);
            labels.position(SeriesLabelPosition::MiddleRight).draw()?;
        }};
    }
    if axes.is_log_y {
        chart!(y.log_scale());
    } else {
        chart!(0.0..y.end);
    }
    Ok(root.present()?)
}

/// A number at an axis.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "an axis passes it so")]
fn label(number: &f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
