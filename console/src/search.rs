//! A search for locks: what was asked for, and which locks it finds.

use super::query::{Query, link};
use super::sort::Sort;
use super::text::kind;
use leasehold::{ClientInfo, LockInfo, LockKind};

/// The rows of a page.
pub(super) const ROWS: usize = 200;
/// So that all rows up to a page fit into a small memory.
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
    pub(super) sort: Sort,
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
        let sort = Sort::parse(query.get("sort"));
        let sort = sort.ok_or("There is no such column to sort by.")?;
        let page = match query.get("page") {
            "" => 1,
            page => {
                page.parse().ok().filter(|page| (1..=PAGES).contains(page)).ok_or_else(|| {
                    format!("A page has a number from 1 to {PAGES}. Search for a part of the name.")
                })?
            }
        };
        Ok(Self { text, kind, sort, page })
    }

    /// The pattern of the names. Text without a wildcard may be anywhere in the name.
    pub(super) fn pattern(&self) -> String {
        match &*self.text {
            "" => "*".to_owned(),
            text if self.is_pattern() => text.to_owned(),
            text => format!("*{text}*"),
        }
    }

    fn is_pattern(&self) -> bool {
        self.text.contains(['*', '?'])
    }

    /// Whether the text may also be that of a holder or a waiter. A pattern is of names alone.
    pub(super) fn may_be_of_client(&self) -> bool {
        !self.text.is_empty() && !self.is_pattern()
    }

    /// Whether the text is in the lock's name, or a holder or a waiter has it: in its service, host,
    /// owner or note, as its process id, or at the beginning of its client's id.
    pub(super) fn finds(&self, info: &LockInfo) -> bool {
        let text = &*self.text;
        let has = |it: Option<&str>| it.is_some_and(|it| it.contains(text));
        let is_it = |client: Option<&ClientInfo>, owner: Option<&str>, note: Option<&str>| {
            has(owner) || has(note) || client.is_some_and(|client| is_of(client, text))
        };
        let mut holders = info.holders.iter();
        info.name.contains(text)
            || holders.any(|it| is_it(it.client.as_ref(), it.owner.as_deref(), it.note.as_deref()))
            || info
                .waiters
                .iter()
                .any(|it| is_it(it.client.as_ref(), it.owner.as_deref(), it.note.as_deref()))
    }

    pub(super) fn is_of_kind(&self, info: &LockInfo) -> bool {
        let wanted = KINDS.iter().find(|(value, ..)| *value == self.kind);
        wanted.is_none_or(|(.., kind)| info.kind == Some(*kind))
    }

    pub(super) fn is_filtered(&self) -> bool {
        !self.text.is_empty() || !self.kind.is_empty()
    }

    /// The link to a page of the same search; empty if there is no such page.
    pub(super) fn page_link(&self, home: &str, page: usize) -> String {
        match page {
            1..=PAGES => Self { page, ..self.clone() }.link(home),
            _ => String::new(),
        }
    }

    /// The link to the same search in another order, from its beginning.
    pub(super) fn sort_link(&self, home: &str, sort: Sort) -> String {
        Self { sort, page: 1, ..self.clone() }.link(home)
    }

    /// The link to this search.
    pub(super) fn link(&self, to: &str) -> String {
        let page = if self.page > 1 { self.page.to_string() } else { String::new() };
        let [text, kind] = [(&*self.text).into(), self.kind.into()];
        link(to, [("q", text), ("kind", kind), ("sort", self.sort.text()), ("page", page.into())])
    }
}

fn is_of(client: &ClientInfo, text: &str) -> bool {
    let ClientInfo { service, host, process, .. } = client;
    service.contains(text)
        || host.contains(text)
        || process.to_string() == text
        || client.id.to_string().starts_with(text)
        // As the tool and the log write it.
        || text.contains('@') && format!("{service}@{host}:{process}").contains(text)
}
