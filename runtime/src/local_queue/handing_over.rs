//! Handing a released lease to the next waiter of this process, for the time of a turn.
//!
//! A turn ends in time even if the callers' runtimes stall: over Redis the keeper ends it. A
//! lease that was handed over and not taken up by then is cancelled.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::handoff::{ClientActivity, Handoff};
use super::queue::{AdmissionState, LocalQueue, QueuedWaiter};
use super::queues::{End, LocalQueues};
use super::spec::{LeaseSpec, QueueName, RequestName, name, weight};
use super::turns::{TURN, TurnId, TurnState, cancel};
use crate::core::key::LockKey;
use crate::state::lease::{Grant, GrantTimes, LocalLease, Slot};
use crate::store::{Kind, Request, Usage};

impl LocalQueues {
    /// Notes that the store has granted an acquisition. If waiters here may have its lease
    /// next, a turn begins.
    pub(super) fn begin_turn(
        self: &Arc<Self>,
        name: &QueueName,
        spec: &LeaseSpec,
        ttl: Duration,
        generation: u64,
    ) -> Option<TurnId> {
        let can_be = self.hands_over && matches!(spec.0, Kind::Mutex | Kind::Semaphore { .. });
        let turn = self.change(name, None, |queue| {
            queue.dismiss(spec.0, generation);
            queue.is_answered = true;
            // Under a limit of an operator each permit is asked for.
            if !can_be || queue.is_limited || !queue.first_suits(spec, ttl, true) {
                return None;
            }
            let (id, ends) = (self.number(), self.now() + TURN);
            queue.turns.begin(id, weight(spec.0), ends);
            Some((id, ends))
        });
        let (id, ends) = turn?;
        self.end_later(name, id, ends).then_some(id)
    }

    /// Ends a turn in time. False if it has ended now, because there are no timers.
    pub(super) fn end_later(self: &Arc<Self>, name: &QueueName, id: TurnId, ends: Instant) -> bool {
        let is_timed = self.time(name, End::Turn(id), ends);
        if !is_timed {
            self.end(name, id);
        }
        is_timed
    }

    /// Notes what ends at a time, which is a turn's time from now. False if there are no timers.
    pub(super) fn time(self: &Arc<Self>, name: &QueueName, end: End, ends: Instant) -> bool {
        let is_timed = {
            let ends_of_all = &mut self.lock().ends;
            ends_of_all.in_order.push_back((ends, name.clone(), end));
            std::mem::replace(&mut ends_of_all.is_timed, true)
        };
        let is_timed =
            is_timed || self.client.keeper.spawn(end_in_time(Timer(Arc::downgrade(self))));
        if !is_timed {
            self.lock().ends.is_timed = false;
        }
        is_timed
    }

    /// Hands a lease that has just ended to the first waiter, if that asks for the same. The
    /// caller then wakes the waiter. If nobody waits, the lease of a lingering turn is idle from
    /// now on, for as long as it `lingers` itself. `None` if the lease is to be released. `place`
    /// gives the lease's place in the keeper's timetable, which the next lease has after it.
    pub(crate) fn hand_over(
        self: &Arc<Self>,
        turn: TurnId,
        local: &LocalLease,
        times: GrantTimes,
        lingers: Duration,
        place: impl FnOnce() -> Option<Slot>,
    ) -> Option<HandedOver> {
        let request = &local.request;
        let name = RequestName(&request.key, request.kind, request.owner.as_ref());
        let spec = (request.kind, request.owner.clone());
        let now = times.sent;
        let handoff = || Handoff::new(&self.client, local, times, place());
        let (waiter, is_short, is_checked_in_time) = {
            let mut queues = self.lock();
            let queue = Self::queue_of(&mut queues, &name)?;
            let lasts = (request.ttl, &times);
            if let Some(waiter) = queue.next_in_turn(turn, &spec, lasts, now) {
                let running = queue.turns.find(turn)?;
                running.left -= 1;
                debug_assert!(matches!(running.state, TurnState::InUse), "its lease was released");
                running.state = TurnState::HandedOver(handoff());
                running.set_needs_whole(waiter.whole);
                debug_assert!(running.has_its_tokens(), "a token that the store may give again");
                queue.last_activity = now;
                (Some(waiter), running.is_short(now), true)
            } else if !lingers.is_zero() && self.may_linger(request) {
                let is_short = queue.let_linger(turn, lingers, handoff, now)?;
                (None, is_short, queue.is_checked_in_time(turn, now))
            } else {
                return None;
            }
        };
        if !is_checked_in_time {
            self.check_later(&name.owned(), now);
        }
        if is_short {
            self.refill(name.owned(), turn, request, Usage::InUse);
        }
        let next = waiter.map(|waiter| {
            let (queues, name) = (self.clone(), name.owned());
            Next { queues, name, waiter, turn }
        });
        Some(HandedOver { next })
    }

    /// Takes up the lease that was handed over. `None` if its turn has ended, or if the waiter was
    /// woken long ago.
    pub(super) fn take_up(&self, name: &QueueName, id: TurnId) -> Option<(Grant, ClientActivity)> {
        let now = self.now();
        let (handoff, is_late) = self.change(name, None, |queue| {
            let turn = queue.turns.find(id)?;
            let is_over = turn.handoff().is_some_and(|handoff| handoff.is_over(now));
            let is_late = is_over || now >= turn.ends;
            Some((turn.take_up()?, is_late))
        })?;
        if is_late {
            // In this order: who asks the store next knows of the cancel.
            handoff.cancel();
            self.end(name, id);
            return None;
        }
        handoff.into_grant(now)
    }

    /// Ends a turn: the next waiter asks the store.
    pub(crate) fn end_turn(&self, request: &Request, id: TurnId) {
        let name = name(&request.key, request.kind, request.owner.as_ref());
        self.end(&name, id);
    }

    /// Ends a turn, and cancels its lease if it was not taken up.
    pub(super) fn end(&self, name: &QueueName, id: TurnId) {
        cancel(self.change(name, None, |queue| queue.turns.end(id)));
    }

    /// Ends all turns of a lock: earlier grants are no longer handed over.
    pub(crate) fn end_turns(&self, key: &LockKey) {
        for kind in [Kind::Mutex, Kind::Semaphore { limit: 1, weight: 1 }, Kind::Read, Kind::Write]
        {
            let end = |queue: &mut LocalQueue| Some(queue.turns.end_all());
            cancel(self.change(&name(key, kind, None), None, end).into_iter().flatten());
        }
    }

    /// The next end that has come.
    fn next_over(&self, now: Instant) -> Option<(QueueName, End)> {
        let in_order = &mut self.lock().ends.in_order;
        in_order.front().filter(|(ends, ..)| *ends <= now)?;
        in_order.pop_front().map(|(_, name, end)| (name, end))
    }
}

/// A lease that is handed over, before its waiter is woken.
#[must_use = "the next waiter must be woken"]
pub(crate) struct HandedOver {
    /// `None` if nobody waited: the lease is idle.
    next: Option<Next>,
}

/// The waiter that has the lease next.
struct Next {
    queues: Arc<LocalQueues>,
    name: QueueName,
    waiter: QueuedWaiter,
    turn: TurnId,
}

impl HandedOver {
    /// Wakes the waiter. If it is gone, the lease goes to the next. False if nobody waited, and
    /// the lease is idle.
    pub(crate) fn wake(self) -> bool {
        let Some(Next { queues, name, waiter, turn }) = self.next else { return false };
        queues.admit(&name, waiter, AdmissionState::InTurn(turn).into());
        true
    }
}

/// The task that ends turns. If its runtime ends first, the next turn starts another task.
struct Timer(Weak<LocalQueues>);

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(queues) = self.0.upgrade() {
            queues.lock().ends.is_timed = false;
        }
    }
}

/// Ends turns that have run out of time, so that other waiters may ask the store. The holder
/// may keep its lease for longer, and a waiter may never take it up.
async fn end_in_time(mut timer: Timer) {
    let mut left = TURN;
    loop {
        sleep(left).await;
        let Some(queues) = timer.0.upgrade() else { return };
        let now = queues.now();
        while let Some((name, end)) = queues.next_over(now) {
            match end {
                End::Turn(id) => queues.end(&name, id),
                End::Patience(number) => {
                    if queues.lose_patience(&name, number) {
                        queues.be_patient(&name, number);
                    }
                }
            }
        }
        let ends = &mut queues.lock().ends;
        if let Some((first, ..)) = ends.in_order.front() {
            left = first.saturating_duration_since(now);
        } else {
            ends.is_timed = false;
            timer.0 = Weak::new();
            return;
        }
    }
}
