//! `watch`: the table of `ls`, refreshed.

use std::convert::Infallible;
use std::io::{self, Write};
use std::time::{Instant, SystemTime};

use leasehold::Locks;
use serde_json::json;

use super::args::{Server, Watch};
use super::failure::{Failure, code};
use super::look::Look;
use super::rows::{Table, window};
use super::text::{cut, plain, short};

/// How many rows a snapshot has that goes to a file.
const ROWS: usize = 1_000;

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

pub(super) async fn watch(server: &Server, watch: &Watch, json: bool) -> Result<u8, Failure> {
    let locks = server.connect("leasehold").await?;
    if json {
        return or_end(stream(&locks, watch)).await;
    }
    let Some(_) = window() else {
        return or_end(print(&locks, watch)).await;
    };
    let mut out = anstream::stdout();
    write!(out, "{ENTER}")?;
    let watched = or_end(redraw(&locks, watch)).await;
    write!(out, "{LEAVE}")?;
    out.flush()?;
    watched
}

/// Goes on until it fails, or a signal ends it.
async fn or_end(work: impl Future<Output = Result<Infallible, Failure>>) -> Result<u8, Failure> {
    let end = end()?;
    tokio::select! {
        ended = work => match ended {
            Ok(never) => match never {},
            Err(failure) => Err(failure),
        },
        () = end => Ok(0),
    }
}

/// Begins to wait for the signal that ends a command which goes on for ever.
#[cfg(unix)]
pub(super) fn end() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}

/// Begins to wait for Ctrl-C, which ends a command that goes on for ever.
#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "on Unix it can fail")]
pub(super) fn end() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}

/// One object for each lock of each look; in an outage, one with the error.
async fn stream(locks: &Locks, watch: &Watch) -> Result<Infallible, Failure> {
    let mut out = io::stdout();
    loop {
        let at = now();
        let mut found = watch.choice.list(locks);
        while let Some(lock) = found.next().await {
            let seen = match lock {
                Ok(lock) if watch.choice.has(&lock) => {
                    let lock = serde_json::to_value(lock)
                        .map_err(|error| Failure::new(code::FAILED, error.to_string()))?;
                    json!({ "at": at, "lock": lock })
                }
                Ok(_) => continue,
                Err(error) => {
                    let error = outage(error.into())?;
                    json!({ "at": at, "error": error })
                }
            };
            writeln!(out, "{seen}")?;
        }
        tokio::time::sleep(watch.interval).await;
    }
}

/// One table after the other.
async fn print(locks: &Locks, watch: &Watch) -> Result<Infallible, Failure> {
    let (mut out, table) = (anstream::stdout(), Table::for_stdout());
    loop {
        match Look::take(locks, &watch.choice, watch.sort, ROWS).await {
            Ok(look) => {
                writeln!(out, "{}  {}", now(), look.summary())?;
                for missing in &look.missing {
                    writeln!(out, "some locks are missing: {missing}")?;
                }
                writeln!(out, "{}", table.header())?;
                for row in look.rows() {
                    table.write(&mut out, row)?;
                }
                writeln!(out)?;
            }
            Err(failure) => writeln!(out, "{}  {}\n", now(), plain(&outage(failure)?))?,
        }
        tokio::time::sleep(watch.interval).await;
    }
}

/// One table over the other. In an outage the last one stays, with its age.
async fn redraw(locks: &Locks, watch: &Watch) -> Result<Infallible, Failure> {
    let mut out = anstream::stdout();
    let (mut look, mut seen) = (Look::default(), Instant::now());
    loop {
        let (lines, columns) = window().unwrap_or((24, 80));
        let most = lines.saturating_sub(3).max(1);
        let mut why = None;
        let head = match Look::take(locks, &watch.choice, watch.sort, most).await {
            Ok(taken) => {
                (look, seen) = (taken, Instant::now());
                format!("{}  {}", now(), look.summary())
            }
            Err(failure) => {
                why = Some(plain(&outage(failure)?));
                format!("{}  as it was {} ago", now(), short(seen.elapsed()))
            }
        };
        let table = Table::within(columns);
        let mut page = Vec::new();
        writeln!(page, "{HOME}{}{CLEAR_LINE}", cut(&head, columns))?;
        let missing = look.missing.iter().map(|it| format!("some locks are missing: {it}"));
        for text in why.into_iter().chain(missing) {
            writeln!(page, "{}{CLEAR_LINE}", cut(&text, columns))?;
        }
        writeln!(page, "{}{CLEAR_LINE}", cut(&table.plain_header(), columns))?;
        for row in look.rows() {
            writeln!(page, "{}{CLEAR_LINE}", table.row(row))?;
        }
        write!(page, "{CLEAR_BELOW}")?;
        out.write_all(&page)?;
        out.flush()?;
        tokio::time::sleep(watch.interval).await;
    }
}

/// Why the store does not answer. Any other failure ends the command.
fn outage(failure: Failure) -> Result<String, Failure> {
    match failure {
        Failure::Said { code: code::STORE, text, .. } => Ok(text),
        other => Err(other),
    }
}

fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
