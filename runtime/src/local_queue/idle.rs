//! The idle leases of one queue.

use std::time::{Duration, Instant};

use super::handoff::Handoff;
use super::queue::LocalQueue;
use super::spec::Need;
use super::turns::{EndedTurn, TakenUp, TurnId, TurnState};
use crate::store::Subscription;

/// What an acquisition finds among the idle leases.
pub(super) enum Idle {
    /// Nothing for it.
    None,
    TakenUp(TakenUp),
    /// The store has to be asked first if the lease is still there.
    Doubtful(Question),
}

/// An idle lease that nobody takes up before the store has answered.
pub(super) struct Question {
    pub(super) turn: TurnId,
    pub(super) handoff: Handoff,
    pub(super) subscription: Option<Subscription>,
}

impl LocalQueue {
    /// Takes the idle lease that was used last, for an acquisition that asks for the same.
    pub(super) fn take_idle(&mut self, need: &Need<'_>, now: Instant) -> Idle {
        let Some(id) = self.last_idle(need, now) else { return Idle::None };
        if self.is_doubtful(id, need) {
            return self.question(id).map_or(Idle::None, Idle::Doubtful);
        }
        self.take_up_idle(id, now).map_or(Idle::None, Idle::TakenUp)
    }

    /// The idle lease that was used last, if it is for this acquisition.
    pub(super) fn last_idle(&mut self, need: &Need<'_>, now: Instant) -> Option<TurnId> {
        while let Some(&id) = self.idle.back() {
            if let Some(turn) = self.turns.find(id).filter(|turn| turn.is_idle()) {
                let is_for = |handoff: &Handoff| handoff.is_for(need.spec, need.ttl, now);
                return turn.handoff().is_some_and(is_for).then_some(id);
            }
            // It has ended.
            self.idle.pop_back();
        }
        None
    }

    /// Returns true if the store has to be asked before this idle lease is taken up.
    pub(super) fn is_doubtful(&mut self, id: TurnId, need: &Need<'_>) -> bool {
        let Some(turn) = self.turns.find(id) else { return false };
        let by_renewal = turn.handoff().and_then(Handoff::confirmed);
        let by_refill = turn.linger.as_ref().and_then(|linger| linger.confirmed);
        need.whole || by_renewal.max(by_refill) < need.since
    }

    pub(super) fn take_up_idle(&mut self, id: TurnId, now: Instant) -> Option<TakenUp> {
        let turn = self.turns.find(id)?;
        let handoff = turn.leave_idle(|_| TurnState::InUse)?;
        let (grant, activity) = handoff.into_grant(now)?;
        self.idle.retain(|it| *it != id);
        (self.last_activity, self.is_answered) = (now, true);
        Some(TakenUp { grant, turn: id, activity })
    }

    /// Takes an idle lease out, until the store has answered a question about it.
    pub(super) fn question(&mut self, id: TurnId) -> Option<Question> {
        let turn = self.turns.find(id)?;
        let asking = |since| TurnState::Asking { idle_since: Some(since) };
        let handoff = turn.leave_idle(asking)?;
        let subscription = turn.linger.as_mut().and_then(|linger| linger.subscription.take());
        self.idle.retain(|it| *it != id);
        self.is_answered = false;
        Some(Question { turn: id, handoff, subscription })
    }

    /// Ends the idle leases that nobody asks for: another lease has to be asked for.
    pub(super) fn end_idle(&mut self) -> Vec<EndedTurn> {
        let idle = std::mem::take(&mut self.idle);
        idle.into_iter()
            .filter_map(|id| {
                self.turns.find(id).filter(|turn| turn.is_idle())?;
                self.turns.end(id)
            })
            .collect()
    }

    /// Keeps a released lease, if its turn lingers and nobody waits. Says whether more tokens are
    /// needed.
    pub(super) fn let_linger(
        &mut self,
        id: TurnId,
        lasts: Duration,
        handoff: impl FnOnce() -> Handoff,
        now: Instant,
    ) -> Option<bool> {
        if !self.waiting.is_empty() {
            return None;
        }
        let turn = self.turns.find(id).filter(|turn| turn.left > 0 && now < turn.ends)?;
        let linger = turn.linger.as_mut().filter(|linger| !linger.is_recalled())?;
        linger.lasts = lasts;
        turn.left -= 1;
        debug_assert!(matches!(turn.state, TurnState::InUse), "its lease was released");
        turn.state = TurnState::Idle { since: now, handoff: handoff() };
        debug_assert!(turn.has_its_tokens(), "a token that the store may give again");
        let is_short = turn.is_short(now);
        debug_assert!(!self.idle.contains(&id), "idle twice");
        self.idle.push_back(id);
        self.last_activity = now;
        Some(is_short)
    }
}
