//! What a call promises to its request and to those who wait, by its answer. The rules of the library
//! are not asked, so a mistake that they share with the scripts is found, too.

use super::awaited::could_have;
use super::call::{Request, Verb};
use super::change::{Change, Found, shown};
use super::format::{Holder, Mode, Record};

/// A call goes through so many waiters and ended holders.
const MANY: usize = 64;

impl Change<'_> {
    /// The requests of the call that hold after it, and did not before.
    pub(super) fn begins_to_hold(&self) -> impl Iterator<Item = &[u8]> {
        let ids = self.requests().map(Request::id);
        ids.filter(|id| self.after.has(id) && !self.before.has(id))
    }

    /// Nobody waits for what is free, or for a lease of its own owner; and whoever has ended, or would
    /// wait for itself, is gone.
    pub(super) fn by_answers(&self, found: &mut Found) {
        for ask in self.requests() {
            let (id, code) = (ask.id(), self.answer(ask).first().copied());
            let asks = matches!(self.verb(), Verb::Acquire | Verb::AcquireOnce);
            let is_over = matches!(self.verb(), Verb::Release | Verb::Complete | Verb::Cancel)
                || asks && code == Some(6);
            // Who holds is in no queue, unless somebody has deleted half of it by hand.
            let is_left = self.after.ask(id).is_some() && !self.before.unpaired().contains(id);
            if is_over && (self.after.has(id) || is_left) {
                found.push(format!("{} is over, and still there", shown(id)));
            }
            let waits = asks && matches!(code, Some(0 | 5 | 8));
            if waits && self.owner_holds(ask.holder(&self.call.script), code == Some(5)) {
                found.push(format!("{} waits for its own owner", shown(id)));
            }
            if waits || self.verb().ends() && self.before.has(id) && !self.after.has(id) {
                self.first_waits(found);
            }
        }
        self.adopted(found);
        self.tokens(found);
    }

    /// More than a call goes through may be left.
    fn is_crowded(&self) -> bool {
        let ended = self.before.in_set().filter(|it| it.ends_ms <= self.before.now_ms).count();
        ended + self.before.queue.as_ref().map_or(0, |it| it.value.len()) > MANY
    }

    /// The request's owner has a lease that lets this one in.
    fn owner_holds(&self, holder: Option<Holder<'_>>, is_queued: bool) -> bool {
        let Some(holder) = holder.filter(|it| it.owner.is_some()) else { return false };
        let may_enter = match holder.mode {
            Mode::Reentrant | Mode::Reader => true,
            // A try may be refused: others read.
            Mode::Writer => is_queued,
            Mode::Alone | Mode::Permit => false,
        };
        let is_owners =
            |it: Holder<'_>| it.mode.kind() == holder.mode.kind() && it.owner == holder.owner;
        may_enter && !self.is_crowded() && self.before.live().any(|it| is_owners(it.holder))
    }

    /// The first waiter can't have the lock.
    fn first_waits(&self, found: &mut Found) {
        let kind = self.after.record().map(Record::kind);
        let mut waiting = self.after.waiting().filter(|(.., ask)| ask.is_live(self.after.now_ms));
        if let Some((id, _, ask)) = waiting.next()
            && kind == Some(ask.kind)
            && could_have(self.after, id, &ask)
            && (ask.how.first() != Some(&b'w') || self.after.live().next().is_none())
            && !self.is_crowded()
        {
            found.push(format!("{} waits for what is free", shown(id)));
        }
    }

    /// An adopter has what the other had, and the other has it no more.
    fn adopted(&self, found: &mut Found) {
        for ask in self.requests() {
            let (id, Some(from)) = (ask.id(), ask.from(self.verb())) else { continue };
            let came = self.after.has(id) && !self.before.has(id);
            if came && !self.before.has(from) {
                found.push(format!("{} has adopted what {} had not", shown(id), shown(from)));
            }
            let is_remembered = self.after.record().is_some_and(|it| it.ended() == from);
            if came && (self.after.has(from) || !is_remembered) {
                found.push(format!("{} may still have what was adopted", shown(from)));
            }
        }
    }

    /// A lease that others may not share has a new token, except for one more hold of an owner.
    fn tokens(&self, found: &mut Found) {
        let (Some(then), Some(now)) = (self.before.record(), self.after.record()) else { return };
        let (then, now) = (then.token(), now.token());
        let is_forced = self.call.script.about.name == "lock/force_release";
        if is_forced && self.before.live().next().is_some() && now <= then {
            found.push(format!("the lock was forced, and token {then} stays"));
        }
        let from = self.requests().find_map(|ask: &Request<'_>| ask.from(self.verb()));
        let newcomers = self.after.live().filter(|it| !self.before.has(it.holder.id));
        for it in newcomers.filter(|_| self.verb() != Verb::Repair && then > 0) {
            let keeps = it.holder.mode == Mode::Reentrant
                && self.before.live().any(|other| {
                    other.holder.owner == it.holder.owner && Some(other.holder.id) != from
                });
            let is_fenced = !matches!(it.holder.mode, Mode::Permit | Mode::Reader);
            if is_fenced && (keeps && now != then || !keeps && now <= then) {
                found.push(format!("{} has token {now} after {then}", shown(it.holder.id)));
            }
        }
    }
}
