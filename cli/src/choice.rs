//! Which locks of a list are shown, and which come first.

use std::cmp::Reverse;
use std::time::Duration;

use clap::{Args, ValueEnum};
use leasehold::{ClientInfo, LockInfo, LockKind, LockList, Locks};

use super::text::client;
use super::time::time;

/// Which locks.
#[derive(Args, Debug)]
pub(super) struct Choice {
    /// Which names: `*` is any text, `?` any one character
    #[arg(default_value = "*")]
    pattern: String,
    /// Only locks that somebody waits for
    #[arg(long)]
    waiting: bool,
    /// Only locks that somebody has held for longer than this
    #[arg(long, value_name = "TIME", value_parser = time)]
    held_longer_than: Option<Duration>,
    /// Only locks with a holder that has this text in SERVICE@HOST:PROCESS, its owner or its note
    #[arg(long, value_name = "TEXT")]
    holder: Option<String>,
    /// Only locks with such a waiter
    #[arg(long, value_name = "TEXT")]
    waiter: Option<String>,
    /// Only locks of this kind
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// Only locks that their holders may keep without using them
    #[arg(long)]
    idle: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Kind {
    Mutex,
    ReentrantMutex,
    Semaphore,
    RwLock,
}

/// What comes first.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum Sort {
    /// Locks that are waited for, the longest wait first; then the others, the longest hold first
    #[default]
    Trouble,
    /// The longest hold
    Held,
    /// The most waiters
    Waiting,
    /// The first name
    Name,
}

/// The place of a lock in the order: greater numbers come first, then the name.
pub(super) type Place = (Reverse<u128>, Reverse<u128>, String);

impl Choice {
    /// The locks that may be among those.
    pub(super) fn list(&self, locks: &Locks) -> LockList {
        // The server leaves out what nobody waits for.
        let is_waited_for = self.waiting || self.waiter.is_some();
        if is_waited_for { locks.list_waited_for(&self.pattern) } else { locks.list(&self.pattern) }
    }

    pub(super) fn has(&self, lock: &LockInfo) -> bool {
        let held = longest_hold(lock);
        let holder = |text: &String| {
            let holders = &lock.holders;
            holders.iter().any(|it| says(text, it.client.as_ref(), [&it.owner, &it.note]))
        };
        let waiter = |text: &String| {
            let waiters = &lock.waiters;
            waiters.iter().any(|it| says(text, it.client.as_ref(), [&it.owner, &it.note]))
        };
        (!self.waiting || lock.waiting > 0)
            && self.held_longer_than.is_none_or(|least| held.is_some_and(|held| held > least))
            && self.holder.as_ref().is_none_or(holder)
            && self.waiter.as_ref().is_none_or(waiter)
            && self.kind.is_none_or(|kind| kind.is_of(lock.kind))
            && (!self.idle || lock.holders.iter().any(|holder| holder.may_be_idle))
    }

    /// True if it leaves out locks by more than their names.
    pub(super) fn is_narrow(&self) -> bool {
        self.waiting
            || self.idle
            || self.held_longer_than.is_some()
            || self.holder.is_some()
            || self.waiter.is_some()
            || self.kind.is_some()
    }
}

fn says(text: &str, process: Option<&ClientInfo>, said: [&Option<String>; 2]) -> bool {
    client(process).contains(text) || said.into_iter().flatten().any(|said| said.contains(text))
}

impl Kind {
    fn is_of(self, kind: Option<LockKind>) -> bool {
        let this = match self {
            Self::Mutex => LockKind::Mutex,
            Self::ReentrantMutex => LockKind::ReentrantMutex,
            Self::Semaphore => LockKind::Semaphore,
            Self::RwLock => LockKind::RwLock,
        };
        kind == Some(this)
    }
}

impl Sort {
    pub(super) fn place(self, lock: &LockInfo) -> Place {
        let millis = |time: Option<Duration>| time.map_or(0, |time| time.as_millis() + 1);
        let (held, waits) = (millis(longest_hold(lock)), millis(longest_wait(lock)));
        let (first, second) = match self {
            Self::Trouble => (waits, held),
            Self::Held => (held, waits),
            Self::Waiting => (u128::from(lock.waiting), waits),
            Self::Name => (0, 0),
        };
        (Reverse(first), Reverse(second), lock.name.clone())
    }
}

pub(super) fn longest_hold(lock: &LockInfo) -> Option<Duration> {
    lock.longest_holder().and_then(|holder| holder.held_for)
}

pub(super) fn longest_wait(lock: &LockInfo) -> Option<Duration> {
    lock.waiters.iter().map(|waiter| waiter.waiting_for).max()
}
