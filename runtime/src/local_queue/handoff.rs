//! A grant on its way from one lease to the next, inside a process.

use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
use crate::core::fence::Fence;
use crate::keeper::UnknownOutcome;
use crate::state::lease::{Grant, GrantTimes, LocalLease};
use crate::state::shutdown::ActivityGuard;
use crate::store::{Request, StoreFuture};

/// A grant on its way from a released lease to the next waiter of this process. If it is
/// dropped before it becomes a lease, it is cancelled.
pub(super) struct Handoff {
    client: Arc<Client>,
    /// Present until it becomes a lease.
    request: Option<Request>,
    fence: Option<Fence>,
    times: GrantTimes,
    /// Present until it becomes a lease.
    activity: Option<ActivityGuard>,
}

impl Handoff {
    pub(super) fn new(client: &Arc<Client>, local: &LocalLease, times: GrantTimes) -> Self {
        Self {
            client: client.clone(),
            request: Some(local.request.clone()),
            fence: local.fence.map(|fence| Fence::new(fence.get() + 1)),
            times,
            activity: Some(ActivityGuard::new(&client.keeper.shutdown)),
        }
    }

    pub(super) fn ttl(&self) -> Option<Duration> {
        self.request.as_ref().map(|request| request.ttl)
    }

    /// The grant, from now on. The caller makes a lease of it, and drops the guard after that.
    pub(super) fn into_grant(mut self) -> Option<(Grant, ActivityGuard)> {
        let (request, activity) = (self.request.take()?, self.activity.take()?);
        let times = GrantTimes { sent: self.client.store.now(), ..self.times };
        Some((Grant { request, fence: self.fence, times }, activity))
    }
}

impl Drop for Handoff {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            let outcome = UnknownOutcome::new(self.times.unanswered_since, self.client.store.now());
            self.client.keeper.cancel_later(vec![request], None::<StoreFuture<()>>, outcome);
        }
    }
}
