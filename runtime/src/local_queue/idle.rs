//! The idle leases of one queue.

use std::time::{Duration, Instant};

use super::handoff::Handoff;
use super::queue::LocalQueue;
use super::spec::LeaseSpec;
use super::turns::{TakenUp, Turn, TurnId};

impl LocalQueue {
    /// Takes the idle lease that was used last, for an acquisition that asks for the same.
    pub(super) fn take_idle(
        &mut self,
        spec: &LeaseSpec,
        ttl: Duration,
        now: Instant,
    ) -> Option<TakenUp> {
        while let Some(&id) = self.idle.back() {
            let idle = self.turns.find(id).filter(|turn| turn.is_idle());
            if let Some(turn) = idle {
                turn.handoff.as_ref().filter(|handoff| handoff.is_for(spec, ttl, now))?;
                let (grant, activity) = turn.handoff.take()?.into_grant(now)?;
                turn.linger.as_mut()?.idle_since = None;
                self.idle.pop_back();
                return Some(TakenUp { grant, turn: id, activity });
            }
            // It has ended.
            self.idle.pop_back();
        }
        None
    }

    /// Ends the idle leases that nobody asks for: another lease has to be asked for.
    pub(super) fn end_idle(&mut self) -> Vec<Turn> {
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
        let linger = turn.linger.as_mut().filter(|linger| !linger.is_recalled)?;
        (linger.lasts, linger.idle_since) = (lasts, Some(now));
        turn.left -= 1;
        turn.handoff = Some(handoff());
        let is_short = turn.is_short(now);
        self.idle.push_back(id);
        self.last_activity = now;
        Some(is_short)
    }
}
