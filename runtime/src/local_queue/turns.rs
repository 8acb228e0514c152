//! Turns: how long, and how often, a released lease goes to the next waiter of this process
//! without the store.
//!
//! The store sees one request that holds the lock. Each lease of a turn has its own fencing
//! token, from the block that the grant reserved, its own renewals and its own end. Waiters of
//! other processes wait at most one turn longer. A turn is short, and the block of tokens
//! bounds it too.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::handoff::{ClientActivity, Handoff};
use super::linger::{Linger, Wanted};
use crate::state::lease::Grant;
use crate::store::{RequestId, Subscription, TOKENS};

/// How long a turn lasts. Work that takes longer under a lock does not notice two round trips.
/// Waiters elsewhere wait for a turn and one critical section longer.
pub(super) const TURN: Duration = Duration::from_millis(20);

/// Longer than any lease: a turn that lingers has no end of its own.
const NEVER: Duration = Duration::from_secs(1 << 32);

/// The number of a turn. Later turns have greater ones.
pub(crate) type TurnId = u64;

/// The turns of one queue, in the order in which they began.
#[derive(Default)]
pub(super) struct Turns {
    running: VecDeque<Turn>,
    weight: u64,
}

pub(super) struct Turn {
    id: TurnId,
    weight: u64,
    pub(super) ends: Instant,
    /// How many more times the lease may be handed over.
    pub(super) left: u64,
    pub(super) state: TurnState,
    /// Only of a lingering turn.
    pub(super) linger: Option<Linger>,
}

/// Where the lease of a turn is. Only that of a lingering turn is asked about, or idle.
pub(super) enum TurnState {
    /// A task has it.
    InUse,
    /// The next waiter takes it up. That waiter has been woken.
    HandedOver(Handoff),
    /// Nobody has it until the store has said whether it may stay here.
    Asking {
        /// Since when nobody uses it, if it was idle before.
        idle_since: Option<Instant>,
    },
    /// It stays here, and nobody uses it.
    Idle { since: Instant, handoff: Handoff },
}

impl Turn {
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state, TurnState::Idle { .. })
    }

    pub(super) fn is_asking(&self) -> bool {
        matches!(self.state, TurnState::Asking { .. })
    }

    /// Its lease, if no task has it.
    pub(super) fn handoff(&self) -> Option<&Handoff> {
        match &self.state {
            TurnState::HandedOver(handoff) | TurnState::Idle { handoff, .. } => Some(handoff),
            TurnState::InUse | TurnState::Asking { .. } => None,
        }
    }

    /// Returns true if the tokens that are left end with the last one that the store has reserved.
    pub(super) fn has_its_tokens(&self) -> bool {
        let (Some(linger), Some(next)) = (&self.linger, self.handoff().and_then(Handoff::fence))
        else {
            return true;
        };
        next.get() + self.left == linger.last_token
    }

    /// Notes a later deadline of its lease.
    pub(super) fn extend(&mut self, deadline: Instant) {
        if let TurnState::HandedOver(handoff) | TurnState::Idle { handoff, .. } = &mut self.state {
            handoff.extend(deadline);
        }
    }

    /// Notes whether the waiter to which its lease was handed over needs the whole TTL.
    pub(super) fn set_needs_whole(&mut self, needs_whole: bool) {
        if let TurnState::HandedOver(handoff) = &mut self.state {
            handoff.set_needs_whole(needs_whole);
        }
    }

    /// Gives its lease to the waiter to which it was handed over.
    pub(super) fn take_up(&mut self) -> Option<Handoff> {
        match std::mem::replace(&mut self.state, TurnState::InUse) {
            TurnState::HandedOver(handoff) => Some(handoff),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Takes out its lease if nobody uses it, and since when. `state` follows.
    pub(super) fn leave_idle(
        &mut self,
        state: impl FnOnce(Instant) -> TurnState,
    ) -> Option<Handoff> {
        match std::mem::replace(&mut self.state, TurnState::InUse) {
            TurnState::Idle { since, handoff } => {
                self.state = state(since);
                Some(handoff)
            }
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Makes a lingering turn an ordinary one, which ends at this time at the latest. False if it
    /// does not linger, or was recalled before.
    pub(super) fn recall(&mut self, ends: Instant) -> bool {
        let Some(linger) = &mut self.linger else { return false };
        let is_first = std::mem::replace(&mut linger.wanted, Wanted::Recalled) != Wanted::Recalled;
        if is_first {
            self.ends = self.ends.min(ends);
        }
        is_first
    }

    /// Returns true, once, if more tokens or more time are to be asked for in the background.
    pub(super) fn is_short(&mut self, now: Instant) -> bool {
        let left = self.left;
        self.linger.as_mut().is_some_and(|linger| {
            (left < linger.refill_below || linger.refill_at.is_some_and(|at| at <= now))
                && !linger.is_recalled()
                && !std::mem::replace(&mut linger.is_refilling, true)
        })
    }
}

/// A turn that has ended.
#[must_use = "cancel its lease, once the queues are unlocked"]
pub(super) struct EndedTurn(Turn);

impl EndedTurn {
    /// Cancels its lease, unless a task has it. Not under the queues' lock: it sends a command.
    pub(super) fn cancel(self) {
        if let TurnState::HandedOver(handoff) | TurnState::Idle { handoff, .. } = self.0.state {
            handoff.cancel();
        }
    }

    /// Its subscription, if it lingered. A task had its lease.
    pub(super) fn into_subscription(self) -> Option<Subscription> {
        debug_assert!(matches!(self.0.state, TurnState::InUse), "its lease was released");
        self.0.linger?.subscription
    }
}

/// Cancels the leases of turns.
pub(super) fn cancel(ended: impl IntoIterator<Item = EndedTurn>) {
    ended.into_iter().for_each(EndedTurn::cancel);
}

/// A lease that was handed over inside this process, or was idle.
pub(crate) struct TakenUp {
    pub(crate) grant: Grant,
    /// The turn in which it may be handed on.
    pub(crate) turn: TurnId,
    /// The client's shutdown waits for it.
    pub(crate) activity: ClientActivity,
}

impl Turns {
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// The weight of all leases in turns.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    pub(super) fn begin(&mut self, id: TurnId, weight: u64, ends: Instant) {
        let state = TurnState::InUse;
        self.add(Turn { id, weight, ends, left: TOKENS - 1, state, linger: None });
    }

    /// Begins a turn without an end. Nothing is handed over before the store allows it.
    pub(super) fn begin_lingering(
        &mut self,
        id: TurnId,
        weight: u64,
        now: Instant,
        linger: Linger,
    ) {
        let (ends, state) = (now + NEVER, TurnState::Asking { idle_since: None });
        self.add(Turn { id, weight, ends, left: 0, state, linger: Some(linger) });
    }

    fn add(&mut self, turn: Turn) {
        let is_asked_about = matches!(turn.state, TurnState::Asking { .. });
        debug_assert!(
            is_asked_about == turn.linger.is_some(),
            "only a lingering turn is asked about"
        );
        debug_assert!(self.running.back().is_none_or(|last| last.id < turn.id), "out of order");
        self.weight += turn.weight;
        self.running.push_back(turn);
    }

    /// The lingering turns.
    pub(super) fn lingering(&self) -> Vec<TurnId> {
        self.running.iter().filter(|turn| turn.linger.is_some()).map(|turn| turn.id).collect()
    }

    /// Returns true if the store was asked whether a lease may stay here.
    pub(super) fn is_asking(&self) -> bool {
        self.running.iter().any(Turn::is_asking)
    }

    /// The turn in which the lease of this request lingers.
    pub(super) fn lingering_as(&self, id: RequestId) -> Option<TurnId> {
        let is_it = |linger: &Linger| linger.request.id == id;
        let turn = self.running.iter().find(|turn| turn.linger.as_ref().is_some_and(is_it));
        turn.map(|turn| turn.id)
    }

    pub(super) fn find(&mut self, id: TurnId) -> Option<&mut Turn> {
        let at = self.running.binary_search_by_key(&id, |turn| turn.id).ok()?;
        self.running.get_mut(at)
    }

    /// Ends a turn whose lease a task has.
    pub(super) fn end_in_use(&mut self, id: TurnId) -> Option<EndedTurn> {
        let is_in_use = matches!(self.find(id)?.state, TurnState::InUse);
        if is_in_use { self.end(id) } else { None }
    }

    pub(super) fn end(&mut self, id: TurnId) -> Option<EndedTurn> {
        let at = self.running.binary_search_by_key(&id, |turn| turn.id).ok()?;
        let turn = self.running.remove(at)?;
        self.weight -= turn.weight;
        debug_assert_eq!(self.weight, self.running.iter().map(|it| it.weight).sum::<u64>());
        Some(EndedTurn(turn))
    }

    /// Ends all of them.
    pub(super) fn end_all(&mut self) -> Vec<EndedTurn> {
        self.weight = 0;
        self.running.drain(..).map(EndedTurn).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_reserve_as_many_tokens() {
        let record = include_str!("../../lua/include/record.lua");
        assert!(record.contains(&format!("GRACE_MS, BLOCK = 60000, {TOKENS}\n")));
    }
}
