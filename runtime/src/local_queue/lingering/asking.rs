//! Asking the store whether a released lease may stay with this process.

use std::sync::Arc;
use std::time::Instant;

use super::super::queue::QueueName;
use super::super::queues::LocalQueues;
use super::super::turns::TurnId;
use crate::core::error::Outcome;
use crate::core::fence::Fence;
use crate::keeper::UnknownOutcome;
use crate::state::lease::GrantTimes;
use crate::state::shutdown::ActivityGuard;
use crate::store::{Ended, Lingering, Request, StoreError, StoreFuture};

/// A lease that has ended here, and whose request the store is asked to let linger. If it is
/// dropped before the answer, the keeper cancels the request.
pub(crate) struct Asking {
    queues: Arc<LocalQueues>,
    name: QueueName,
    turn: TurnId,
    request: Request,
    fence: Option<Fence>,
    times: GrantTimes,
    sent: Instant,
    /// Present until it has its answer.
    command: Option<StoreFuture<Lingering>>,
    _activity: ActivityGuard,
}

impl Asking {
    /// Sends the command. `None` if the store has none for it.
    pub(super) fn new(
        queues: &Arc<LocalQueues>,
        name: QueueName,
        turn: TurnId,
        request: Request,
        fence: Option<Fence>,
        times: GrantTimes,
    ) -> Option<Self> {
        let store = &queues.client.store;
        let sent = store.now();
        let command = store.linger(&request, false)?;
        let activity = ActivityGuard::new(&queues.client.keeper.shutdown);
        let (queues, command) = (queues.clone(), Some(command));
        Some(Self { queues, name, turn, request, fence, times, sent, command, _activity: activity })
    }

    /// Waits for the answer. `None` if the lease is idle now, or went to a waiter of this
    /// process; otherwise how it ended on the store.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped, the keeper cancels the request after the command.
    pub(crate) async fn settle(mut self) -> Result<Option<Ended>, StoreError> {
        let Some(command) = &mut self.command else { return Ok(None) };
        let answer = command.await;
        if let Err(error) = &answer
            && error.outcome == Outcome::Unknown
        {
            // It may still arrive, and would make an ended lease last longer: the caller's
            // release comes after it.
            self.times.unanswered_since.get_or_insert(self.sent);
        }
        self.command = None;
        if let Ok(Lingering::Kept { token }) = answer {
            let times = GrantTimes::by_command(self.sent, self.request.ttl);
            let times = GrantTimes { unanswered_since: self.times.unanswered_since, ..times };
            self.queues.keep((&self.name, self.turn), &self.request, self.fence, times, token);
            return Ok(None);
        }
        self.queues.end_asking(&self.name, self.turn);
        match answer? {
            Lingering::Ended(ended) => Ok(Some(ended)),
            // Only of a lease in use.
            Lingering::Wanted | Lingering::Kept { .. } => Ok(Some(Ended::Released)),
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(command) = self.command.take() {
            self.queues.end_asking(&self.name, self.turn);
            let outcome = UnknownOutcome::new(self.times.unanswered_since, self.sent);
            let requests = vec![self.request.clone()];
            self.queues.client.keeper.cancel_later(requests, Some(command), outcome);
        }
    }
}
