//! Encodes the commands of operators.

use super::Encoder;
use crate::core::key::LockKey;
use crate::core::name_pattern::NamePattern;
use crate::store::redis::encoded::Encoded;
use crate::store::redis::hints::AGAIN;
use crate::store::redis::holder::owner_suffix;
use crate::store::redis::limit_overrides as limits;
use crate::store::redis::{former_holders, listing, script};
use crate::store::{Force, LimitCommand, ListOf, MOST_LIMITS, NOTES_KEPT, Note, Owner};

/// Who does something, and why, as it is stored.
fn said(by: &Note, why: Option<&Note>) -> String {
    format!("{}\n{}", by.text(), why.map_or("", Note::text))
}

impl Encoder {
    /// A page of the locks, or of the jobs, of one server.
    pub(in crate::store::redis) fn list(
        &self,
        names: &NamePattern,
        of: ListOf,
        cursor: u64,
    ) -> Encoded {
        // Where a name has one of these, it is stored in another form.
        let literal = Some(names.literal()).filter(|literal| !literal.contains(['{', '}', '%']));
        let of = match of {
            ListOf::Locks => "locks",
            ListOf::Waited => "waited",
            ListOf::Jobs => "jobs",
            ListOf::Prefixes => {
                let command = Encoded::new(&script::LOCK_PREFIXES);
                return command.number(cursor).number(listing::KEYS);
            }
        };
        let keys = self.all_keys();
        let command = Encoded::new(&script::LOCK_LIST).arg(&*self.prefix).arg(keys);
        command.arg(literal.unwrap_or_default()).number(cursor).number(listing::KEYS).arg(of)
    }

    pub(in crate::store::redis) fn is_held_by(&self, key: &LockKey, owner: &Owner) -> Encoded {
        self.lock(key, &script::LOCK_IS_HELD_BY).arg(owner_suffix(Some(owner)))
    }

    pub(in crate::store::redis) fn force_release(&self, key: &LockKey, force: &Force) -> Encoded {
        let said = said(&force.by, force.why.as_ref());
        let command = if force.only.is_empty() {
            self.lock(key, &script::LOCK_FORCE_RELEASE).arg(said).millis(NOTES_KEPT)
        } else {
            let only: String = force.only.iter().flat_map(|holder| [holder, "\0"]).collect();
            self.lock(key, &script::LOCK_FORCE_SOME).arg(said).millis(NOTES_KEPT).arg(only)
        };
        command.arg(&*self.channel(key))
    }

    /// Tells holders from which the lock was taken by force, after so many that were told.
    pub(in crate::store::redis) fn tell_forced(&self, key: &LockKey, from: u64) -> Encoded {
        let command = self.lock(key, &script::LOCK_TELL_FORCED).number(from);
        command.number(former_holders::MOST).arg(&*self.channel(key))
    }

    pub(in crate::store::redis) fn run_again(
        &self,
        key: &LockKey,
        by: &Note,
        why: Option<&Note>,
    ) -> Encoded {
        let command =
            self.lock(key, &script::MUTEX_RUN_AGAIN).arg(said(by, why)).millis(NOTES_KEPT);
        command.arg(&*self.channel(key))
    }

    /// Tells all clients that the work of a lock may run again.
    pub(in crate::store::redis) fn tell_all(&self, key: &LockKey) -> Encoded {
        let command = Encoded::new(&script::MUTEX_TELL_ALL).key(&self.limits_key());
        let message = [AGAIN, &key.in_store(&self.prefix, "lock")].concat();
        command.arg(self.limits_channel()).arg(message)
    }

    fn limits_key(&self) -> String {
        format!("{}:limits", self.prefix)
    }

    /// A command about the limits that operators set.
    pub(in crate::store::redis) fn limits(&self, command: &LimitCommand) -> Encoded {
        let key = self.limits_key();
        let (field, value) = match command {
            LimitCommand::Read => {
                return Encoded::new(&script::LIMITS_READ).key(&key).millis(limits::KEEP);
            }
            LimitCommand::Set { of, limit, by, why } => {
                let why = why.as_ref().map_or("", Note::text);
                (limits::field(of), format!("{limit}\n{}\n{why}", by.text()))
            }
            LimitCommand::Unset(of) => (limits::field(of), String::new()),
        };
        let command = Encoded::new(&script::LIMITS_CHANGE).key(&key).arg(field).arg(value);
        let command =
            command.millis(limits::KEEP).number(u64::try_from(MOST_LIMITS).unwrap_or(u64::MAX));
        command.arg(self.limits_channel())
    }

    /// The channel of limits that change, and of work that may run again: all clients listen to it. On a cluster it is in the
    /// slot of their key.
    pub(in crate::store::redis) fn limits_channel(&self) -> String {
        match &self.channel {
            Some(channel) => format!("{channel}limits"),
            None => format!("{0}:wake:{{{0}:limits}}", self.prefix),
        }
    }
}
