//! One look at all locks: those that come first, and how many there are.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use leasehold::Locks;

use super::choice::{Choice, Place, Sort, longest_hold, longest_wait};
use super::failure::Failure;
use super::rows::Row;
use super::text::{counted, plain, short};

/// What a look has found.
#[derive(Debug, Default)]
pub(super) struct Look {
    rows: BTreeMap<Place, Row>,
    /// Where each of them is.
    places: HashMap<String, Place>,
    pub(super) count: u64,
    waiting: u64,
    longest_hold: Option<Duration>,
    longest_wait: Option<Duration>,
    /// Why a part of the locks is missing: a node of a cluster does not answer.
    pub(super) missing: Vec<String>,
}

impl Look {
    /// Looks at all locks that are chosen, and keeps the first ones.
    pub(super) async fn take(
        locks: &Locks,
        choice: &Choice,
        sort: Sort,
        most: usize,
    ) -> Result<Self, Failure> {
        let (mut look, mut list) = (Self::default(), choice.list(locks));
        let mut failed = None;
        while let Some(found) = list.next().await {
            // An error may be one of a node; the last one is of all.
            if let Some(error) = failed.take() {
                look.missing.push(plain(&format!("{error}")));
            }
            let info = match found {
                Ok(info) => info,
                Err(error) => {
                    failed = Some(error);
                    continue;
                }
            };
            if !choice.has(&info) {
                continue;
            }
            look.count += 1;
            look.waiting += info.waiting;
            look.longest_hold = look.longest_hold.max(longest_hold(&info));
            look.longest_wait = look.longest_wait.max(longest_wait(&info));
            let place = sort.place(&info);
            // A lock may come twice.
            if let Some(before) = look.places.insert(info.name.clone(), place.clone()) {
                look.rows.remove(&before);
                look.count -= 1;
            }
            look.rows.insert(place, Row::of(&info));
            if look.rows.len() > most
                && let Some((last, _)) = look.rows.pop_last()
            {
                look.places.remove(&last.2);
            }
        }
        match failed {
            Some(error) if look.count == 0 && look.missing.is_empty() => Err(error.into()),
            Some(error) => {
                look.missing.push(plain(&format!("{error}")));
                Ok(look)
            }
            None => Ok(look),
        }
    }

    /// The rows, in their order.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// How many locks there are, and what takes longest.
    pub(super) fn summary(&self) -> String {
        let mut parts = vec![counted(self.count, "lock"), format!("{} waiting", self.waiting)];
        let longest = [("longest hold", self.longest_hold), ("longest wait", self.longest_wait)];
        parts.extend(
            longest.into_iter().filter_map(|(what, time)| Some(format!("{what} {}", short(time?)))),
        );
        let hidden = self.count.saturating_sub(self.rows.len() as u64);
        if hidden > 0 {
            parts.push(format!("{hidden} not shown"));
        }
        parts.join(", ")
    }
}
