//! The lines of a history, as text.

use std::fmt;
use std::str::{FromStr, SplitAsciiWhitespace};

use crate::troubles::Effect;

/// A time in nanoseconds. A point in time is counted on `CLOCK_MONOTONIC`, which all processes of a
/// machine share.
pub type Nanos = u64;

/// What a request asks for. It decides which other leases it excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Excludes all others.
    Mutex,
    /// Excludes all other owners.
    Reentrant,
    /// Takes some of a semaphore's permits.
    Permits,
    /// Excludes writers.
    Read,
    /// Excludes readers and writers.
    Write,
    /// Excludes all others, and its work is to succeed once in each tick.
    Once,
}

impl Kind {
    /// True if its leases have tokens.
    #[must_use]
    pub fn is_fenced(self) -> bool {
        matches!(self, Self::Mutex | Self::Reentrant | Self::Write | Self::Once)
    }

    /// True if one lock can be asked for as both. A name is of one kind of lock at a time.
    #[must_use]
    pub fn is_compatible(self, other: Self) -> bool {
        self.lock() == other.lock()
    }

    /// The kind of lock that it is a lease of.
    fn lock(self) -> u8 {
        match self {
            Self::Mutex | Self::Once => b'M',
            Self::Reentrant => b'E',
            Self::Permits => b'S',
            Self::Read | Self::Write => b'R',
        }
    }
}

/// A line of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A request begins.
    Ask {
        /// The request: the worker's name, a colon and a number.
        id: String,
        /// The time before the call.
        at: Nanos,
        /// The name of the lock.
        lock: String,
        /// What it asks for.
        kind: Kind,
        /// How many permits; 1 for the other kinds.
        units: u32,
        /// How many permits there are; 1 for the other kinds.
        limit: u32,
        /// Who asks; only a reentrant mutex cares.
        owner: String,
        /// For how long a lease lasts that is not renewed.
        ttl: Nanos,
        /// For how long it may stay with the process after its release.
        linger: Nanos,
    },
    /// The request is for a lease that another process has detached.
    Adopt {
        /// The request.
        id: String,
        /// The request that was granted first.
        of: String,
    },
    /// The request is for a lease that ends after this time, renewed or not.
    MaxHold {
        /// The request.
        id: String,
        /// The time, from the grant.
        time: Nanos,
    },
    /// The request stays in the queue for this time at most. Later it asks as one that tries.
    Waits {
        /// The request.
        id: String,
        /// The time, from its beginning; zero if it only tries.
        time: Nanos,
    },
    /// The request says who its owner is. Owners of a read-write lock stand beside themselves.
    Named {
        /// The request.
        id: String,
    },
    /// The client is to renew the request's lease for as long as it is held.
    Renewed {
        /// The request.
        id: String,
    },
    /// The request is for work that is to succeed once, for so long.
    Lasts {
        /// The request.
        id: String,
        /// The time, from a success.
        time: Nanos,
    },
    /// Somebody lets work run again that is done.
    Again {
        /// The name of the lock.
        lock: String,
        /// The time before the call.
        from: Nanos,
        /// When no copy of it can arrive any more.
        to: Nanos,
    },
    /// Nobody polls the request's future for some time.
    Neglected {
        /// The request.
        id: String,
        /// When it was left alone.
        from: Nanos,
        /// When it is polled again, or dropped.
        to: Nanos,
        /// It is one of several together, of which it may have some already.
        is_of_set: bool,
    },
    /// The request is granted.
    Got {
        /// The request.
        id: String,
        /// The time after the call.
        at: Nanos,
        /// The token, if its kind has one.
        token: Option<u64>,
    },
    /// The holder looks, and believes that it holds the lease for as long as `left`.
    Held {
        /// The request.
        id: String,
        /// The time before it looks.
        at: Nanos,
        /// The time that is left.
        left: Nanos,
    },
    /// The holder learns that the lease is lost.
    Lost {
        /// The request.
        id: String,
        /// The time after it has learned that.
        at: Nanos,
    },
    /// The holder begins to release.
    End {
        /// The request.
        id: String,
        /// The time before the call.
        at: Nanos,
    },
    /// The release was answered.
    Freed {
        /// The request.
        id: String,
        /// The time after the call.
        at: Nanos,
        /// The answer.
        how: String,
    },
    /// The server has noted that the work of a tick has succeeded.
    Done {
        /// The request.
        id: String,
        /// The time after the call.
        at: Nanos,
        /// The tick. For work without ticks it says nothing.
        tick: u64,
    },
    /// The request ended without a grant.
    Refused {
        /// The request.
        id: String,
        /// The time after the call.
        at: Nanos,
        /// The reason.
        why: String,
    },
    /// The director: a worker is dead.
    Dead {
        /// The worker.
        worker: String,
        /// The time after its end.
        at: Nanos,
        /// True if the director did that.
        was_planned: bool,
    },
    /// The director: a worker stood still.
    Stopped {
        /// The worker.
        worker: String,
        /// The time before it.
        from: Nanos,
        /// The time after it.
        to: Nanos,
    },
    /// A worker: it had no processor time, whatever the reason.
    Stalled {
        /// The worker.
        worker: String,
        /// The time before it.
        from: Nanos,
        /// The time after it.
        to: Nanos,
    },
    /// The director: a server has taken over that lacks a grant, or its last renewals.
    Forgotten {
        /// The lock.
        lock: String,
        /// The token of the grant. Those of the leases that follow in the same process follow it.
        token: u64,
        /// Until when the lease is promised.
        until: Nanos,
    },
    /// The director: a fault of servers or links.
    Fault {
        /// What it takes back.
        effect: Effect,
        /// The time before it.
        from: Nanos,
        /// The time after it.
        to: Nanos,
        /// By how much the clock went back.
        amount: Nanos,
        /// Its name, one word.
        name: String,
        /// The process that it happens to; `None` if that is any.
        whose: Option<String>,
    },
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask { id, at, lock, kind, units, limit, owner, ttl, linger } => {
                write!(f, "ask {id} {at} {lock} {kind:?} {units} {limit} {owner} {ttl} {linger}")
            }
            Self::Adopt { id, of } => write!(f, "adopt {id} {of}"),
            Self::MaxHold { id, time } => write!(f, "max-hold {id} {time}"),
            Self::Waits { id, time } => write!(f, "waits {id} {time}"),
            Self::Named { id } => write!(f, "named {id}"),
            Self::Renewed { id } => write!(f, "renewed {id}"),
            Self::Lasts { id, time } => write!(f, "lasts {id} {time}"),
            Self::Again { lock, from, to } => write!(f, "again {lock} {from} {to}"),
            Self::Neglected { id, from, to, is_of_set } => {
                write!(f, "neglected {id} {from} {to} {is_of_set}")
            }
            Self::Got { id, at, token: None } => write!(f, "got {id} {at} -"),
            Self::Got { id, at, token: Some(token) } => write!(f, "got {id} {at} {token}"),
            Self::Held { id, at, left } => write!(f, "held {id} {at} {left}"),
            Self::Lost { id, at } => write!(f, "lost {id} {at}"),
            Self::End { id, at } => write!(f, "end {id} {at}"),
            Self::Freed { id, at, how } => write!(f, "freed {id} {at} {how}"),
            Self::Done { id, at, tick } => write!(f, "done {id} {at} {tick}"),
            Self::Refused { id, at, why } => write!(f, "refused {id} {at} {why}"),
            Self::Dead { worker, at, was_planned } => write!(f, "dead {worker} {at} {was_planned}"),
            Self::Stopped { worker, from, to } => write!(f, "stopped {worker} {from} {to}"),
            Self::Stalled { worker, from, to } => write!(f, "stalled {worker} {from} {to}"),
            Self::Forgotten { lock, token, until } => {
                write!(f, "forgotten {lock} {token} {until}")
            }
            Self::Fault { effect, from, to, amount, name, whose } => {
                write!(f, "fault {effect:?} {from} {to} {amount} {name}")?;
                whose.as_ref().map_or(Ok(()), |it| write!(f, " {it}"))
            }
        }
    }
}

/// The next word of a line, as whatever is expected there.
fn next<T: FromStr>(words: &mut SplitAsciiWhitespace<'_>) -> Option<T> {
    words.next()?.parse().ok()
}

impl FromStr for Kind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let all =
            [Self::Mutex, Self::Reentrant, Self::Permits, Self::Read, Self::Write, Self::Once];
        all.into_iter().find(|kind| format!("{kind:?}") == text).ok_or(())
    }
}

impl FromStr for Line {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = &mut text.split_ascii_whitespace();
        parse(words).filter(|_| words.next().is_none()).ok_or_else(|| format!("no line: {text:?}"))
    }
}

fn parse(words: &mut SplitAsciiWhitespace<'_>) -> Option<Line> {
    Some(match words.next()? {
        "ask" => Line::Ask {
            id: next(words)?,
            at: next(words)?,
            lock: next(words)?,
            kind: next(words)?,
            units: next(words)?,
            limit: next(words)?,
            owner: next(words)?,
            ttl: next(words)?,
            linger: next(words)?,
        },
        "adopt" => Line::Adopt { id: next(words)?, of: next(words)? },
        "got" => {
            let (id, at, token) = (next(words)?, next(words)?, words.next()?);
            let token = if token == "-" { None } else { Some(token.parse().ok()?) };
            Line::Got { id, at, token }
        }
        "held" => Line::Held { id: next(words)?, at: next(words)?, left: next(words)? },
        "lost" => Line::Lost { id: next(words)?, at: next(words)? },
        "end" => Line::End { id: next(words)?, at: next(words)? },
        "freed" => Line::Freed { id: next(words)?, at: next(words)?, how: next(words)? },
        "done" => Line::Done { id: next(words)?, at: next(words)?, tick: next(words)? },
        "refused" => Line::Refused { id: next(words)?, at: next(words)?, why: next(words)? },
        "dead" => Line::Dead { worker: next(words)?, at: next(words)?, was_planned: next(words)? },
        "stopped" => Line::Stopped { worker: next(words)?, from: next(words)?, to: next(words)? },
        "max-hold" => Line::MaxHold { id: next(words)?, time: next(words)? },
        "waits" => Line::Waits { id: next(words)?, time: next(words)? },
        "named" => Line::Named { id: next(words)? },
        "neglected" => Line::Neglected {
            id: next(words)?,
            from: next(words)?,
            to: next(words)?,
            is_of_set: next(words)?,
        },
        "renewed" => Line::Renewed { id: next(words)? },
        "again" => Line::Again { lock: next(words)?, from: next(words)?, to: next(words)? },
        "lasts" => Line::Lasts { id: next(words)?, time: next(words)? },
        "stalled" => Line::Stalled { worker: next(words)?, from: next(words)?, to: next(words)? },
        "forgotten" => {
            Line::Forgotten { lock: next(words)?, token: next(words)?, until: next(words)? }
        }
        "fault" => Line::Fault {
            effect: next(words)?,
            from: next(words)?,
            to: next(words)?,
            amount: next(words)?,
            name: next(words)?,
            whose: next(words),
        },
        _ => return None,
    })
}
