//! A search for locks: what was asked for, and what is found.

use std::borrow::Cow;
use std::collections::HashSet;

use super::query::{Query, link};
use super::text::kind;
use leasehold::{LockError, LockInfo, LockKind, LockList, Locks};

/// The rows of a page.
pub(super) const ROWS: usize = 200;
/// Each page goes through all that are before it.
const PAGES: usize = 50;
/// As long as the longest name.
const LONGEST: usize = 512;

/// The kinds that a list can be limited to, and what they are called.
pub(super) const KINDS: [(&str, &str, LockKind); 4] = [
    ("mutex", kind(Some(LockKind::Mutex)), LockKind::Mutex),
    ("reentrant", kind(Some(LockKind::ReentrantMutex)), LockKind::ReentrantMutex),
    ("semaphore", kind(Some(LockKind::Semaphore)), LockKind::Semaphore),
    ("rw", kind(Some(LockKind::RwLock)), LockKind::RwLock),
];

/// What somebody looks for in the list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Search {
    pub(super) text: String,
    /// Empty for all.
    pub(super) kind: &'static str,
    pub(super) page: usize,
}

impl Search {
    /// Reads it from a request, or says what is wrong with it.
    pub(super) fn of(query: &Query) -> Result<Self, String> {
        let (text, kind) = (query.get("q").trim().to_owned(), query.get("kind"));
        if text.len() > LONGEST {
            return Err(format!("A search has at most {LONGEST} bytes, as a name has."));
        }
        let known = KINDS.iter().find(|(value, ..)| *value == kind);
        let kind = match known {
            Some((value, ..)) => value,
            None if kind.is_empty() => "",
            None => return Err("There is no such kind of lock.".to_owned()),
        };
        let page = match query.get("page") {
            "" => 1,
            page => {
                page.parse().ok().filter(|page| (1..=PAGES).contains(page)).ok_or_else(|| {
                    format!("A page has a number from 1 to {PAGES}. Search for a part of the name.")
                })?
            }
        };
        Ok(Self { text, kind, page })
    }

    /// Text without a wildcard may be anywhere in the name.
    fn pattern(&self) -> String {
        match &*self.text {
            "" => "*".to_owned(),
            text if text.contains(['*', '?']) => text.to_owned(),
            text => format!("*{text}*"),
        }
    }

    pub(super) fn is_filtered(&self) -> bool {
        !self.text.is_empty() || !self.kind.is_empty()
    }

    /// The link to a page of the same search; empty if there is no such page.
    pub(super) fn link(&self, home: &str, page: usize) -> String {
        match page {
            0 => String::new(),
            1 => self.query_of(home, None),
            2.. if page > PAGES => String::new(),
            _ => self.query_of(home, Some(("page", page.to_string().into()))),
        }
    }

    /// A link that has the search and perhaps something else.
    pub(super) fn query_of(&self, page: &str, other: Option<(&str, Cow<'_, str>)>) -> String {
        let pairs = [("q", (&*self.text).into()), ("kind", self.kind.into())];
        link(page, pairs.into_iter().chain(other))
    }

    /// Begins to search.
    pub(super) fn begin(&self, locks: &Locks) -> Found {
        let kind = KINDS.iter().find(|(value, ..)| *value == self.kind).map(|(.., kind)| *kind);
        Found {
            list: locks.list(self.pattern()),
            kind,
            skip: (self.page - 1) * ROWS,
            seen: HashSet::new(),
            has_more: false,
        }
    }
}

/// The locks of one page, as they are found.
pub(super) struct Found {
    list: LockList,
    kind: Option<LockKind>,
    /// Those on the pages before.
    skip: usize,
    /// A list may have a lock twice.
    seen: HashSet<String>,
    /// There is another page.
    pub(super) has_more: bool,
}

impl Found {
    /// `None` at the end of the page. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<Result<LockInfo, LockError>> {
        if self.has_more {
            return None;
        }
        loop {
            let info = match self.list.next().await? {
                Ok(info) => info,
                Err(error) => return Some(Err(error)),
            };
            if self.kind.is_some_and(|kind| info.kind != Some(kind)) {
                continue;
            }
            if self.skip > 0 {
                self.skip -= 1;
            } else if self.seen.len() == ROWS {
                self.has_more = !self.seen.contains(&info.name);
                if self.has_more {
                    return None;
                }
            } else if self.seen.insert(info.name.clone()) {
                return Some(Ok(info));
            }
        }
    }

    pub(super) fn count(&self) -> usize {
        self.seen.len()
    }
}
