//! A grant on its way from one lease to the next, inside a process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::spec::LeaseSpec;
use crate::client::Client;
use crate::core::fence::Fence;
use crate::keeper::{ToCancel, UnknownOutcome};
use crate::state::lease::{Grant, GrantTimes, LocalLease, Slot};
use crate::store::{Request, validity};

/// A grant on its way from a released lease to the next waiter of this process. It becomes a lease,
/// or it is [cancelled](Self::cancel).
pub(super) struct Handoff {
    /// Present until it becomes a lease.
    request: Option<Request>,
    fence: Option<Fence>,
    times: GrantTimes,
    /// Its next holder does not renew it.
    needs_whole: bool,
    /// Present until it becomes a lease.
    activity: Option<ClientActivity>,
    /// The place in the keeper's timetable that the last lease has left to the next.
    place: Option<Slot>,
}

/// An activity that its client's shutdown waits for, from its creation to its drop.
pub(crate) struct ClientActivity(Arc<Client>);

impl ClientActivity {
    fn new(client: &Arc<Client>) -> Self {
        client.keeper.shutdown.activity_begins();
        Self(client.clone())
    }
}

impl Drop for ClientActivity {
    fn drop(&mut self) {
        self.0.keeper.shutdown.activity_ends();
    }
}

impl Handoff {
    pub(super) fn new(
        client: &Arc<Client>,
        local: &LocalLease,
        times: GrantTimes,
        place: Option<Slot>,
    ) -> Self {
        let mut handoff = Self::of(client, local.request.clone(), local.fence, times);
        handoff.place = place;
        handoff
    }

    /// The handoff of a request whose last lease had the fencing token `last`.
    pub(super) fn of(
        client: &Arc<Client>,
        request: Request,
        last: Option<Fence>,
        times: GrantTimes,
    ) -> Self {
        Self {
            request: Some(request),
            fence: last.map(|fence| Fence::new(fence.get() + 1)),
            times,
            needs_whole: false,
            activity: Some(ClientActivity::new(client)),
            place: None,
        }
    }

    /// What the store is asked about: the request, the last lease's fencing token, and the times.
    pub(super) fn into_question(mut self) -> Option<(Request, Option<Fence>, GrantTimes)> {
        let request = self.request.take()?;
        if let Some(place) = self.place.take()
            && let Some(ClientActivity(client)) = &self.activity
        {
            client.keeper.give_up_place(place);
        }
        let last = self.fence.map(|fence| Fence::new(fence.get() - 1));
        Some((request, last, self.times))
    }

    pub(super) fn fence(&self) -> Option<Fence> {
        self.fence
    }

    pub(super) fn request(&self) -> Option<&Request> {
        self.request.as_ref()
    }

    /// Returns true if an acquisition asks for just this lease, and enough of its time is left.
    pub(super) fn is_for(&self, spec: &LeaseSpec, ttl: Duration, now: Instant) -> bool {
        let is_same = |request: &Request| {
            request.kind == spec.0 && request.owner == spec.1 && request.ttl == ttl
        };
        self.request.as_ref().is_some_and(is_same) && !self.is_over(now)
    }

    /// Returns true if too little time is left for its next holder.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let times = &self.times;
        let is_enough = |ttl| {
            times.may_be_handed_over(ttl, now) && (!self.needs_whole || times.is_whole(ttl, now))
        };
        !self.ttl().is_some_and(is_enough)
    }

    /// Notes whether its next holder needs the whole TTL, because it does not renew it.
    pub(super) fn set_needs_whole(&mut self, needs_whole: bool) {
        self.needs_whole = needs_whole;
    }

    pub(super) fn times(&self) -> GrantTimes {
        self.times
    }

    /// When its lease is to be renewed while it lingers: after a third of its time, as a keeper
    /// does.
    pub(super) fn renewal_due(&self) -> Option<Instant> {
        self.confirmed()?.checked_add(self.ttl()? / 3)
    }

    /// When the store last confirmed its lease.
    pub(super) fn confirmed(&self) -> Option<Instant> {
        self.times.deadline.checked_sub(validity(self.ttl()?))
    }

    /// Notes a later deadline.
    pub(super) fn extend(&mut self, deadline: Instant) {
        self.times.deadline = self.times.deadline.max(deadline);
    }

    pub(super) fn ttl(&self) -> Option<Duration> {
        self.request.as_ref().map(|request| request.ttl)
    }

    /// The grant, from now on. The caller makes a lease of it, and drops the guard after that.
    pub(super) fn into_grant(mut self, now: Instant) -> Option<(Grant, ClientActivity)> {
        debug_assert!(!self.is_over(now), "its next holder would lose it at once");
        let (request, activity) = (self.request.take()?, self.activity.take()?);
        let times = GrantTimes { sent: now, ..self.times };
        let place = self.place.take();
        Some((Grant { request, fence: self.fence, times, tick: None, place }, activity))
    }

    /// Cancels its request: nobody takes it up.
    pub(super) fn cancel(mut self) {
        self.give_up();
    }

    fn give_up(&mut self) {
        if let Some(request) = self.request.take()
            && let Some(ClientActivity(client)) = &self.activity
        {
            if let Some(place) = self.place.take() {
                client.keeper.give_up_place(place);
            }
            let outcome = UnknownOutcome::new(self.times.unanswered_since, client.store.now());
            client.keeper.cancel_later(vec![ToCancel::Idle(request)], None, outcome);
        }
    }
}

impl Drop for Handoff {
    /// A backstop: its queue is dropped with the client, or a task is dropped before it has made a
    /// lease of it.
    fn drop(&mut self) {
        self.give_up();
    }
}
