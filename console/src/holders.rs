//! The holders and waiters of a lock as pages show them.

use super::text::{ClientText, heard, shown};
use super::time::Time;
use leasehold::{Holder, LockInfo, LockKind, Waiter};

/// A holder, or a waiter, which has no token and no end.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) client: Option<ClientText>,
    pub(super) owner: String,
    pub(super) note: String,
    pub(super) mode: String,
    pub(super) token: String,
    pub(super) since: Time,
    pub(super) remaining: Time,
    pub(super) heard: String,
}

impl Line {
    pub(super) fn holders(info: &LockInfo) -> Vec<Self> {
        info.holders.iter().map(|holder| Self::holder(info.kind, holder)).collect()
    }

    pub(super) fn waiters(info: &LockInfo) -> Vec<Self> {
        info.waiters.iter().map(|waiter| Self::waiter(info.kind, waiter)).collect()
    }

    /// The holder is the tool, which runs a command.
    pub(super) fn runs_command(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.runs_command)
    }

    pub(super) fn holder(kind: Option<LockKind>, holder: &Holder) -> Self {
        let mut mode = mode(kind, holder.is_writer, holder.weight);
        if holder.may_be_idle {
            mode.push_str(", may be idle");
        }
        Self {
            client: holder.client.as_ref().map(ClientText::new),
            owner: optional(holder.owner.as_deref()),
            note: optional(holder.note.as_deref()),
            mode,
            token: holder.fence.map_or_else(|| "–".to_owned(), |fence| fence.to_string()),
            since: holder.held_for.map_or_else(|| Time::unknown("unknown"), Time::since),
            remaining: Time::until(holder.remaining),
            heard: heard(holder),
        }
    }

    pub(super) fn waiter(kind: Option<LockKind>, waiter: &Waiter) -> Self {
        Self {
            client: waiter.client.as_ref().map(ClientText::new),
            owner: optional(waiter.owner.as_deref()),
            note: optional(waiter.note.as_deref()),
            mode: mode(kind, waiter.is_writer, waiter.weight),
            token: String::new(),
            since: Time::since(waiter.waiting_for),
            remaining: Time::unknown("–"),
            heard: String::new(),
        }
    }
}

fn optional(text: Option<&str>) -> String {
    text.map(shown).unwrap_or_default()
}

fn mode(kind: Option<LockKind>, is_writer: bool, weight: u32) -> String {
    match kind {
        Some(LockKind::RwLock) if is_writer => "writes".to_owned(),
        Some(LockKind::RwLock) => "reads".to_owned(),
        Some(LockKind::Semaphore) if weight == 1 => "1 permit".to_owned(),
        Some(LockKind::Semaphore) => format!("{weight} permits"),
        _ => "alone".to_owned(),
    }
}
