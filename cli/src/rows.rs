//! A lock as one row of a table.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use leasehold::{LockInfo, LockKind};

use super::text::{client, middle, pad, plain, short};

const HEADER: Style = Style::new().bold();
const WAITED_FOR: Style = AnsiColor::Yellow.on_default();

/// How many columns there are.
const COLUMNS: usize = 8;

const TITLES: [&str; COLUMNS] =
    ["NAME", "KIND", "HELD FOR", "LEFT", "WAITING", "HOLDER", "OWNER", "NOTE"];

/// How wide they are if there is room. A note takes the rest.
const WIDTHS: [usize; COLUMNS] = [28, 9, 8, 7, 7, 32, 12, 12];

/// Those that a narrow terminal has no room for, the least useful first.
const DROPPED: [usize; 3] = [NOTE, OWNER, KIND];

const NAME: usize = 0;
const KIND: usize = 1;
const LEFT: usize = 3;
const HOLDER: usize = 5;
const OWNER: usize = 6;
const NOTE: usize = 7;

/// With fewer columns than this there is no room for what is left of a lease.
const NARROW: usize = 64;

/// The space between two columns.
const GAP: usize = 2;

/// A row: the texts of its columns.
#[derive(Debug)]
pub(super) struct Row {
    cells: [Box<str>; COLUMNS],
    is_waited_for: bool,
}

impl Row {
    pub(super) fn of(lock: &LockInfo) -> Self {
        let first = lock.longest_holder();
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let mut holder = match (first, lock.kept) {
            (Some(holder), _) => client(holder.client.as_ref()),
            (None, Some(_)) => "(nobody; kept)".to_owned(),
            (None, None) => "(nobody)".to_owned(),
        };
        if lock.held > 1 {
            let _ = write!(holder, " +{}", lock.held - 1);
        }
        if first.is_some_and(|holder| holder.may_be_idle) {
            holder += " (idle?)";
        }
        let left = first.map(|holder| holder.remaining).or(lock.kept);
        let note = first.and_then(|holder| holder.note.as_deref());
        let cells = [
            plain(&lock.name),
            kind_and_permits(lock),
            or_none(first.and_then(|holder| holder.held_for).map(short)),
            or_none(left.map(short)),
            lock.waiting.to_string(),
            holder,
            or_none(first.and_then(|holder| holder.owner.as_deref()).map(plain)),
            note.map(plain).unwrap_or_default(),
        ];
        Self { cells: cells.map(Into::into), is_waited_for: lock.waiting > 0 }
    }
}

/// The kind; of a semaphore how many permits are held, and of how many.
fn kind_and_permits(lock: &LockInfo) -> String {
    match &*lock.limits() {
        [] => kind(lock.kind).to_owned(),
        [limit] => format!("sem {}/{limit}", lock.permits_held()),
        [least, .., most] => format!("sem {}/{least}-{most}", lock.permits_held()),
    }
}

/// How wide the columns are.
#[derive(Debug)]
pub(super) struct Table {
    /// `None` for a column that is left out.
    widths: [Option<usize>; COLUMNS],
    /// Texts are as long as they are.
    is_endless: bool,
}

impl Table {
    /// For stdout: as wide as its terminal, if it is one.
    pub(super) fn for_stdout() -> Self {
        window().map_or_else(Self::endless, |(_, columns)| Self::within(columns))
    }

    /// For a file: nothing is left out.
    fn endless() -> Self {
        Self { widths: WIDTHS.map(Some), is_endless: true }
    }

    /// In so many columns of a terminal.
    pub(super) fn within(columns: usize) -> Self {
        let mut widths = WIDTHS.map(Some);
        let needed = |widths: &[Option<usize>; COLUMNS]| {
            widths.iter().flatten().map(|width| width + GAP).sum::<usize>() - GAP
        };
        for column in DROPPED {
            if needed(&widths) > columns {
                widths[column] = None;
            }
        }
        if columns < NARROW {
            widths[LEFT] = None;
        }
        if let Some(missing) = needed(&widths).checked_sub(columns) {
            // The end of the holder is its process.
            let name = WIDTHS[NAME].saturating_sub(missing).max(4);
            let more = missing.saturating_sub(WIDTHS[NAME] - name);
            (widths[NAME], widths[HOLDER]) =
                (Some(name), Some(WIDTHS[HOLDER].saturating_sub(more).max(8)));
        } else {
            let rest = columns - needed(&widths);
            let wider = |column: usize, by: usize| widths[column].map(|width| width + by);
            if let Some(note) = wider(NOTE, rest) {
                widths[NOTE] = Some(note);
            } else {
                (widths[NAME], widths[HOLDER]) =
                    (wider(NAME, rest - rest / 2), wider(HOLDER, rest / 2));
            }
        }
        Self { widths, is_endless: false }
    }

    /// The titles of the columns.
    pub(super) fn header(&self) -> String {
        format!("{HEADER}{}{HEADER:#}", self.plain_header())
    }

    /// The same without a style.
    pub(super) fn plain_header(&self) -> String {
        self.line(&TITLES)
    }

    /// A row without colours.
    pub(super) fn row(&self, row: &Row) -> String {
        self.line(&row.cells)
    }

    /// Writes a row. One that is waited for has a colour.
    pub(super) fn write(&self, out: &mut impl Write, row: &Row) -> io::Result<()> {
        let line = self.row(row);
        if row.is_waited_for {
            writeln!(out, "{WAITED_FOR}{line}{WAITED_FOR:#}")
        } else {
            writeln!(out, "{line}")
        }
    }

    fn line(&self, cells: &[impl AsRef<str>; COLUMNS]) -> String {
        let mut line = String::new();
        for (text, width) in cells.iter().zip(self.widths) {
            let Some(width) = width else { continue };
            let text = text.as_ref();
            line +=
                &if self.is_endless { pad(text, width) } else { pad(&middle(text, width), width) };
            line += "  ";
        }
        line.truncate(line.trim_end().len());
        line
    }
}

pub(super) fn kind(kind: Option<LockKind>) -> &'static str {
    kind.map_or("-", LockKind::name)
}

/// The lines and columns of the terminal. `None` if there is none.
pub(super) fn window() -> Option<(usize, usize)> {
    if !io::stdout().is_terminal() {
        return None;
    }
    #[cfg(unix)]
    {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        let lines = usize::from(size.ws_row);
        let columns = usize::from(size.ws_col);
        Some(if lines > 0 && columns > 0 { (lines, columns) } else { (24, 80) })
    }
    #[cfg(not(unix))]
    None
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;

    fn row(name: &str, holder: &str) -> Row {
        let cells = [name, "mutex", "6m10s", "29s", "200", holder, "worker-7", "TICKET-7"];
        Row { cells: cells.map(Into::into), is_waited_for: true }
    }

    /// The time, the waiters and the process are what somebody on call needs.
    #[test]
    fn a_narrow_terminal_shows_what_is_needed_most() {
        let name = "invoices:europe-west:customer:0123456789:42";
        let holder = "billing-service-of-europe@ip-10-0-31-207.eu-west-1.internal:81234";
        let row = row(name, holder);
        for columns in [40, 60, 80, 100, 132, 200, 400] {
            let table = Table::within(columns);
            let line = table.row(&row);
            assert!(line.width() <= columns, "{columns}: {line}");
            for needed in ["6m10s", "200", ":81234", "42"] {
                assert!(line.contains(needed), "{columns}: {line}");
            }
            assert_eq!(line.contains("29s"), columns > NARROW, "{columns}: {line}");
            let header = table.plain_header();
            assert!(header.contains("HOLDER"), "{header}");
            assert_eq!(line.contains("TICKET-7"), columns >= 132, "{columns}: {line}");
        }
        let file = Table::endless().row(&row);
        assert!(file.contains(name) && file.contains(holder) && file.ends_with("TICKET-7"));
    }
}
