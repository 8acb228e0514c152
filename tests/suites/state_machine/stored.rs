//! One lock, as it is stored on the server.

use std::collections::HashMap;

use leasehold::store::{Kind, LIVE_MOST, Owner, Request};

pub(super) const ROLES: [&str; 8] =
    ["lock", "holders", "queue", "waiters", "forced", "intent", "done", "freed"];

/// Members of the set of holders with this score or less are marks: `~` and a client that may keep
/// a lease without using it, or `!` and one that was asked to release it.
const MARKS: i64 = -1_000_000_000_000_000;

#[derive(Default)]
pub(super) struct Lock {
    pub(super) record: Option<String>,
    /// The end of the record, in the server's milliseconds.
    pub(super) ends_ms: u64,
    /// Member and score, in order.
    pub(super) holders: Vec<(String, i64)>,
    pub(super) queue: Vec<(String, i64)>,
    pub(super) waiters: HashMap<String, String>,
    pub(super) forced: Vec<(String, i64)>,
    /// The client of a refused writer that asks again.
    pub(super) intent: Option<String>,
    /// The time left of each key, by role.
    pub(super) left_ms: Vec<i64>,
}

/// The way in which a request holds the lock, or would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct How<'a> {
    /// The first letter of the record.
    pub(super) kind: char,
    pub(super) limit: u32,
    pub(super) weight: u32,
    pub(super) is_writer: bool,
    pub(super) owner: Option<&'a str>,
}

impl<'a> How<'a> {
    pub(super) fn of(request: &'a Request) -> Self {
        let owner = request.owner.as_ref().map(Owner::name);
        let how = How { kind: 'M', limit: 1, weight: 1, is_writer: false, owner };
        match request.kind {
            Kind::Mutex | Kind::Once(_) => how,
            Kind::Reentrant => How { kind: 'E', ..how },
            Kind::Semaphore { limit, weight } => How { kind: 'S', limit, weight, ..how },
            Kind::Read => How { kind: 'R', ..how },
            Kind::Write => How { kind: 'R', is_writer: true, ..how },
        }
    }

    /// A waiter's last record: behind its heartbeat and its client's secret.
    fn wished(said: &'a str) -> Self {
        let (kind, wish) = said[35..].split_at(1);
        let how = wish.trim_start_matches(|it: char| it.is_ascii_digit());
        let limit = wish[..wish.len() - how.len()].parse().unwrap_or(1);
        How { limit, ..Self::read(kind, how) }
    }

    /// The suffix of a holder's id.
    pub(super) fn read(kind: &str, how: &'a str) -> Self {
        let (how, _note) = how.split_once('\n').unwrap_or((how, ""));
        let (how, owner) = how.split_once('@').map_or((how, None), |(how, it)| (how, Some(it)));
        let weight = how.strip_prefix(':').map_or(1, |weight| weight.parse().expect("a weight"));
        let kind = kind.chars().next().expect("a kind");
        How { kind, limit: 1, weight, is_writer: how == "w", owner }
    }
}

impl Lock {
    /// The record, if it lasts longer than that.
    pub(super) fn record_at(&self, at_ms: u64) -> Option<&str> {
        self.record.as_deref().filter(|_| self.ends_ms > at_ms)
    }

    /// The beginning of the record: the letter of its kind, and its state.
    pub(super) fn state_at(&self, at_ms: u64) -> &str {
        self.record_at(at_ms).map_or("", |record| &record[..2])
    }

    pub(super) fn token(&self) -> u64 {
        self.record.as_ref().map_or(0, |record| record[36..52].parse().expect("16 digits"))
    }

    /// The mark of a writer, if it lasts longer than that.
    pub(super) fn mark_at(&self, looked_ms: u64, at_ms: u64) -> Option<&str> {
        let is_live = looked_ms.saturating_add_signed(self.left_ms[5]) > at_ms;
        self.intent.as_deref().filter(|_| is_live)
    }

    /// The counts beside the holders.
    pub(super) fn counts(&self) -> impl Iterator<Item = &(String, i64)> {
        let is_count = |(member, score): &&(String, i64)| {
            member.starts_with(['+', '@', '!']) && *score > MARKS
        };
        self.holders.iter().filter(is_count)
    }

    /// True if a client may keep a lease without using it, and was not asked to release it.
    pub(super) fn lingers(&self, at_ms: u64) -> bool {
        let live = -i64::try_from(at_ms).expect("a date");
        let mutex = self.record_at(at_ms).and_then(|record| record.get(87..88));
        mutex == Some("~")
            || self.holders.iter().any(|(it, end)| it.starts_with('~') && *end - MARKS < live)
    }

    /// True if a client was asked to release what it keeps.
    pub(super) fn has_recalled(&self, at_ms: u64) -> bool {
        let live = -i64::try_from(at_ms).expect("a date");
        self.record_at(at_ms).and_then(|record| record.get(87..88)) == Some("!")
            || self
                .holders
                .iter()
                .any(|(it, end)| it.starts_with('!') && it.len() > 1 && *end - MARKS < live)
    }

    /// True if the client of this live request was asked to release what it keeps.
    pub(super) fn is_recalled(&self, id: &str, at_ms: u64) -> bool {
        let live = -i64::try_from(at_ms).expect("a date");
        let mark = format!("!{}", &id[..22]);
        self.record_at(at_ms).and_then(|record| record.get(87..88)) == Some("!")
            || self.holders.iter().any(|(it, end)| *it == mark && *end - MARKS < live)
    }

    /// The request that ended last.
    pub(super) fn ended(&self) -> &str {
        self.record.as_ref().map_or("", |record| &record[53..87])
    }

    /// The end of a holder's lease, in the server's milliseconds.
    pub(super) fn end_of(&self, id: &str) -> Option<u64> {
        let mut members = self.members();
        let end = members.find(|(member, ..)| *member == id).map(|(.., end)| end);
        let is_mutex = self.record.as_ref().is_some_and(|record| &record[2..36] == id);
        end.map_or(is_mutex.then_some(self.ends_ms), |end| u64::try_from(end).ok())
    }

    pub(super) fn members(&self) -> impl Iterator<Item = (&str, How<'_>, i64)> {
        let kind = self.record.as_deref().unwrap_or("?");
        let is_holder =
            |(member, _): &&(String, i64)| !member.starts_with(['+', '@', '!', '~', '^']);
        let members = self.holders.iter().filter(is_holder);
        members.map(move |(member, end)| (&member[..34], How::read(kind, &member[34..]), *end))
    }

    /// The holders of the lock, and the ways in which they hold it.
    pub(super) fn live(&self, at_ms: u64) -> impl Iterator<Item = (&str, How<'_>)> {
        let record = self.record_at(at_ms).filter(|record| ["MH", "MO"].contains(&&record[..2]));
        let mutex = record.map(|record| (&record[2..36], How::read("M", &record[87..])));
        let members =
            self.members().filter(move |(.., end)| u64::try_from(*end).is_ok_and(|it| it > at_ms));
        mutex.into_iter().chain(members.map(|(id, how, _)| (id, how)))
    }

    pub(super) fn has(&self, id: &str, at_ms: u64) -> bool {
        self.live(at_ms).any(|(holder, _)| holder == id)
    }

    pub(super) fn is_owners(&self, owner: Option<&str>, at_ms: u64) -> bool {
        owner.is_some() && self.live(at_ms).any(|(_, how)| how.owner == owner)
    }

    /// The live waiters, in their order.
    pub(super) fn waiting(&self, at_ms: u64) -> impl Iterator<Item = (&str, How<'_>)> {
        let most = at_ms + u64::try_from(LIVE_MOST.as_millis()).expect("a few seconds");
        let said = self.queue.iter().map(|(id, _)| (id.as_str(), self.waiters[id].as_str()));
        let live = said.filter(move |(_, said)| {
            let until = said[..13].parse::<u64>().expect("13 digits");
            (at_ms + 1..=most).contains(&until)
        });
        live.map(|(id, said)| (id, How::wished(said)))
    }

    /// True if there may be more ended leases or waiters than one command goes through.
    pub(super) fn is_crowded(&self, at_ms: u64) -> bool {
        let ended =
            self.members().filter(|(.., end)| u64::try_from(*end).is_ok_and(|it| it <= at_ms));
        ended.count() + self.queue.len() > 64
    }

    /// The demand of a waiter, by its last ask.
    pub(super) fn said(&self, id: &str) -> Option<How<'_>> {
        self.waiters.get(id).map(|said| How::wished(said))
    }

    /// True if the contract allows one more such holder.
    pub(super) fn has_room(&self, how: How<'_>, at_ms: u64) -> bool {
        let mut live = self.live(at_ms).map(|(_, how)| how);
        match how.kind {
            'M' => live.next().is_none() && self.state_at(at_ms) != "MK",
            'E' => live.all(|it| it.owner == how.owner),
            'S' => live.map(|it| it.weight).sum::<u32>() + how.weight <= how.limit,
            _ if how.is_writer => live.next().is_none(),
            _ => live.all(|it| !it.is_writer || how.owner.is_some() && it.owner == how.owner),
        }
    }

    /// True if all holders are readers of one owner, which may then write.
    pub(super) fn is_sole_reader(&self, owner: Option<&str>, at_ms: u64) -> bool {
        owner.is_some() && self.live(at_ms).all(|(_, it)| !it.is_writer && it.owner == owner)
    }
}
