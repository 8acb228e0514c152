//! Tables, as text and as Markdown.

use std::fmt::{self, Write};
use std::time::Duration;

/// The results of one scenario.
#[derive(Debug)]
pub(crate) struct Table {
    title: String,
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl Table {
    pub(crate) fn new(title: impl Into<String>, head: &[&'static str]) -> Self {
        Self { title: title.into(), head: head.to_vec(), rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a row; cells that are missing stay empty.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        let mut row = Vec::from(cells);
        row.resize(self.head.len(), String::new());
        self.rows.push(row);
    }

    /// Adds a line below the table.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub(crate) fn to_markdown(&self) -> String {
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let cells = cells.map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = format!("## {}\n\n", self.title);
        text += &line(&mut self.head.iter().copied());
        text += &line(&mut self.head.iter().map(|_| "---"));
        for row in &self.rows {
            text += &line(&mut row.iter().map(String::as_str));
        }
        for note in &self.notes {
            let _ = write!(text, "\n{note}\n");
        }
        text
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.chain([self.head[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.head.len()).map(width).collect();
        writeln!(f, "{}", self.title)?;
        let head: Vec<_> = self.head.iter().map(|&cell| cell.to_owned()).collect();
        for row in [&head].into_iter().chain(&self.rows) {
            let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
            writeln!(f, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "  {note}"))
    }
}

/// A time in milliseconds.
pub(crate) fn show_ms(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1e3)
}

/// A number to reach, or to stay below.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Target {
    /// Shows the target, and whether this number meets it.
    pub(crate) fn judge(self, number: f64) -> String {
        let (sign, aim, is_met) = match self {
            Self::AtLeast(least) => (">=", least, number >= least),
            Self::AtMost(most) => ("<=", most, number <= most),
        };
        let verdict = if is_met { "met" } else { "missed" };
        format!("{sign} {aim}: {verdict}")
    }
}
