//! The keys of one lock, as they are stored.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::format::{Ask, CLIENT, Holder, Member, Record};
use crate::server::keyspace::{Keyspace, Value};
use crate::server::sorted_set::SortedSet;

/// A lock's place among the keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    prefix: Vec<u8>,
    /// The name, as it ends the keys.
    name: Vec<u8>,
}

impl Place {
    /// The lock of a key of this role.
    pub(super) fn of(key: &[u8], role: &str) -> Option<Self> {
        let middle = format!(":{role}:");
        let at = key.windows(middle.len()).position(|part| part == middle.as_bytes())?;
        Some(Self { prefix: key[..at].to_vec(), name: key[at + middle.len()..].to_vec() })
    }

    /// The name of the lock, as its users say it.
    pub(super) fn name(&self) -> String {
        let stored = self.to_string();
        let inside = stored.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        inside.map_or_else(|| stored.clone(), str::to_owned)
    }

    /// The client whose hints for this lock come by that channel.
    pub(super) fn listener<'a>(&self, channel: &'a [u8]) -> Option<&'a [u8]> {
        let rest = channel.strip_prefix(&*self.prefix)?.strip_prefix(b":wake:")?;
        let own = rest.strip_prefix(&*self.name).and_then(|rest| rest.strip_prefix(b":"));
        Some(own.unwrap_or(rest)).filter(|client| client.len() == CLIENT)
    }

    /// A key that all locks of a server share.
    pub(super) fn key_of_all(&self, role: &str) -> Vec<u8> {
        [&self.prefix, b":".as_slice(), role.as_bytes()].concat()
    }

    pub(super) fn key(&self, role: &str) -> Vec<u8> {
        [&self.prefix, b":".as_slice(), role.as_bytes(), b":", &self.name].concat()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.name))
    }
}

/// A value, and the last millisecond in which it is there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Timed<T> {
    pub(super) value: T,
    pub(super) expires_ms: Option<i64>,
}

type Scored = Vec<(Vec<u8>, i64)>;

/// All that is stored of a lock at a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stored {
    pub(super) now_ms: i64,
    pub(super) record: Option<Timed<Vec<u8>>>,
    pub(super) holders: Option<Timed<Scored>>,
    pub(super) queue: Option<Timed<Scored>>,
    pub(super) waiters: Option<Timed<BTreeMap<Vec<u8>, Vec<u8>>>>,
    pub(super) forced: Option<Timed<Scored>>,
    pub(super) intent: Option<Timed<Vec<u8>>>,
    pub(super) done: Option<Timed<Vec<u8>>>,
    pub(super) runs: Option<Timed<Vec<u8>>>,
    pub(super) again: Option<Timed<Vec<u8>>>,
    pub(super) freed: Option<Timed<Vec<u8>>>,
    /// The requests whose leases had ended before, and would count again: the clock was set back.
    pub(super) revived: BTreeSet<Vec<u8>>,
    /// One of the keys holds what no client of ours puts there.
    pub(super) is_foreign: bool,
}

/// A lease that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live<'a> {
    pub(super) holder: Holder<'a>,
    pub(super) ends_ms: i64,
}

impl Stored {
    pub(super) fn look(keyspace: &Keyspace, place: &Place, now_ms: i64) -> Self {
        let mut stored = Self { now_ms, ..Self::default() };
        let mut is_foreign = false;
        let look = |role| {
            let entry = keyspace.peek(&place.key(role), now_ms)?;
            Some((entry, entry.expires_ms))
        };
        macro_rules! take {
            ($role:literal, $kind:ident, $read:expr) => {
                look($role).and_then(|(entry, expires_ms)| match &entry.value {
                    Value::$kind(value) => Some(Timed { value: $read(value), expires_ms }),
                    _ => {
                        is_foreign = true;
                        None
                    }
                })
            };
        }
        stored.record = take!("lock", String, Vec::clone);
        stored.holders = take!("holders", SortedSet, scored);
        stored.queue = take!("queue", SortedSet, scored);
        stored.waiters = take!("waiters", Hash, BTreeMap::clone);
        stored.forced = take!("forced", SortedSet, scored);
        stored.intent = take!("intent", String, Vec::clone);
        stored.done = take!("done", String, Vec::clone);
        stored.runs = take!("runs", String, Vec::clone);
        stored.again = take!("again", String, Vec::clone);
        stored.freed = take!("freed", String, Vec::clone);
        is_foreign |= stored.record.as_ref().is_some_and(|it| Record::read(&it.value).is_none());
        stored.is_foreign = is_foreign;
        stored
    }

    pub(super) fn record(&self) -> Option<Record<'_>> {
        Record::read(&self.record.as_ref()?.value)
    }

    /// The members of the set of holders with their scores. Leaves out those of unknown shape.
    pub(super) fn members(&self) -> impl Iterator<Item = (Member<'_>, i64)> {
        let all = self.holders.iter().flat_map(|set| &set.value);
        all.filter_map(|(name, score)| Some((Member::read(name, *score)?, *score)))
    }

    /// The holders in the set, ended ones included.
    pub(super) fn in_set(&self) -> impl Iterator<Item = Live<'_>> {
        self.members().filter_map(|(member, ends_ms)| match member {
            Member::Holder(holder) => Some(Live { holder, ends_ms }),
            _ => None,
        })
    }

    /// The holders whose leases have not ended; those of offers, too.
    pub(super) fn live(&self) -> impl Iterator<Item = Live<'_>> {
        let record = self.record().filter(|it| it.kind() == b'M' && b"HO".contains(&it.state()));
        let mutex = record.and_then(|it| {
            let ends_ms = self.record.as_ref()?.expires_ms.unwrap_or(i64::MAX);
            Some(Live { holder: Holder::of_mutex(it.id(), it.suffix())?, ends_ms })
        });
        mutex.into_iter().chain(self.in_set().filter(|it| it.ends_ms > self.now_ms))
    }

    /// The same without those that had ended before.
    pub(super) fn live_at_first(&self) -> impl Iterator<Item = Live<'_>> {
        self.live().filter(|it| !self.revived.contains(it.holder.id))
    }

    pub(super) fn has(&self, id: &[u8]) -> bool {
        self.live().any(|it| it.holder.id == id)
    }

    /// The waiters in their order, with their positions. Leaves out those of unknown shape.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (&[u8], i64, Ask<'_>)> {
        let all = self.queue.iter().flat_map(|set| &set.value);
        all.filter_map(|(id, position)| Some((id.as_slice(), *position, self.ask(id)?)))
    }

    /// The ids that are in the queue or among the waiters' asks, and not in both.
    pub(super) fn unpaired(&self) -> BTreeSet<&[u8]> {
        let queue = self.queue.iter().flat_map(|set| &set.value).map(|(id, _)| id.as_slice());
        let said = self.waiters.iter().flat_map(|hash| hash.value.keys()).map(Vec::as_slice);
        let (queue, said): (BTreeSet<_>, BTreeSet<_>) = (queue.collect(), said.collect());
        queue.symmetric_difference(&said).copied().collect()
    }

    /// What a waiter asked for last.
    pub(super) fn ask(&self, id: &[u8]) -> Option<Ask<'_>> {
        Ask::read(self.waiters.as_ref()?.value.get(id)?)
    }
}

fn scored(set: &SortedSet) -> Scored {
    set.iter().map(|(name, score)| (name.to_vec(), whole(score))).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "no more of a score matters")]
pub(super) fn whole(score: f64) -> i64 {
    score as i64
}

/// As an engineer reads it: each key on a line, with the time that it has left.
impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = |expires_ms: Option<i64>| match expires_ms {
            Some(at) => format!("{} ms left", at - self.now_ms),
            None => "no expiry".to_owned(),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let strings = [
            ("record", &self.record),
            ("intent", &self.intent),
            ("done", &self.done),
            ("runs", &self.runs),
            ("again", &self.again),
            ("freed", &self.freed),
        ];
        for (role, value) in strings {
            if let Some(it) = value {
                writeln!(f, "    {role}: {:?}, {}", text(&it.value), left(it.expires_ms))?;
            }
        }
        let sets = [("holders", &self.holders), ("queue", &self.queue), ("forced", &self.forced)];
        for (role, set) in sets {
            if let Some(it) = set {
                let members =
                    it.value.iter().map(|(name, score)| format!("{:?} {score}", text(name)));
                let members: Vec<_> = members.collect();
                writeln!(f, "    {role}: {}, {}", members.join(", "), left(it.expires_ms))?;
            }
        }
        if let Some(it) = &self.waiters {
            let said: Vec<_> = it
                .value
                .iter()
                .map(|(id, said)| format!("{} {:?}", text(id), text(said)))
                .collect();
            writeln!(f, "    waiters: {}, {}", said.join(", "), left(it.expires_ms))?;
        }
        if *self == (Self { now_ms: self.now_ms, ..Self::default() }) {
            writeln!(f, "    nothing")?;
        }
        Ok(())
    }
}
