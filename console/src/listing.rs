//! Looks for the locks of a list, and keeps the rows of one page.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::down::Down;
use super::scan::Scan;
use super::search::{ROWS, Search};
use super::sort::{Rank, longest_hold};
use super::text::{ClientText, kind, short, short_client, shown};
use super::time::Time;
use leasehold::{LockInfo, Locks};

/// What a search has found.
#[derive(Debug)]
pub(super) struct Listing {
    /// Those of the page.
    pub(super) rows: Vec<Row>,
    pub(super) totals: Totals,
    pub(super) looked: usize,
    /// There are more locks than were looked at.
    pub(super) is_cut: bool,
    /// How long it took.
    pub(super) took: Duration,
    /// What ended it too early.
    pub(super) down: Option<Down>,
}

/// A lock as a row. What else is known of it would need far more memory.
#[derive(Debug)]
pub(super) struct Row {
    /// As it is.
    pub(super) key: String,
    pub(super) kind: &'static str,
    pub(super) held: String,
    /// The client that has held it for the longest time; empty if nobody is known to.
    pub(super) by: String,
    pub(super) by_link: String,
    pub(super) since: Time,
    pub(super) waiting: u64,
    pub(super) wait: Time,
}

/// Counts all locks that were found, on whatever page they are.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) found: u64,
    pub(super) held: u64,
    pub(super) waiting: u64,
    /// Each with its lock.
    pub(super) oldest_hold: Option<(Duration, String)>,
    pub(super) longest_wait: Option<(Duration, String)>,
}

/// Looks for the locks of a search. If there are more locks than it looks at, it then looks for the
/// names alone, which the store finds: a name is found among all.
pub(super) async fn look(locks: &Locks, search: &Search, origin: Instant) -> Listing {
    let begun = Instant::now();
    let (mut scan, mut found) = (Scan::begin(), Found::new(search, origin));
    let mut ended = Ok(());
    if search.may_be_of_client() {
        let see = |info: LockInfo| {
            if search.finds(&info) {
                found.add(&info);
            }
        };
        ended = scan.each(locks, "*", see).await;
    }
    if ended.is_ok() && (scan.is_cut || !search.may_be_of_client()) {
        ended = scan.each(locks, &search.pattern(), |info| found.add(&info)).await;
    }
    let Found { best, totals, .. } = found;
    let rows = best.into_values().skip((search.page - 1) * ROWS).collect();
    let (looked, is_cut) = (scan.looked(), scan.is_cut);
    Listing { rows, totals, looked, is_cut, took: begun.elapsed(), down: ended.err() }
}

/// The first rows in an order: those of the page, and of the pages before.
struct Found<'a> {
    search: &'a Search,
    origin: Instant,
    best: BTreeMap<Rank, Row>,
    totals: Totals,
}

impl<'a> Found<'a> {
    fn new(search: &'a Search, origin: Instant) -> Self {
        Self { search, origin, best: BTreeMap::new(), totals: Totals::default() }
    }

    fn add(&mut self, info: &LockInfo) {
        if !self.search.is_of_kind(info) {
            return;
        }
        self.totals.add(info);
        let rank = self.search.sort.rank(info, self.origin);
        if self.best.len() == self.search.page * ROWS {
            if self.best.last_key_value().is_some_and(|(last, _)| *last < rank) {
                return;
            }
            self.best.pop_last();
        }
        self.best.insert(rank, Row::of(info));
    }
}

impl Totals {
    fn add(&mut self, info: &LockInfo) {
        self.found += 1;
        self.held += u64::from(info.held > 0);
        self.waiting += info.waiting;
        raise(&mut self.oldest_hold, longest_hold(info), info);
        raise(&mut self.longest_wait, longest_wait(info), info);
    }
}

fn raise(most: &mut Option<(Duration, String)>, time: Option<Duration>, info: &LockInfo) {
    if let Some(time) = time
        && most.as_ref().is_none_or(|(most, _)| time > *most)
    {
        *most = Some((time, info.name.clone()));
    }
}

fn longest_wait(info: &LockInfo) -> Option<Duration> {
    info.waiters.iter().map(|waiter| waiter.waiting_for).max()
}

impl Row {
    fn of(info: &LockInfo) -> Self {
        let time = |time: Option<Duration>| time.map_or_else(|| Time::unknown("–"), Time::since);
        let client = info.longest_holder().and_then(|holder| holder.client.as_ref());
        Self {
            key: info.name.clone(),
            kind: kind(info.kind),
            held: match info.kept {
                Some(kept) if info.held == 0 => format!("0, kept for {}", short(kept)),
                _ => info.held.to_string(),
            },
            by: client.map(|client| shown(&short_client(client))).unwrap_or_default(),
            by_link: client.map(|client| ClientText::new(client).link).unwrap_or_default(),
            since: time(longest_hold(info)),
            waiting: info.waiting,
            wait: time(longest_wait(info)),
        }
    }
}
