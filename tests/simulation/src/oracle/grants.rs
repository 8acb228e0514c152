//! Which grants a server has made, and which of them it has now: what one that takes over may lack.

use std::collections::BTreeMap;

use super::call::Verb;
use super::change::Change;
use super::format::Record;
use super::overview::locks;
use crate::server::core::Core;

/// How many tokens a grant reserves.
const BLOCK: u64 = 64;

/// A grant, or the token that a client has asked for to keep its lease.
#[derive(Clone, Copy, Debug)]
struct Grant {
    is_kept: bool,
    /// The token that the lease had before, where an idle lease was given another one.
    before: Option<u64>,
    /// The changes that the server had made before.
    offset: u64,
}

/// The tokens of a server's grants, by lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grants(BTreeMap<String, BTreeMap<u64, Grant>>);

impl Grants {
    /// A call may have given a token; or may have given it again, on a server that was a replica when it
    /// was given. What it has from its master is confirmed by its own replicas, too.
    pub(super) fn note(&mut self, change: &Change<'_>, offset: u64) {
        let Some(token) = change.after.record().map(Record::token) else { return };
        let of_lock = self.0.entry(change.place.name()).or_default();
        let before = change.before.record().map(Record::token);
        if before != Some(token) {
            let is_kept = matches!(change.verb(), Verb::Linger | Verb::Repair);
            let before = before.filter(|_| change.verb() == Verb::Linger);
            of_lock.insert(token, Grant { is_kept, before, offset });
        } else if change.verb().grants() {
            let known = Grant { is_kept: false, before: None, offset: offset.saturating_sub(1) };
            of_lock.entry(token).or_insert(known);
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().flat_map(|(lock, tokens)| tokens.keys().map(|token| (lock.as_str(), *token)))
    }

    /// The grant that a token is from, if this server has made it.
    fn of(&self, lock: &str, token: u64) -> Option<(u64, Grant)> {
        let (&first, &grant) = self.0.get(lock)?.range(..=token).next_back()?;
        (token < first + BLOCK).then_some((first, grant))
    }

    /// The first token of the grant that a token is from, if this server has made it.
    pub(crate) fn first(&self, lock: &str, token: u64) -> Option<u64> {
        self.of(lock, token).map(|(first, _)| first)
    }

    /// The token that an idle lease had before it was given this one.
    pub(crate) fn before(&self, lock: &str, token: u64) -> Option<u64> {
        self.0.get(lock)?.get(&token)?.before
    }

    /// Whether the grant that a token is from was confirmed by a replica, if this server has made it.
    pub(crate) fn is_confirmed(&self, core: &Core, lock: &str, token: u64) -> Option<bool> {
        let (_, grant) = self.of(lock, token).filter(|(_, grant)| !grant.is_kept)?;
        Some(core.journal.most_confirmed() > grant.offset)
    }
}

/// True if a token is from the grant of the lease whose last token is this one, or from one that this lease had
/// before.
pub(crate) fn is_of(token: u64, last: u64, before: impl Fn(u64) -> Option<u64>) -> bool {
    let older = |at: &u64| before(*at).filter(|it| it < at);
    std::iter::successors(Some(last), older).any(|first| (first..first + BLOCK).contains(&token))
}

/// The token of each lock that somebody has now, and when the last of its leases ends, in milliseconds
/// of the server's clock.
pub(crate) fn known_grants(core: &Core) -> BTreeMap<String, (u64, i64)> {
    let held = locks(core).filter_map(|(place, stored)| {
        let ends_ms = stored.live().map(|it| it.ends_ms).max()?;
        Some((place.name(), (stored.record()?.token(), ends_ms)))
    });
    held.collect()
}
