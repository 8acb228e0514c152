//! What follows when a message says that others want a lock: the client asks the store, and
//! only its answer ends a lease. So whoever forges the message causes a question, one at a time
//! for each lease, and nothing else.

use std::sync::Arc;
use std::time::Instant;

use super::super::idle::Question;
use super::super::queue::LocalQueue;
use super::super::queues::LocalQueues;
use super::super::spec::{QueueName, is_of_permits, name};
use super::super::turns::{TURN, TurnId, cancel};
use super::Asking;
use crate::core::key::LockKey;
use crate::hints::RecallListener;
use crate::keeper::UnknownOutcome;
use crate::state::telemetry;
use crate::store::{Ended, Kind, Request, RequestId, Usage};

impl LocalQueues {
    /// Asks the store if others want the leases that linger in these turns of a queue. Until the
    /// answer, nobody takes an idle one up.
    pub(super) fn ask_if_recalled(
        self: &Arc<Self>,
        name: &QueueName,
        is_meant: impl Fn(TurnId) -> bool,
    ) {
        let (mut idle, mut in_use) = (Vec::new(), Vec::new());
        self.change(name, None, |queue| {
            let lingering = queue.turns.lingering();
            for id in lingering.into_iter().filter(|id| is_meant(*id)) {
                let Some(turn) = queue.turns.find(id) else { continue };
                let (is_idle, is_asking) = (turn.is_idle(), turn.is_asking());
                let Some(linger) = &mut turn.linger else { continue };
                if linger.is_recalled() {
                    continue;
                }
                if is_asking || linger.is_refilling {
                    // One question at a time: it asks again after the answer.
                    linger.wanted.note_message();
                } else if is_idle {
                    idle.extend(queue.question(id));
                } else {
                    linger.is_refilling = true;
                    in_use.push((id, linger.request.clone()));
                }
            }
            None::<()>
        });
        for (id, request) in in_use {
            self.refill(name.clone(), id, &request, Usage::Recalled { in_use: true });
        }
        for question in idle {
            self.ask(name, question, Usage::Recalled { in_use: false });
        }
    }

    /// Asks the store about an idle lease. If it stays, it goes to a waiter of this process, or is
    /// idle again.
    pub(in super::super) fn ask(
        self: &Arc<Self>,
        name: &QueueName,
        question: Question,
        usage: Usage,
    ) {
        let Question { turn, handoff, subscription } = question;
        let Some((request, last, times)) = handoff.into_question() else { return };
        let since = times.unanswered_since;
        let about = (self, name.clone(), turn);
        let asking = Asking::new(about, request.clone(), last, since, subscription, usage);
        if let Some(asking) = asking {
            // Whoever is refused meanwhile waits for the answer.
            let counted = self.client.keeper.begin_release(&request.key);
            let settled = settle(self.clone(), name.clone(), asking, usage);
            self.client.keeper.spawn(async move {
                settled.await;
                drop(counted);
            });
        } else {
            self.end(name, turn);
            self.cancel(request, since);
        }
    }

    /// Takes back the request of a lease that nobody uses.
    fn cancel(&self, request: Request, unanswered_since: Option<Instant>) {
        let outcome = UnknownOutcome::new(unanswered_since, self.now());
        self.client.keeper.cancel_later(vec![request.into()], None, outcome);
    }

    /// Gives back the idle leases of a lock that this client itself was refused, perhaps because of them.
    /// Returns true if there were any, or if the store is asked about some.
    pub(crate) fn give_back_idle(self: &Arc<Self>, key: &LockKey) -> bool {
        names(key).map(|name| self.recall(&name, false)).contains(&true)
    }

    /// Ends the idle leases of a queue, and lets those in use be handed on for one more turn. Returns
    /// true if there were idle ones, or some that the store is asked about.
    pub(super) fn recall(self: &Arc<Self>, name: &QueueName, is_wanted: bool) -> bool {
        let now = self.now();
        let (mut ended, mut in_use, mut request) = (Vec::new(), Vec::new(), None);
        let mut were_idle = false;
        self.change(name, None, |queue| {
            let found = queue.turns.lingering();
            for id in found {
                let Some(turn) = queue.turns.find(id) else { continue };
                request = turn.linger.as_ref().map(|linger| linger.request.clone());
                were_idle |= turn.is_idle() || turn.is_asking();
                if turn.is_idle() {
                    ended.extend(queue.turns.end(id));
                } else if turn.recall(now + TURN) {
                    in_use.push(id);
                }
            }
            queue.idle.clear();
            None::<()>
        });
        if let Some(request) = request.filter(|_| is_wanted) {
            self.note_recall(name, &request);
        }
        for id in in_use {
            self.end_later(name, id, now + TURN);
        }
        cancel(ended);
        were_idle
    }

    /// Notes that the store has recalled a lock: it does not linger for a while. Several of its
    /// leases may be recalled together.
    fn note_recall(&self, name: &QueueName, request: &Request) {
        let (now, mut queues) = (self.now(), self.lock());
        if !queues.recalls.is_paused(name, now) {
            queues.recalls.note(name, now);
            drop(queues);
            telemetry::recalled(request.kind, request.key.label());
        }
    }
}

/// The queues of a lock whose leases may linger.
fn names(key: &LockKey) -> [QueueName; 4] {
    let kinds = [Kind::Mutex, Kind::Semaphore { limit: 1, weight: 1 }, Kind::Read, Kind::Write];
    kinds.map(|kind| name(key, kind, None))
}

/// Waits for the answer about an idle lease. A lease of which the store does not say that it stays
/// has ended. If an ask of it got no answer, a late copy of that could grant it again, to nobody.
async fn settle(queues: Arc<LocalQueues>, name: QueueName, asking: Asking, usage: Usage) {
    let (request, unanswered_since) = asking.about();
    let answer = asking.settle().await;
    if matches!(answer, Ok(Some(Ended::Released))) && usage.is_recalled() {
        queues.note_recall(&name, &request);
    }
    let may_come_back = matches!(answer, Ok(Some(_))) && unanswered_since.is_some();
    if answer.is_err() || may_come_back {
        queues.cancel(request, unanswered_since);
    }
}

impl RecallListener for LocalQueues {
    fn recalled(self: Arc<Self>, key: &LockKey) {
        for name in names(key) {
            self.ask_if_recalled(&name, |_| true);
        }
    }

    fn missed(self: Arc<Self>) {
        let now = self.now();
        self.lock().doubted.note(now);
    }

    fn limits_changed(self: Arc<Self>, is_meant: &dyn Fn(&LockKey) -> bool) {
        let is_meant = |name: &QueueName| is_of_permits(name) && is_meant(&name.0);
        let mut names: Vec<QueueName> = self.lock().by_name.keys().cloned().collect();
        names.retain(is_meant);
        for name in names {
            let is_limited = self.is_limited(&name);
            self.change(&name, None, |queue| {
                queue.is_limited = is_limited;
                None::<()>
            });
            if is_limited {
                self.recall(&name, false);
            }
        }
    }

    fn forced(self: Arc<Self>, id: RequestId) {
        let has_it = |queue: &LocalQueue| queue.turns.lingering_as(id);
        let found: Vec<_> = {
            let queues = self.lock();
            let with_turn = |(name, it): (&QueueName, _)| Some((name.clone(), has_it(it)?));
            queues.by_name.iter().filter_map(with_turn).collect()
        };
        for (name, turn) in found {
            self.ask_if_recalled(&name, |id| id == turn);
        }
    }
}
