//! The fencing tokens of all locks, for ever.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_history::Judged;

use super::call::Verb;
use super::change::{Change, shown};
use super::format::{Mode, Record, number};
use super::stored::{Place, Stored, Timed};
use crate::server::keyspace::{Keyspace, Value};

/// How many tokens a grant reserves.
const BLOCK: u64 = 64;

/// The greatest token that each lock has had.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    greatest: BTreeMap<Place, u64>,
    /// Where the last grant used its own token alone: a release has deleted the record.
    used_one: BTreeSet<Place>,
    /// The token of each lock's record, and until when that is there at least.
    seen: BTreeMap<Place, (u64, i64)>,
    noted: Option<Noted>,
}

/// The greatest token that a server has noted, and until when it stays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Noted {
    pub(super) token: u64,
    pub(super) expires_ms: Option<i64>,
}

impl Noted {
    /// Reads the key `tokens`.
    pub(super) fn look(keyspace: &Keyspace, key: &[u8], now_ms: i64) -> Option<Self> {
        let entry = keyspace.peek(key, now_ms)?;
        let Value::String(text) = &entry.value else { return None };
        Some(Self { token: number(text)?, expires_ms: entry.expires_ms })
    }
}

impl Tokens {
    /// Forgets tokens if the server has lost those that it knew: it was flushed or restarted,
    /// another one took its place, or somebody deleted a key.
    pub(super) fn excuse(&mut self, noted: Option<Noted>, locks: &BTreeMap<Place, Stored>) {
        let is_there = |known: Noted| noted.is_some_and(|noted| noted.token >= known.token);
        if self.noted.is_some_and(|known| !is_there(known)) {
            self.greatest.clear();
        }
        for (place, stored) in locks {
            let token = stored.record().map(Record::token);
            let is_lost = self.seen.get(place).is_some_and(|(known, expires_ms)| {
                *expires_ms >= stored.now_ms && token.is_none_or(|token| token < *known)
            });
            if is_lost {
                self.greatest.remove(place);
            }
        }
    }

    /// Remembers what the server knows now.
    pub(super) fn remember(&mut self, noted: Option<Noted>, locks: &BTreeMap<Place, Stored>) {
        self.noted = noted.or(self.noted);
        for (place, stored) in locks {
            match (&stored.record, stored.record()) {
                (Some(Timed { expires_ms: Some(at), .. }), Some(record)) => {
                    self.seen.insert(place.clone(), (record.token(), *at));
                }
                _ => drop(self.seen.remove(place)),
            }
        }
    }

    /// Checks the tokens of a change.
    pub(super) fn problems(&mut self, change: &Change<'_>, judged: &mut Judged) -> Vec<String> {
        let mut found = Vec::new();
        let (before, after) = (change.before.record(), change.after.record());
        let was = before.map_or(0, Record::token);
        let verb = change.call.script.verb;
        let Some(record) = after else {
            if before.is_some() && verb == Verb::Release {
                self.used_one.insert(change.place.clone());
            }
            return found;
        };
        let token = record.token();
        let greatest = self.greatest.entry(change.place.clone()).or_default();
        // A record that is gone takes its token along, if others still hold the lock.
        let is_restored = before.is_none() && token == 0;
        // Without the greatest token of the server, they grow as long as the record is there. A
        // member of a quorum may give up one of a clock that was wrong.
        let has_noted = change.call.tokens_key().is_some();
        let known = if has_noted { *greatest } else { was };
        let may_fall = !has_noted && verb == Verb::Repair;
        // A client that keeps a lease has reserved what is below its new token.
        let has_used_one = self.used_one.remove(change.place);
        let is_block = !has_used_one && !matches!(verb, Verb::Linger | Verb::Repair);
        let least = if is_block { BLOCK } else { 1 };
        if token != was && !is_restored && !may_fall && known > 0 {
            judged.note("tokens of a server");
            if token < known + least {
                found.push(format!("token {token} after {known}"));
            }
        }
        *greatest = token.max(*greatest);
        for ask in change.call.of(change.place).filter(|_| verb.grants() || verb == Verb::Linger) {
            let said = match (change.answer(ask).as_slice(), verb) {
                ([1, all @ ..], Verb::AcquireAll) => {
                    change.call.set_of(ask.nth).and_then(|(_, at)| all.get(at).copied())
                }
                ([1, token, ..], _) if verb != Verb::Linger => Some(*token),
                ([4, token], Verb::Linger) => Some(*token),
                _ => None,
            };
            let Some(said) = said.map(i64::unsigned_abs) else { continue };
            let mode = ask.holder(&change.call.script).map(|it| it.mode);
            // A repair says the lock's.
            let is_fenced =
                verb == Verb::Repair || !matches!(mode, Some(Mode::Permit | Mode::Reader));
            // Copies in one call get the same.
            if said != if is_fenced { token } else { 0 } {
                found.push(format!("{} was told token {said}", shown(ask.id())));
            }
        }
        found
    }

    /// Checks the key in which the server notes the greatest token.
    pub(super) fn noted(
        before: Option<Noted>,
        after: Option<Noted>,
        changes: &[Change<'_>],
    ) -> Vec<String> {
        let mut found = Vec::new();
        let given = changes.iter().filter_map(|change| {
            let was = change.before.record().map(Record::token);
            change.after.record().map(Record::token).filter(|token| Some(*token) != was)
        });
        let noted = after.map_or(0, |it| it.token);
        if let Some(token) = given.max().filter(|token| *token > noted) {
            found.push(format!("token {token} is given, and {noted} is noted"));
        }
        if before.is_some_and(|before| before.token > noted) {
            found.push(format!("{before:?} is noted no more"));
        }
        let is_late = |it: Noted| {
            it.expires_ms.is_none_or(|at| at.saturating_mul(1000).unsigned_abs() <= it.token)
        };
        if after.is_some_and(is_late) {
            found.push(format!("{after:?} may be gone before the clock reaches it"));
        }
        found
    }
}
