//! What a call may change of a lock.

use super::call::{Call, Request, Verb};
use super::format::{LIVE_MOST_MS, MARKS, Member, Record};
use super::stored::{Live, Place, Stored};
use crate::server::reply::Reply;

/// The longest that an offer waits.
const OFFER_MS: i64 = 1000;

/// A lock before and after a call.
#[derive(Debug)]
pub(super) struct Change<'a> {
    pub(super) call: &'a Call<'a>,
    pub(super) place: &'a Place,
    pub(super) before: &'a Stored,
    pub(super) after: &'a Stored,
    pub(super) reply: &'a Reply,
}

pub(super) type Found = Vec<String>;

impl<'a> Change<'a> {
    /// What this call must not have changed.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        for check in [
            Self::who_came,
            Self::who_went,
            Self::who_stayed,
            Self::weight,
            Self::waiters,
            Self::state,
            Self::marks,
            Self::memory,
            Self::forced,
            Self::by_answers,
        ] {
            check(self, &mut found);
        }
        found
    }

    pub(super) fn verb(&self) -> Verb {
        self.call.script.verb
    }

    pub(super) fn requests(&self) -> impl Iterator<Item = &Request<'a>> {
        self.call.of(self.place)
    }

    pub(super) fn asks(&self, id: &[u8]) -> bool {
        self.requests().any(|it| it.id() == id)
    }

    /// The leases that the call has given.
    fn newcomers(&self) -> impl Iterator<Item = Live<'a>> {
        self.after.live().filter(|it| !self.before.has(it.holder.id))
    }

    /// The answer to a request, in numbers.
    pub(super) fn answer(&self, request: &Request<'_>) -> Vec<i64> {
        let number = |reply: &Reply| match reply {
            Reply::Int(number) => *number,
            _ => -1,
        };
        let set = self.call.set_of(request.nth).map(|(set, _)| set);
        let many = if set.is_some() { self.call.sets.len() } else { self.call.places.len() };
        let reply = match self.reply {
            Reply::Array(all) if many > 1 => all.get(set.unwrap_or(request.nth)),
            all => Some(all),
        };
        match reply {
            Some(Reply::Array(numbers)) => numbers.iter().map(number).collect(),
            Some(reply) => vec![number(reply)],
            None => Vec::new(),
        }
    }

    /// A lease comes to a request that asks for it, or to a waiter; and never to one that ended.
    fn who_came(&self, found: &mut Found) {
        let ended = self.before.record().map(Record::ended);
        for it in self.newcomers() {
            let (id, shown) = (it.holder.id, shown(it.holder.id));
            let waited = self.before.waiting().find(|(waiter, ..)| *waiter == id);
            let is_asked = self.verb().grants() && self.asks(id);
            if !is_asked && waited.is_none() {
                found.push(format!("{shown} has the lock, and has not asked for it"));
            }
            if ended == Some(id) {
                found.push(format!("{shown} has the lock, and had ended"));
            }
            self.is_in_turn(it, waited.map(|(_, position, _)| position), found);
            self.is_as_asked(it, found);
        }
    }

    /// A holder holds as it asked to.
    fn is_as_asked(&self, it: Live<'_>, found: &mut Found) {
        let asked = self.requests().find(|ask| ask.id() == it.holder.id);
        let asked = asked.filter(|_| self.verb().grants());
        let expected = match asked {
            Some(ask) => ask.holder(&self.call.script),
            None => self.before.ask(it.holder.id).and_then(|ask| ask.holder(it.holder.id)),
        };
        // A repair of a mutex says the owner apart; a mutex that is adopted keeps its own.
        let is_apart = matches!(self.verb(), Verb::Repair | Verb::Adopt);
        if !is_apart && expected.is_some_and(|expected| expected != it.holder) {
            found.push(format!("{} holds otherwise than it asked", shown(it.holder.id)));
        }
    }

    /// A lease goes by its own request, or by force.
    fn who_went(&self, found: &mut Found) {
        let verb = self.verb();
        for it in self.before.live().filter(|it| !self.after.has(it.holder.id)) {
            let id = it.holder.id;
            let is_ended = verb.ends() && self.asks(id)
                || self.requests().any(|ask| ask.from(verb) == Some(id))
                || verb == Verb::ForceRelease
                // An offer of work that is done for its request.
                || verb == Verb::AcquireOnce && self.asks(id);
            if !is_ended {
                found.push(format!("{} has lost its lease, and nobody ended it", shown(id)));
            }
        }
    }

    /// The lease of anybody else lasts as long as before; that of a request, its TTL from now.
    fn who_stayed(&self, found: &mut Found) {
        for it in self.after.live() {
            let id = it.holder.id;
            let before = self.before.live().find(|before| before.holder.id == id);
            if before.is_some_and(|before| before.ends_ms == it.ends_ms) {
                continue;
            }
            let ask = self.requests().find(|ask| ask.id() == id);
            if before.is_some() && ask.is_none() {
                found.push(format!("{} has another deadline, and has not asked", shown(id)));
            }
            let ttl_ms = ask.and_then(|ask| ask.ttl_ms(self.verb())).unwrap_or(0);
            let most_ms = match self.verb() {
                Verb::KeepOffer => LIVE_MOST_MS,
                // A copy of the request may have had another TTL.
                _ => ttl_ms.max(OFFER_MS),
            };
            if it.ends_ms > self.after.now_ms + most_ms && self.requests().count() == 1 {
                found.push(format!("{} has its lease for longer than it asked", shown(id)));
            }
        }
    }

    /// No permit takes the total weight above the limit of its own request.
    fn weight(&self, found: &mut Found) {
        let script = &self.call.script;
        let limit = |it: Live<'_>| {
            let asked = self.requests().filter(|ask| ask.id() == it.holder.id);
            let asked = asked.filter_map(|ask| ask.limit(script)).max();
            let waited = self.before.ask(it.holder.id).and_then(|ask| ask.limit);
            asked.max(waited.map(u64::from))
        };
        if matches!(self.verb(), Verb::Adopt | Verb::Repair) {
            return;
        }
        // The last one that came met the others.
        let Some(limit) = self.newcomers().filter_map(limit).max() else { return };
        let total: u64 = self.after.live_at_first().map(|it| u64::from(it.holder.weight)).sum();
        if total > limit {
            found.push(format!("permits of {total}, and the limit is {limit}"));
        }
    }

    /// The state that the call wrote.
    fn state(&self, found: &mut Found) {
        let (Some(value), Some(record)) = (&self.after.record, self.after.record()) else {
            // A release may delete the record of a mutex. Nothing else may delete one.
            let is_mutex = self.before.record().is_some_and(|it| it.kind() == b'M');
            let may_go = self.verb() == Verb::Release && is_mutex && self.after.queue.is_none();
            if self.before.record.is_some() && !may_go {
                found.push("the record is gone".to_owned());
            }
            return;
        };
        if self.before.record.as_ref() == Some(value) {
            return;
        }
        let left_ms = value.expires_ms.map_or(0, |at| at - self.after.now_ms);
        let before = self.before.record.as_ref();
        let was_offer = self.before.record().is_some_and(|it| it.id() == record.id());
        let is_same = was_offer && before.is_some_and(|it| it.expires_ms == value.expires_ms)
            || self.verb() == Verb::KeepOffer;
        // A record may outlast its leases, until the clock has reached its token.
        let has_live = self.after.live().next().is_some()
            || self.before.live().next().is_none()
                && self.before.record().is_some_and(|it| it.state() == b'H');
        let problems = [
            (
                record.state() == b'O' && !is_same && left_ms > OFFER_MS,
                "an offer lasts for too long",
            ),
            (record.state() == b'H' && !has_live, "the lock is held by nobody"),
            (
                self.verb() == Verb::Looks && self.before.record.is_some(),
                "a look changes the record",
            ),
        ];
        found.extend(problems.iter().filter(|it| it.0).map(|it| it.1.to_owned()));
    }

    /// The record remembers a request that has ended, so that a late copy is refused.
    fn memory(&self, found: &mut Found) {
        let ended = |ask: &&Request<'_>| {
            self.before.has(ask.id()) && !self.after.has(ask.id()) && self.verb().ends()
        };
        let mut ended = self.requests().filter(ended).peekable();
        let Some(record) = self.after.record().filter(|_| ended.peek().is_some()) else { return };
        // The last of several in one call.
        if !ended.any(|ask| record.ended() == ask.id()) {
            found.push("the record has forgotten which request ended".to_owned());
        }
    }

    /// A client that may keep a lease has a mark, for as long as it may.
    fn marks(&self, found: &mut Found) {
        for ask in self.requests().filter(|_| self.verb() == Verb::Linger) {
            let Some(ttl_ms) = ask.ttl_ms(Verb::Linger) else { continue };
            let until_ms = self.after.now_ms + ttl_ms;
            let is_marked = match self.after.record() {
                Some(record) if record.kind() == b'M' => record.mark() == Some(b'~'),
                _ => Self::mark_of(self.after, ask.id())
                    .is_some_and(|(at, is_recalled)| at >= until_ms && !is_recalled),
            };
            if self.answer(ask).first() == Some(&4) && !is_marked {
                found.push(format!("{} is kept without a mark", shown(ask.id())));
            }
        }
        if self.requests().any(|ask| self.answer(ask).first() == Some(&4))
            && self.verb() == Verb::Linger
            && self.after.members().any(|(member, score)| {
                matches!(member, Member::Mark { .. }) && -score - MARKS <= self.after.now_ms
            })
        {
            found.push("marks of clients that are gone pile up".to_owned());
        }
        // A mark goes with its lease, and no sooner.
        for it in self.after.live().filter(|it| self.before.has(it.holder.id)) {
            let id = it.holder.id;
            let mutex_mark = |stored: &'a Stored| {
                stored.record().filter(|record| record.kind() == b'M').and_then(Record::mark)
            };
            let is_lost = mutex_mark(self.before).is_some() && mutex_mark(self.after).is_none()
                || Self::mark_of(self.before, id).is_some_and(|(at, _)| {
                    at > self.before.now_ms
                        && Self::mark_of(self.after, id).is_none_or(|(then, _)| then < at)
                });
            if is_lost {
                found.push(format!("the mark of the client of {} is lost", shown(id)));
            }
        }
    }

    /// Until when the mark of a request's client counts, and whether that was asked to release.
    fn mark_of(stored: &Stored, id: &[u8]) -> Option<(i64, bool)> {
        stored.members().find_map(|(member, score)| match member {
            Member::Mark { client, is_recalled } if id.starts_with(client) => {
                Some((-score - MARKS, is_recalled))
            }
            _ => None,
        })
    }

    /// Whoever lost the lock by force can ask for that.
    fn forced(&self, found: &mut Found) {
        if self.verb() != Verb::ForceRelease || self.after.is_foreign {
            return;
        }
        let only: Vec<_> = self.requests().flat_map(Request::only).collect();
        let is_some = self.call.script.about.name == "lock/force_some";
        // The owner of a reentrant mutex loses all its holds.
        let is_named = |id: &[u8]| !is_some || only.iter().any(|it| it.as_bytes().starts_with(id));
        let is_hit = self.before.live().any(|it| is_named(it.holder.id));
        let kind = self.after.record.as_ref().and_then(|it| it.value.first());
        let goes = |it: &Live<'_>| is_named(it.holder.id) || is_hit && kind == Some(&b'E');
        if self.after.live().any(|it| goes(&it)) {
            found.push("the lock was forced, and is held".to_owned());
        }
        if let Some(it) = self.before.live().find(|it| !goes(it) && !self.after.has(it.holder.id)) {
            found.push(format!("{} was not named, and has lost its lease", shown(it.holder.id)));
        }
        for it in self.before.live().filter(goes) {
            let noted = self.after.forced.iter().flat_map(|set| &set.value);
            let is_noted =
                |(name, at): &(Vec<u8>, i64)| name.starts_with(it.holder.id) && *at >= it.ends_ms;
            let is_over = it.ends_ms <= self.after.now_ms;
            if !is_over && !noted.into_iter().any(is_noted) {
                found.push(format!("{} was forced, and is not noted", shown(it.holder.id)));
            }
        }
    }
}

pub(super) fn shown(id: &[u8]) -> String {
    String::from_utf8_lossy(id).into_owned()
}
