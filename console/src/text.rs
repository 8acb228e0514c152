//! How the console writes text that others chose, durations, and kinds of lock.

use std::fmt::Write;
use std::time::Duration;

use askama::Template;

use super::query::link;
use leasehold::{ClientInfo, Holder, JobInfo, LockInfo, LockKind};

/// Rendering writes to memory alone, and nothing that is shown fails to be written.
pub(super) fn render(template: &impl Template) -> String {
    template.render().unwrap_or_else(|error| format!("<p>{}</p>", shown(&error.to_string())))
}

/// Text that somebody else chose, fit for a page or a terminal: a control character, or one that
/// changes the direction of what follows or is not seen at all, becomes an escape as in Rust. The
/// template escapes what HTML would read.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for at in text.chars() {
        if is_hidden(at) {
            let _ = write!(shown, "{}", at.escape_unicode());
        } else {
            shown.push(at);
        }
    }
    shown
}

fn is_hidden(at: char) -> bool {
    at.is_control()
        || matches!(
            at,
            '\u{ad}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// A duration in at most six characters: `0.4s`, `12s`, `5m03s`, `2h05m`, `3d04h`.
#[must_use]
pub fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.1}s", time.as_secs_f64()),
        10..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// A client as `service@host:process`.
#[must_use]
pub fn client(client: Option<&ClientInfo>) -> String {
    client.map_or_else(
        || "(unknown)".to_owned(),
        |client| format!("{}@{}:{}", shown(&client.service), shown(&client.host), client.process),
    )
}

/// A client as a row of the list has it, as it is.
pub(super) fn short_client(client: &ClientInfo) -> String {
    match &*client.host {
        "" => client.service.clone(),
        host => format!("{} on {host}", client.service),
    }
}

/// A process that works is heard of once a minute.
const SILENT: Duration = Duration::from_secs(75);

/// Whether the process of a holder lives, as far as the store knows.
#[must_use]
pub fn heard(holder: &Holder) -> String {
    match holder.heard.map(|time| (time < SILENT, short(time))) {
        Some((true, time)) => format!("heard of {time} ago; it says once a minute that it lives"),
        Some((false, time)) => {
            format!("stopped, dead or cut off from Redis: last heard of {time} ago")
        }
        None if holder.client.is_some() => "unknown".to_owned(),
        None => "not known: Redis has lost its name, or does not say. If it lives, it says its name again \
                 within a minute"
            .to_owned(),
    }
}

/// How many permits of a semaphore are held, and of how many; nothing where no limit is known.
#[must_use]
pub fn permits(lock: &LockInfo) -> Option<String> {
    let least = if lock.held > lock.holders.len() as u64 { "at least " } else { "" };
    let (held, limits) = (lock.permits_held(), lock.limits());
    match &*limits {
        [] => None,
        [limit] => Some(format!("{least}{held} of {limit} are held")),
        many => {
            let many: Vec<_> = many.iter().map(u32::to_string).collect();
            Some(format!(
                "{least}{held} are held; callers disagree on the limit: {}, as while two versions of a \
                 service run",
                many.join(" and ")
            ))
        }
    }
}

/// Why somebody has done something, behind what it was; nothing if that was not said.
#[must_use]
pub fn reason(why: Option<&str>) -> String {
    why.map_or_else(String::new, |why| format!(": {}", shown(why)))
}

/// The service of a client begins with this if it is the tool, which runs a command under its lock.
pub const RUN: &str = "leasehold run ";

/// True if the client is the tool, which runs a command under its lock.
#[must_use]
pub fn runs_command(client: &ClientInfo) -> bool {
    client.service.starts_with(RUN)
}

/// Returns true if a tick had no success, or none begins until the server's clock is where it was.
#[must_use]
pub fn needs_help(job: &JobInfo) -> bool {
    job.is_overdue() || !job.ahead.is_zero()
}

/// How a job goes, in a line: what is wrong first.
#[must_use]
pub fn job_state(job: &JobInfo) -> String {
    let mut parts = Vec::new();
    if job.is_overdue() {
        parts.push(format!("overdue, {} missed", counted(job.missed, "tick")));
    }
    if job.failed_runs > 0 {
        let since = job.failing_since.and_then(|at| at.elapsed().ok()).map(short);
        let since = since.map_or_else(String::new, |since| format!(" in the last {since}"));
        parts.push(format!("{} without success{since}", counted(job.failed_runs, "run")));
    }
    if let Some(holder) = &job.running {
        let since =
            holder.held_for.map_or_else(String::new, |time| format!(" for {}", short(time)));
        parts.push(format!("runs{since} on {}", client(holder.client.as_ref())));
    } else if !job.ahead.is_zero() {
        parts.push(format!(
            "does not run for {}: its last success is ahead of the server's clock, which was set back; \
             `leasehold run-again` lets it run",
            short(job.ahead)
        ));
    } else if job.last_success.is_some_and(|last| !last.counts_for.is_zero()) {
        parts.push("done".to_owned());
    } else {
        parts.push("due".to_owned());
    }
    if let Some(asked) = &job.asked_again {
        let ago = short(asked.at.elapsed().unwrap_or_default());
        let why = reason(asked.why.as_deref());
        let has_run = job.last_success.is_some_and(|last| last.completed > asked.at);
        let what = if has_run { "has run again, for" } else { "to run again, for" };
        parts.push(format!("{what} {}, {ago} ago{why}", shown(&asked.by)));
    }
    parts.join("; ")
}

/// A number of things: `1 lock`, `2 locks`.
#[must_use]
pub fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// The name of a kind of lock.
pub(super) const fn kind(kind: Option<LockKind>) -> &'static str {
    match kind {
        Some(LockKind::Mutex) => "mutex",
        Some(LockKind::ReentrantMutex) => "reentrant mutex",
        Some(LockKind::Semaphore) => "semaphore",
        Some(LockKind::RwLock) => "read-write lock",
        Some(LockKind::Foreign) => "not a lock",
        _ => "unknown",
    }
}

/// A client as a page shows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClientText {
    pub(super) service: String,
    pub(super) host: String,
    pub(super) process: u32,
    pub(super) id: String,
    pub(super) runs_command: bool,
    /// To its page, for pages beside it.
    pub(super) link: String,
}

impl ClientText {
    pub(super) fn new(client: &ClientInfo) -> Self {
        Self {
            service: shown(&client.service),
            host: shown(&client.host),
            process: client.process,
            id: shown(&client.id.to_string()),
            runs_command: runs_command(client),
            link: link("client", [("id", client.id.to_string().into())]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_seen() {
        assert_eq!(shown("a\u{202e}b\0\u{1b}[31m\r\n"), r"a\u{202e}b\u{0}\u{1b}[31m\u{d}\u{a}");
        assert_eq!(shown("שלום <b> é 🔒"), "שלום <b> é 🔒");
    }

    #[test]
    fn durations_are_short() {
        let texts = [0, 9_940, 59_999, 303_000, 7_500_000, 90_000_000]
            .map(|millis| short(Duration::from_millis(millis)));
        assert_eq!(texts, ["0.0s", "9.9s", "59s", "5m03s", "2h05m", "1d01h"]);
        assert!(short(Duration::MAX).ends_with('h'));
    }
}
