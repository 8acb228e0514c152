//! Ends idle leases in time, and renews those that are used again and again.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::timeout;

use super::super::queues::{LocalQueues, Queues};
use super::super::spec::QueueName;
use super::super::turns::{EndedTurn, TurnId, TurnState, cancel};
use crate::state::lease::GrantTimes;
use crate::state::telemetry;
use crate::store::{Ask, Lingering, Request, Usage};

/// The longest sleep: timers stand still while the system is suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// How many queues are looked at before other tasks get the thread.
const BATCH: usize = 256;

/// How long after a renewal that was not answered a lease is looked at again.
const UNANSWERED: Duration = Duration::from_millis(50);

impl LocalQueues {
    /// Looks at a queue's idle leases in time, from now on.
    pub(in super::super) fn check_later(self: &Arc<Self>, name: &QueueName, now: Instant) {
        let number = self.number();
        let begins = {
            let mut queues = self.lock();
            let Queues { by_name, checks, .. } = &mut *queues;
            let Some(queue) = by_name.get_mut(name) else { return };
            let Some(at) = queue.next_check(now) else { return };
            if queue.checked.is_none_or(|(before, _)| at < before) {
                // What is due first moves the look at all of them forward.
                if let Some(before) = queue.checked.replace((at, number)) {
                    checks.in_order.remove(&before);
                }
                checks.in_order.insert((at, number), name.clone());
                if checks.wakes_at.is_none_or(|wakes_at| at < wakes_at) {
                    checks.sooner.notify_one();
                }
            }
            !std::mem::replace(&mut checks.is_running, true)
        };
        if begins && !self.client.keeper.spawn(run(Runner(Arc::downgrade(self)))) {
            // Without timers nothing may linger.
            self.lock().checks.is_running = false;
            self.end_lingering();
        }
    }

    /// Looks at the queues that are due. Returns how long to sleep, or `None` if no lease is
    /// idle.
    fn check(self: &Arc<Self>, now: Instant) -> Option<(Duration, Arc<Notify>)> {
        for _ in 0..BATCH {
            let (check, name) = {
                let mut queues = self.lock();
                let checks = &mut queues.checks;
                let Some(first) = checks.in_order.first_entry() else {
                    checks.is_running = false;
                    checks.wakes_at = None;
                    return None;
                };
                let at = first.key().0;
                if at > now {
                    checks.wakes_at = Some(at);
                    return Some((at - now, checks.sooner.clone()));
                }
                first.remove_entry()
            };
            let (mut ended, mut renewed) = (Vec::new(), Vec::new());
            self.change(&name, None, |queue| {
                queue.checked.take_if(|it| *it == check);
                queue.sort_out_idle(now, &mut ended, &mut renewed);
                None::<()>
            });
            cancel(ended);
            for (turn, request) in renewed {
                self.refill(name.clone(), turn, &request, Usage::InUse);
            }
            self.check_later(&name, now);
        }
        // Others get the thread in between.
        Some((Duration::ZERO, Arc::default()))
    }

    /// Reserves more tokens for a lingering turn, and lets its lease last for its whole TTL.
    pub(in super::super) fn refill(
        self: &Arc<Self>,
        name: QueueName,
        turn: TurnId,
        request: &Request,
        usage: Usage,
    ) {
        telemetry::refilled(request);
        let sent = self.now();
        let (ttl, command) = (request.ttl, self.client.store.linger(request, usage));
        let queues = Arc::downgrade(self);
        let answered = async move {
            let answer = match command {
                Some(command) => command.await.ok(),
                None => None,
            };
            let Some(queues) = queues.upgrade() else { return };
            if let Some(Lingering::Kept { token }) = answer {
                let times = GrantTimes::by_command(sent, ttl);
                if let Some(request) = queues.refilled(&name, turn, token, times) {
                    queues.refill(name, turn, &request, Usage::Recalled { in_use: true });
                }
            } else {
                // Others wait, the lease has ended, or nobody knows.
                queues.recall(&name, matches!(answer, Some(Lingering::Wanted)));
            }
        };
        if !self.client.keeper.spawn(answered) {
            self.end_lingering();
        }
    }
}

impl super::super::queue::LocalQueue {
    /// When this queue's idle leases are to be looked at. `None` if there is none.
    fn next_check(&mut self, now: Instant) -> Option<Instant> {
        let idle: Vec<TurnId> = self.idle.iter().copied().collect();
        let times = idle.into_iter().filter_map(|id| self.check_due(id, now));
        times.min().map(|at| at.max(now + Duration::from_millis(1)))
    }

    /// When this idle lease is to be looked at.
    fn check_due(&mut self, id: TurnId, now: Instant) -> Option<Instant> {
        let turn = self.turns.find(id)?;
        let (linger, TurnState::Idle { since, handoff }) = (turn.linger.as_ref()?, &turn.state)
        else {
            return None;
        };
        let ends = *since + linger.lasts;
        // Until a renewal is answered, the next is not due.
        let renewal = if linger.is_refilling { now + UNANSWERED } else { handoff.renewal_due()? };
        Some(ends.min(renewal))
    }

    /// Returns true if the timer looks at the queue by the time that this idle lease needs it.
    pub(in super::super) fn is_checked_in_time(&mut self, id: TurnId, now: Instant) -> bool {
        let due = self.check_due(id, now);
        self.checked.is_some_and(|(at, _)| due.is_none_or(|due| at <= due))
    }

    /// Takes out the leases that were idle for too long, and lists those to be renewed.
    fn sort_out_idle(
        &mut self,
        now: Instant,
        ended: &mut Vec<EndedTurn>,
        renewed: &mut Vec<(TurnId, Request)>,
    ) {
        let idle = std::mem::take(&mut self.idle);
        for id in idle {
            let Some(turn) = self.turns.find(id) else { continue };
            let Some(linger) = &mut turn.linger else { continue };
            let TurnState::Idle { since, ref handoff } = turn.state else { continue };
            let (is_due, is_over) = (handoff.renewal_due() <= Some(now), handoff.is_over(now));
            if since + linger.lasts <= now || is_over {
                ended.extend(self.turns.end(id));
                continue;
            }
            if is_due && !std::mem::replace(&mut linger.is_refilling, true) {
                renewed.extend(handoff.request().map(|request| (id, request.clone())));
            }
            self.idle.push_back(id);
        }
    }
}

/// The task that looks at idle leases. If its runtime ends first, the next one is started when a
/// lease becomes idle.
struct Runner(Weak<LocalQueues>);

impl Drop for Runner {
    fn drop(&mut self) {
        if let Some(queues) = self.0.upgrade() {
            let mut queues = queues.lock();
            queues.checks.is_running = false;
            queues.checks.wakes_at = None;
        }
    }
}

async fn run(mut runner: Runner) {
    loop {
        let Some(queues) = runner.0.upgrade() else { return };
        let Some((sleep, sooner)) = queues.check(queues.now()) else {
            runner.0 = Weak::new();
            return;
        };
        drop(queues);
        if sleep.is_zero() {
            tokio::task::yield_now().await;
        } else {
            let _ = timeout(sleep.min(LONGEST_SLEEP), sooner.notified()).await;
        }
    }
}
