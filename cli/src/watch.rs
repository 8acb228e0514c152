//! `watch`: the table of `ls`, refreshed.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::time::SystemTime;

use leasehold::{LockInfo, Locks};
use serde_json::json;

use super::args::{Server, Watch};
use super::failure::{Failure, code};
use super::rows;
use super::text::{counted, cut};

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
async fn or_end(
    work: impl Future<Output = Result<std::convert::Infallible, Failure>>,
) -> Result<u8, Failure> {
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

/// One object for each lock of each look.
async fn stream(locks: &Locks, watch: &Watch) -> Result<std::convert::Infallible, Failure> {
    let mut out = io::stdout();
    loop {
        let at = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let mut found = locks.list(&watch.names.pattern);
        while let Some(lock) = found.next().await {
            let lock = serde_json::to_value(lock?)
                .map_err(|error| Failure::new(code::FAILED, error.to_string()))?;
            writeln!(out, "{}", json!({ "at": at, "lock": lock }))?;
        }
        tokio::time::sleep(watch.interval).await;
    }
}

/// One table after the other.
async fn print(locks: &Locks, watch: &Watch) -> Result<std::convert::Infallible, Failure> {
    let mut out = anstream::stdout();
    loop {
        let look = Look::take(locks, &watch.names.pattern, ROWS).await?;
        writeln!(out, "{}\n{}", look.summary(), rows::header())?;
        for (lock, row) in look.rows.values() {
            rows::write(&mut out, lock, row)?;
        }
        writeln!(out)?;
        tokio::time::sleep(watch.interval).await;
    }
}

/// One table over the other.
async fn redraw(locks: &Locks, watch: &Watch) -> Result<std::convert::Infallible, Failure> {
    let mut out = anstream::stdout();
    loop {
        let (lines, columns) = window().unwrap_or((24, 80));
        let look = Look::take(locks, &watch.names.pattern, lines.saturating_sub(3).max(1)).await?;
        let mut page = Vec::new();
        writeln!(page, "{HOME}{}{CLEAR_LINE}", cut(&look.summary(), columns))?;
        writeln!(page, "{}{CLEAR_LINE}", cut(&rows::plain_header(), columns))?;
        for (_, row) in look.rows.values() {
            writeln!(page, "{}{CLEAR_LINE}", cut(row, columns))?;
        }
        write!(page, "{CLEAR_BELOW}")?;
        out.write_all(&page)?;
        out.flush()?;
        tokio::time::sleep(watch.interval).await;
    }
}

/// One look at the locks: the first by name, and how many there are.
struct Look {
    rows: BTreeMap<String, (LockInfo, String)>,
    count: u64,
    waiting: u64,
}

impl Look {
    async fn take(locks: &Locks, pattern: &str, most: usize) -> Result<Self, Failure> {
        let mut look = Self { rows: BTreeMap::new(), count: 0, waiting: 0 };
        let mut found = locks.list(pattern);
        while let Some(lock) = found.next().await {
            let info = lock?;
            look.count += 1;
            look.waiting += info.waiting;
            let row = rows::row(&info);
            look.rows.insert(info.name.clone(), (info, row));
            if look.rows.len() > most {
                look.rows.pop_last();
            }
        }
        Ok(look)
    }

    fn summary(&self) -> String {
        let now = humantime::format_rfc3339_seconds(SystemTime::now());
        let hidden = self.count.saturating_sub(self.rows.len() as u64);
        let rest = if hidden > 0 { format!(", {hidden} not shown") } else { String::new() };
        let (locks, waiters) = (counted(self.count, "lock"), counted(self.waiting, "waiter"));
        format!("{now}  {locks}, {waiters}{rest}")
    }
}

/// The lines and columns of the terminal. `None` if there is none.
fn window() -> Option<(usize, usize)> {
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
