//! What a call may change of a lock's queue.

use std::collections::BTreeSet;

use super::call::Verb;
use super::change::{Change, Found, shown};
use super::format::{LIVE_MOST_MS, number};
use super::stored::Live;

/// The longest that a queue stays.
const QUEUE_MS: i64 = 60_000;

impl Change<'_> {
    /// Nobody overtakes a live waiter, except an owner that comes again.
    pub(super) fn is_in_turn(&self, it: Live<'_>, position: Option<i64>, found: &mut Found) {
        let owner = it.holder.owner;
        let comes_again =
            owner.is_some() && self.before.live().any(|other| other.holder.owner == owner);
        if comes_again || matches!(self.verb(), Verb::Adopt | Verb::Repair) {
            return;
        }
        let now_ms = self.before.now_ms;
        // A waiter may come back to the position that it had.
        let asked = self.requests().find(|ask| ask.id() == it.holder.id);
        let position =
            position.or_else(|| asked.and_then(|ask| ask.position(&self.call.script, now_ms)));
        let is_left =
            |id: &[u8]| self.after.queue.iter().any(|set| set.value.iter().any(|(it, _)| it == id));
        let passed = self.before.waiting().find(|(id, place, ask)| {
            *id != it.holder.id
                && ask.is_live(now_ms)
                && position.is_none_or(|position| *place < position)
                && is_left(id)
        });
        if let Some((passed, ..)) = passed {
            found.push(format!("{} has overtaken {}", shown(it.holder.id), shown(passed)));
        }
    }

    /// A live waiter stays until it is served, asks otherwise, or its work is done.
    pub(super) fn waiters(&self, found: &mut Found) {
        let now_ms = self.before.now_ms;
        let after: BTreeSet<_> = self.after.waiting().map(|(id, ..)| id).collect();
        for (id, position, ask) in self.before.waiting() {
            let is_live = ask.is_live(now_ms);
            let is_told = self.verb() == Verb::Complete && ask.is_once;
            if !after.contains(id) {
                if is_live && !is_told && !self.after.has(id) && !self.asks(id) {
                    found.push(format!("the waiter {} is lost", shown(id)));
                }
            } else if self.after.waiting().any(|it| it.0 == id && it.1 != position) {
                found.push(format!("the waiter {} has another position", shown(id)));
            }
        }
        let done = self.after.done.as_ref().filter(|done| self.before.done.as_ref() != Some(*done));
        let until_ms = done.and_then(|done| number(done.value.get(..13)?)).unwrap_or(0);
        let is_done = i64::try_from(until_ms).is_ok_and(|until| until > now_ms);
        for (id, _, ask) in self.after.waiting() {
            if self.verb() == Verb::Complete && is_done && ask.is_once {
                found.push(format!("{} waits, and the work is done", shown(id)));
            }
            let before = self.before.ask(id).map(|ask| ask.until_ms);
            if before.is_none() && !self.asks(id) {
                found.push(format!("{} waits, and has not asked", shown(id)));
            }
            if before.is_none_or(|before| before < ask.until_ms)
                && (!self.asks(id) || ask.until_ms > now_ms + LIVE_MOST_MS)
            {
                found.push(format!("the waiter {} has a wrong heartbeat", shown(id)));
            }
        }
        // Where the clock was set back, one of the two may have ended before.
        let before = self.before.unpaired();
        if self.after.unpaired().iter().any(|id| !before.contains(id)) {
            found.push("the queue and the waiters differ".to_owned());
        }
        if let Some(queue) = &self.after.queue
            && queue.expires_ms.is_some_and(|at| at > now_ms + QUEUE_MS)
            && self.before.queue.as_ref().is_none_or(|it| it.expires_ms != queue.expires_ms)
        {
            found.push("the queue stays for too long".to_owned());
        }
    }
}
