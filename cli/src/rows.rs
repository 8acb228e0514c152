//! A lock as one row of a table.

use std::fmt::Write as _;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use leasehold::{ClientInfo, LockInfo, LockKind};

/// A client as `service@host:process`.
pub(super) use leasehold_console::client;

use super::text::{pad, plain, short};

const HEADER: Style = Style::new().bold();
const WAITED_FOR: Style = AnsiColor::Yellow.on_default();

/// The columns that have a width. The note comes last, and has none.
const WIDTHS: [(&str, usize); 7] = [
    ("NAME", 28),
    ("KIND", 9),
    ("HELD FOR", 8),
    ("LEFT", 7),
    ("WAITERS", 7),
    ("HOLDER", 32),
    ("OWNER", 12),
];

/// The titles of the columns.
pub(super) fn header() -> String {
    format!("{HEADER}{}{HEADER:#}", plain_header())
}

/// The same without a style.
pub(super) fn plain_header() -> String {
    line(&WIDTHS.map(|(title, _)| title.to_owned()), "NOTE")
}

/// A lock, without colours.
pub(super) fn row(lock: &LockInfo) -> String {
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
    let columns = [
        plain(&lock.name),
        kind(lock.kind).to_owned(),
        or_none(first.and_then(|holder| holder.held_for).map(short)),
        or_none(left.map(short)),
        lock.waiting.to_string(),
        holder,
        or_none(first.and_then(|holder| holder.owner.as_deref()).map(plain)),
    ];
    let note = first.and_then(|holder| holder.note.as_deref());
    line(&columns, &note.map(plain).unwrap_or_default())
}

/// Writes a row. One that is waited for has a colour.
pub(super) fn write(out: &mut impl Write, lock: &LockInfo, row: &str) -> io::Result<()> {
    if lock.waiting > 0 {
        writeln!(out, "{WAITED_FOR}{row}{WAITED_FOR:#}")
    } else {
        writeln!(out, "{row}")
    }
}

/// The service of a client begins with this if it runs a command under its lock.
pub(super) const RUN: &str = "leasehold run ";

/// True if the client is the tool, which runs a command under its lock.
pub(super) fn runs_command(client: &ClientInfo) -> bool {
    client.service.starts_with(RUN)
}

pub(super) fn kind(kind: Option<LockKind>) -> &'static str {
    kind.map_or("-", LockKind::name)
}

fn line(columns: &[String; WIDTHS.len()], note: &str) -> String {
    let mut line = String::new();
    for (text, (_, width)) in columns.iter().zip(WIDTHS) {
        line += &pad(text, width);
        line += "  ";
    }
    line += note;
    line.truncate(line.trim_end().len());
    line
}
