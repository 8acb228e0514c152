//! The order of a list: what is wrong first, or by a column.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::time::Duration;

use tokio::time::Instant;

use super::text::{kind, short_client};
use leasehold::LockInfo;

/// The columns: the value of the parameter, the title, and whether small values come first.
pub(super) const COLUMNS: [(&str, &str, bool); 7] = [
    ("name", "Name", true),
    ("kind", "Kind", true),
    ("holders", "Holders", false),
    ("by", "Held by", true),
    ("for", "For", false),
    ("waiting", "Waiting", false),
    ("wait", "Longest wait", false),
];

/// An order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Sort {
    /// Empty for what is wrong first: the longest wait, the most waiters, the longest hold.
    column: &'static str,
    is_reversed: bool,
}

/// The place of a lock in an order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    first: First,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum First {
    Forward(Key),
    Reversed(Reverse<Key>),
}

/// Small ones come first.
type Key = ([u64; 3], String);

impl Sort {
    /// Reads the parameter; `None` if there is no such column.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (is_reversed, column) = text.strip_prefix('-').map_or((false, text), |it| (true, it));
        let known = COLUMNS.iter().find(|(value, ..)| *value == column);
        match known {
            Some((column, ..)) => Some(Self { column, is_reversed }),
            None => text.is_empty().then(Self::default),
        }
    }

    /// The parameter.
    pub(super) fn text(self) -> Cow<'static, str> {
        match self {
            Self { column, is_reversed: true } => format!("-{column}").into(),
            Self { column, .. } => column.into(),
        }
    }

    /// The order that a click on a column's title asks for.
    pub(super) fn after_click(self, column: &'static str) -> Self {
        Self { column, is_reversed: self.column == column && !self.is_reversed }
    }

    /// How a column is sorted, for `aria-sort`; empty if it is not.
    pub(super) fn direction(self, column: &str, small_first: bool) -> &'static str {
        match (self.column == column, small_first != self.is_reversed) {
            (false, _) => "",
            (true, true) => "ascending",
            (true, false) => "descending",
        }
    }

    /// The same for each look that has the same `origin`, as long as the lock does not change.
    pub(super) fn rank(self, info: &LockInfo, origin: Instant) -> Rank {
        let waits = info.waiters.iter().map(|waiter| waiter.waiting_for).max();
        let (waits, held) = (began(waits, origin), began(longest_hold(info), origin));
        let (waiting, holders) = (u64::MAX - info.waiting, u64::MAX - info.held);
        let by = info.longest_holder().and_then(|holder| holder.client.as_ref());
        let of_text = |text: String| ([0; 3], text);
        let of_number = |number| ([number, 0, 0], String::new());
        let key = match self.column {
            "name" => of_text(info.name.clone()),
            "kind" => of_text(kind(info.kind).to_owned()),
            "by" => of_text(by.map_or_else(|| char::MAX.to_string(), short_client)),
            "holders" => of_number(holders),
            "for" => of_number(held),
            "waiting" => of_number(waiting),
            "wait" => of_number(waits),
            _ => ([waits, waiting, held], String::new()),
        };
        let first =
            if self.is_reversed { First::Reversed(Reverse(key)) } else { First::Forward(key) };
        Rank { first, name: info.name.clone() }
    }
}

/// How long the lock has been held by the one that has held it for the longest time.
pub(super) fn longest_hold(info: &LockInfo) -> Option<Duration> {
    info.longest_holder().and_then(|holder| holder.held_for)
}

/// When something began, in seconds from long before the origin. Unlike its duration it is the same
/// at the next look, so rows that began together stay where they are.
fn began(time: Option<Duration>, origin: Instant) -> u64 {
    const BEFORE: Duration = Duration::from_secs(1 << 40);
    let Some(time) = time else { return u64::MAX };
    let now = BEFORE + origin.elapsed() + Duration::from_millis(500);
    now.saturating_sub(time).as_secs()
}
