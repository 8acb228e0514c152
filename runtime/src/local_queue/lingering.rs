//! Lingering: a released lease stays with this process, idle, and the next acquisition here takes
//! it up without the store.
//!
//! A lingering lease is a turn that the store prolongs. It begins when the store has noted that the
//! client may keep the lock. It ends when the store *recalls* it, because another client wants the
//! lock; when its lease was idle for too long, or can't be handed on; when a task here has waited
//! for a turn, or needs another lease; or at the shutdown. A recalled lease that is in use may be
//! handed on as in any other turn. A message only makes the client ask the store whether it was
//! recalled: everybody who may publish can forge one. See [`recalling`].
//!
//! A lock that was recalled does not linger for a pause, which doubles with each recall that
//! follows soon. Otherwise two processes that alternate would recall each other's leases for ever.
//!
//! After the file cache of Chubby, the lock cache of GFS2, and NFS delegations.

mod asking;
mod recalling;
mod timer;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) use self::asking::Asking;
use super::handoff::Handoff;
use super::linger::{Linger, refill_at};
use super::queue::AdmissionState;
use super::queues::{End, LocalQueues};
use super::spec::{QueueName, lingering_weight, name};
use super::turns::{EndedTurn, TURN, TurnId, TurnState, cancel};
use crate::core::fence::Fence;
use crate::state::lease::{GrantTimes, LocalLease};
use crate::store::{Request, Subscription, TOKENS, Usage};

impl LocalQueues {
    /// Begins a lingering turn for a lease that has just ended, if it may linger here, and asks the
    /// store. The caller waits for the answer.
    pub(crate) fn begin_lingering(
        self: &Arc<Self>,
        local: &LocalLease,
        times: GrantTimes,
        turn: Option<TurnId>,
        lasts: Duration,
    ) -> Option<Asking> {
        if !self.may_linger(&local.request) {
            return None;
        }
        let request = local.request.clone();
        let name = name(&request.key, request.kind, request.owner.as_ref());
        let now = self.now();
        let subscription;
        let id = {
            let mut queues = self.lock();
            let is_paused = queues.recalls.is_paused(&name, now);
            let queue = self.queue(&mut queues, &name, now);
            // A task that asks was here before those to come. Where several may hold the lock, it asks
            // for another lease than this one.
            let is_asked_for = queue.askers > 0 && request.kind.is_fenced();
            let may = !is_paused && queue.waiting.is_empty() && !is_asked_for;
            if !may {
                if queue.is_idle() {
                    queues.by_name.remove(&name);
                }
                return None;
            }
            // Its lease was in use, so there is no handoff.
            let before = turn.and_then(|turn| queue.turns.end(turn));
            subscription = before.and_then(EndedTurn::into_subscription);
            let id = self.number();
            queue.turns.begin_lingering(
                id,
                lingering_weight(request.kind),
                now,
                Linger::asking(lasts, &request),
            );
            id
        };
        // After the turn has begun, or a recall could be missed.
        let asking = Asking::new(
            (self, name.clone(), id),
            request,
            local.fence,
            times.unanswered_since,
            subscription,
            Usage::Ended,
        );
        if asking.is_none() {
            self.end(&name, id);
        }
        asking
    }

    /// The store lets the lease stay: it goes to a waiter of this process, or is idle from now
    /// on. A lease that can't be handed on is cancelled.
    fn keep(
        self: &Arc<Self>,
        (name, id): (&QueueName, TurnId),
        request: &Request,
        fence: Option<Fence>,
        times: GrantTimes,
        block_start: u64,
        subscription: Option<Subscription>,
    ) {
        let handoff = Handoff::of(&self.client, request.clone(), fence, times);
        let now = self.now();
        let (mut handoff, mut heard_message) = (Some(handoff), false);
        // What is left of these is dropped once the queue is unlocked.
        let mut subscription = subscription;
        let waiter = self.change(name, None, |queue| {
            let may_linger = self.may_linger(request);
            let has_waiters = !queue.waiting.is_empty();
            let spec = (request.kind, request.owner.clone());
            // The answer may have been there for long: nobody polled the release.
            let is_over = !times.may_be_handed_over(request.ttl, now);
            let suits = queue.first_suits(&spec, request.ttl, times.is_whole(request.ttl, now));
            let turn = queue.turns.find(id)?;
            let TurnState::Asking { idle_since } = turn.state else { return None };
            let linger = turn.linger.as_mut()?;
            // An unfenced lease has no tokens to run out of.
            turn.left = fence.map_or(u64::MAX, |fence| {
                linger.last_token = block_start + TOKENS - 1;
                linger.last_token.saturating_sub(fence.get())
            });
            linger.refill_below = turn.left / 2;
            heard_message = linger.wanted.take_message();
            linger.subscription = subscription.take();
            // The store tells this client of others only until its note expires.
            turn.ends = times.deadline;
            linger.confirmed = Some(times.sent);
            linger.refill_at = Some(refill_at(times));
            let may_stay = turn.left > 0 && !linger.is_recalled() && may_linger && !is_over;
            if !may_stay || has_waiters && !suits {
                return None;
            }
            turn.left -= 1;
            queue.last_activity = now;
            let handoff = handoff.take()?;
            if let Some(first) = queue.waiting.pop_front() {
                turn.state = TurnState::HandedOver(handoff);
                turn.set_needs_whole(first.whole);
                return Some(first);
            }
            // A question to the store does not start its idle time anew.
            turn.state = TurnState::Idle { since: idle_since.unwrap_or(now), handoff };
            queue.idle.push_back(id);
            None
        });
        if let Some(handoff) = handoff {
            // In this order: who asks the store next knows of the cancel.
            handoff.cancel();
            self.end(name, id);
        }
        match waiter {
            Some(waiter) => self.admit(name, waiter, AdmissionState::InTurn(id).into()),
            None => self.check_later(name, now),
        }
        if heard_message {
            self.ask_if_recalled(name, |turn| turn == id);
        }
    }

    /// More tokens and a later deadline for a lingering turn. Returns its request if the store is
    /// to be asked again, because a message said meanwhile that others want the lock.
    fn refilled(
        &self,
        name: &QueueName,
        id: TurnId,
        block_start: u64,
        times: GrantTimes,
    ) -> Option<Request> {
        let mut queues = self.lock();
        let queue = queues.by_name.get_mut(name)?;
        let turn = queue.turns.find(id)?;
        let linger = turn.linger.as_mut()?;
        let heard_message = linger.wanted.take_message();
        linger.is_refilling = heard_message;
        let again = heard_message.then(|| linger.request.clone());
        linger.confirmed = linger.confirmed.max(Some(times.sent));
        linger.refill_at = Some(refill_at(times));
        if !linger.is_recalled() {
            turn.ends = turn.ends.max(times.deadline);
        }
        let last_token = block_start + TOKENS - 1;
        // An unfenced lease has no tokens to add.
        if turn.left <= u64::MAX / 2 && linger.last_token > 0 {
            turn.left += last_token.saturating_sub(linger.last_token);
            linger.last_token = linger.last_token.max(last_token);
            linger.refill_below = turn.left / 2;
        }
        turn.extend(times.deadline);
        again
    }

    /// Notes that a task waits behind a lease that lingers here. After a turn the first waiter asks
    /// the store, so that this client has its place before whoever comes later elsewhere. Without
    /// timers it asks at once.
    pub(super) fn be_patient(self: &Arc<Self>, name: &QueueName, number: u64) {
        if !self.time(name, End::Patience(number), self.now() + TURN) {
            let _ = self.lose_patience(name, number);
        }
    }

    /// Ends the lingering turns whose lease is in use, if this waiter still waits: their holders
    /// release to the store. Returns true if other turns linger here, whose lease the waiter may get:
    /// its time begins anew.
    pub(super) fn lose_patience(&self, name: &QueueName, number: u64) -> bool {
        let mut others_linger = false;
        let ended: Option<Vec<EndedTurn>> = self.change(name, None, |queue| {
            if !queue.waits(number) {
                return None;
            }
            let lingering = queue.turns.lingering();
            let ended = lingering.into_iter().filter_map(|id| queue.turns.end_in_use(id));
            let ended = ended.collect();
            others_linger = !queue.turns.lingering().is_empty();
            Some(ended)
        });
        // Their leases are in use, so this sends nothing.
        cancel(ended.into_iter().flatten());
        others_linger
    }

    /// Returns true if leases of such a request may linger here. Where an operator has set a limit, each
    /// permit is asked for.
    pub(super) fn may_linger(&self, request: &Request) -> bool {
        let may = self.hands_over && !self.has_stopped.load(Ordering::SeqCst);
        may && !self.client.limits.are_set_for(&request.key)
    }

    /// Ends the lingering of a turn as a recall does: within the time of a turn.
    pub(crate) fn stop_lingering(self: &Arc<Self>, request: &Request, id: TurnId) {
        let name = name(&request.key, request.kind, request.owner.as_ref());
        let ends = self.now() + TURN;
        let is_recalled = self.change(&name, None, |queue| {
            let turn = queue.turns.find(id)?;
            turn.recall(ends).then_some(())
        });
        if is_recalled.is_some() {
            self.end_later(&name, id, ends);
        }
    }

    /// Ends all idle leases, lets those in use be handed on for one more turn, and lets no lease
    /// linger from now on.
    pub(crate) fn stop_all_lingering(self: &Arc<Self>) {
        self.has_stopped.store(true, Ordering::SeqCst);
        // Another thread may have held the lock at the moment of the fork.
        if !self.is_forked() {
            self.end_lingering();
        }
    }

    /// Ends all idle leases, and lets those in use be handed on for one more turn.
    pub(super) fn end_lingering(self: &Arc<Self>) {
        let names: Vec<QueueName> = self.lock().by_name.keys().cloned().collect();
        for name in names {
            self.recall(&name, false);
        }
    }
}
