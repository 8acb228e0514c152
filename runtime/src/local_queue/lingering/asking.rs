//! Asking the store whether a released lease may stay with this process.

use std::sync::Arc;
use std::time::Instant;

use tokio::time::timeout;

use super::super::queues::LocalQueues;
use super::super::spec::QueueName;
use super::super::turns::TurnId;
use crate::core::error::Outcome;
use crate::core::fence::Fence;
use crate::core::timers::runtime_with_timers;
use crate::keeper::UnknownOutcome;
use crate::state::lease::GrantTimes;
use crate::state::shutdown::ActivityGuard;
use crate::store::{
    Ask, Ended, Lingering, Reply, Request, SUBSCRIBING, StoreError, StoreFuture, Subscription,
    Usage,
};

/// A lease that nobody uses here, and whose request the store is asked to let linger. If it is
/// dropped before the answer, the keeper cancels the request.
pub(crate) struct Asking {
    queues: Arc<LocalQueues>,
    name: QueueName,
    turn: TurnId,
    request: Request,
    fence: Option<Fence>,
    /// When the first ask for the lease was sent that got no answer, if there was one.
    unanswered_since: Option<Instant>,
    sent: Instant,
    /// In a store where each lock needs a subscription, it comes before the command.
    subscribing: Option<StoreFuture<Subscription>>,
    subscription: Option<Subscription>,
    /// Present from when it is sent until it has its answer.
    command: Option<Reply<Lingering>>,
    is_settled: bool,
    _activity: ActivityGuard,
}

impl Asking {
    /// Sends the command. `None` if the store has none for it.
    pub(super) fn new(
        (queues, name, turn): (&Arc<LocalQueues>, QueueName, TurnId),
        request: Request,
        fence: Option<Fence>,
        unanswered_since: Option<Instant>,
        subscription: Option<Subscription>,
        usage: Usage,
    ) -> Option<Self> {
        let store = &queues.client.store;
        let sent = store.now();
        let mut subscribing = None;
        if store.can_linger(&request) && subscription.is_none() {
            subscribing = store.subscribe(&request);
        }
        let command =
            if subscribing.is_none() { Some(store.linger(&request, usage)?) } else { None };
        let activity = ActivityGuard::new(&queues.client.keeper.shutdown);
        Some(Self {
            queues: queues.clone(),
            name,
            turn,
            request,
            fence,
            unanswered_since,
            sent,
            subscribing,
            subscription,
            command,
            is_settled: false,
            _activity: activity,
        })
    }

    /// The request, and when the first ask for its lease was sent that got no answer.
    pub(super) fn about(&self) -> (Request, Option<Instant>) {
        (self.request.clone(), self.unanswered_since)
    }

    /// Waits for the answer. `None` if the lease is idle now, or went to a waiter of this
    /// process; otherwise how it ended on the store.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped, the keeper cancels the request after the command.
    pub(crate) async fn settle(mut self) -> Result<Option<Ended>, StoreError> {
        // Without timers it does not wait, and releases.
        if runtime_with_timers().is_none() {
            self.subscribing = None;
        }
        if let Some(subscribing) = &mut self.subscribing {
            // A lease that is released late keeps the lock from others, and one that lingers only
            // saves a command.
            let patience = SUBSCRIBING.min(self.request.ttl / 4);
            let subscribed = timeout(patience, subscribing).await;
            self.subscribing = None;
            self.subscription = subscribed.ok().and_then(Result::ok);
            if self.subscription.is_some() {
                self.sent = self.queues.now();
                self.command = self.queues.client.store.linger(&self.request, Usage::Ended);
            }
        }
        let Some(command) = &mut self.command else {
            // Without messages the lock could not be recalled.
            self.is_settled = true;
            self.queues.end(&self.name, self.turn);
            return Err(no_hints());
        };
        let answer = command.await;
        (self.command, self.is_settled) = (None, true);
        if let Ok(Lingering::Kept { token }) = answer {
            let times = GrantTimes::by_command(self.sent, self.request.ttl);
            let unanswered_since = self.unanswered_since;
            let times = GrantTimes { unanswered_since, may_be_refilled: true, ..times };
            let turn = (&self.name, self.turn);
            let subscription = self.subscription.take();
            self.queues.keep(turn, &self.request, self.fence, times, token, subscription);
            return Ok(None);
        }
        self.queues.end(&self.name, self.turn);
        match answer? {
            Lingering::Ended(ended) => Ok(Some(ended)),
            // Only of a lease in use.
            Lingering::Wanted | Lingering::Kept { .. } => Ok(Some(Ended::Released)),
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if !self.is_settled {
            // In this order: who asks the store next knows of the cancel.
            let outcome = UnknownOutcome::new(self.unanswered_since, self.sent);
            let requests = vec![self.request.clone().into()];
            self.queues.client.keeper.cancel_later(
                requests,
                self.command.take().map(Reply::of_any),
                outcome,
            );
            self.queues.end(&self.name, self.turn);
        }
    }
}

/// The lock can't be recalled, so it is released instead.
fn no_hints() -> StoreError {
    StoreError {
        outcome: Outcome::NotRun,
        is_passing: true,
        is_shut_down: false,
        source: "the lock store sends no messages now".into(),
    }
}
