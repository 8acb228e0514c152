//! The keys of a server, with their values and expiries.

use std::collections::BTreeMap;

use super::reply::Reply;
use super::sorted_set::SortedSet;

/// A value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    String(Vec<u8>),
    List(Vec<Vec<u8>>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    SortedSet(SortedSet),
}

impl Value {
    /// As `TYPE` answers.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::List(_) => "list",
            Self::Hash(_) => "hash",
            Self::SortedSet(_) => "zset",
        }
    }

    /// A key is deleted with its last member.
    fn is_empty(&self) -> bool {
        match self {
            Self::String(_) => false,
            Self::List(items) => items.is_empty(),
            Self::Hash(fields) => fields.is_empty(),
            Self::SortedSet(members) => members.is_empty(),
        }
    }
}

/// A key's value, and the last millisecond of the server's clock in which it is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub value: Value,
    pub expires_ms: Option<i64>,
}

/// A value of one type, which a command reads or changes.
pub trait Typed: Default {
    fn wrap(self) -> Value;
    fn of(value: &mut Value) -> Option<&mut Self>;
}

macro_rules! typed {
    ($type:ty, $variant:ident) => {
        impl Typed for $type {
            fn wrap(self) -> Value {
                Value::$variant(self)
            }

            fn of(value: &mut Value) -> Option<&mut Self> {
                match value {
                    Value::$variant(value) => Some(value),
                    _ => None,
                }
            }
        }
    };
}

typed!(Vec<u8>, String);
typed!(Vec<Vec<u8>>, List);
typed!(BTreeMap<Vec<u8>, Vec<u8>>, Hash);
typed!(SortedSet, SortedSet);

/// The keys of one database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Keyspace {
    entries: BTreeMap<Vec<u8>, Entry>,
    /// A replica leaves it to its master to delete what has expired.
    only_hides_expired: bool,
    /// The keys that were deleted because they have expired, and were not yet taken.
    expired: Vec<Vec<u8>>,
}

/// The answer to a command for another type of value.
#[must_use]
pub fn wrong_type() -> Reply {
    Reply::error("WRONGTYPE Operation against a key holding the wrong kind of value")
}

impl Keyspace {
    /// The entry of a key that has not expired.
    pub fn get(&mut self, key: &[u8], now_ms: i64) -> Option<&mut Entry> {
        let expires_ms = self.entries.get(key)?.expires_ms;
        if expires_ms.is_some_and(|at| at < now_ms) {
            if !self.only_hides_expired {
                self.entries.remove(key);
                self.expired.push(key.to_vec());
            }
            return None;
        }
        self.entries.get_mut(key)
    }

    /// The same, and changes nothing.
    #[must_use]
    pub fn peek(&self, key: &[u8], now_ms: i64) -> Option<&Entry> {
        self.entries.get(key).filter(|entry| entry.expires_ms.is_none_or(|at| at >= now_ms))
    }

    /// The entry of a key, whether it has expired or not.
    #[must_use]
    pub fn stored(&self, key: &[u8]) -> Option<&Entry> {
        self.entries.get(key)
    }

    pub(super) fn only_hides_expired(&mut self, is_replica: bool) {
        self.only_hides_expired = is_replica;
    }

    /// Deletes all keys that have expired.
    pub(super) fn expire(&mut self, now_ms: i64) {
        let (entries, expired) = (&mut self.entries, &mut self.expired);
        entries.retain(|key, entry| {
            let is_live = entry.expires_ms.is_none_or(|at| at >= now_ms);
            if !is_live {
                expired.push(key.clone());
            }
            is_live
        });
    }

    pub(super) fn take_expired(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.expired)
    }

    /// The value of a key, which must have this type.
    pub fn typed<T: Typed>(&mut self, key: &[u8], now_ms: i64) -> Result<Option<&mut T>, Reply> {
        match self.get(key, now_ms) {
            None => Ok(None),
            Some(entry) => T::of(&mut entry.value).map(Some).ok_or_else(wrong_type),
        }
    }

    /// The same; a key that is not there gets an empty value without an expiry. A command that
    /// leaves it empty must call [`Keyspace::tidy`].
    pub fn typed_or_new<T: Typed>(&mut self, key: &[u8], now_ms: i64) -> Result<&mut T, Reply> {
        if self.get(key, now_ms).is_none() {
            self.set(key, T::default().wrap(), None);
        }
        let entry = self.entries.get_mut(key).expect("it was just set");
        T::of(&mut entry.value).ok_or_else(wrong_type)
    }

    pub fn set(&mut self, key: &[u8], value: Value, expires_ms: Option<i64>) {
        self.entries.insert(key.to_vec(), Entry { value, expires_ms });
    }

    /// Returns true if the key was there.
    pub fn remove(&mut self, key: &[u8], now_ms: i64) -> bool {
        self.get(key, now_ms).is_some() && self.delete(key)
    }

    /// The same for a key that may have expired.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        self.entries.remove(key).is_some()
    }

    /// Deletes a key that has lost its last member.
    pub fn tidy(&mut self, key: &[u8]) {
        if self.entries.get(key).is_some_and(|entry| entry.value.is_empty()) {
            self.entries.remove(key);
        }
    }

    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// The keys that have not expired, in order.
    pub fn live(&self, now_ms: i64) -> impl Iterator<Item = (&[u8], &Entry)> {
        let is_live = move |entry: &Entry| entry.expires_ms.is_none_or(|at| at >= now_ms);
        let entries = self.entries.iter().map(|(key, entry)| (key.as_slice(), entry));
        entries.filter(move |(_, entry)| is_live(entry))
    }
}
