//! A request under way. Whatever happens to its caller, it leaves no lease that
//! nobody knows of.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Client;
use super::in_flight::InFlight;
use crate::core::error::Outcome;
use crate::core::fence::Fence;
use crate::core::key::LockKey;
use crate::hints::{Message, Offer, Route};
use crate::state::lease::{Grant, GrantTimes};
use crate::store::{
    Attempt, Kind, LIVE, OFFER, QueuePosition, Request, Stamp, StoreError, StoreFuture,
    Subscription, Waiting, Wanted, validity,
};

/// A waiter whose wait ends before that leaves, and needs to be known for little
/// longer than it waits.
const LIVE_BEYOND: Duration = Duration::from_millis(500);

/// An offer that ends sooner than it may take to confirm it is not relied on.
const MIN_LEFT_OF_OFFER: Duration = Duration::from_millis(50);

/// One request, from its first command until it is granted or given up.
pub(crate) struct PendingRequest {
    in_flight: InFlight<Attempt>,
    request: Request,
    is_waiting: bool,
    /// Where it hears of offers; a call that does not wait hears nothing.
    route: Option<Route>,
    /// When it first asked.
    first_asked: Option<Instant>,
    /// For how long it is known to live after its last ask, and the TTL of that.
    live: Duration,
    ttl: Duration,
    position: Option<u64>,
    heartbeat: Option<Heartbeat>,
    /// Until when an offer lasts if it was confirmed by the first of the asks that
    /// had no answer since.
    confirmed_until: Option<Instant>,
    subscription: SubscriptionState,
}

/// The last ask that was answered *queued*: by it an offer is known, and when it ends.
#[derive(Clone, Copy)]
struct Heartbeat {
    sent: Instant,
    live: Duration,
    until: Stamp,
}

/// Where hints are subscribed to lock by lock.
enum SubscriptionState {
    /// There is no need.
    Done(#[expect(dead_code, reason = "it is held, not read")] Option<Subscription>),
    /// Only once the lock is found held: a free one costs no subscription.
    Later(StoreFuture<Subscription>),
    /// It could not be had: it asks often instead.
    Failed,
}

impl PendingRequest {
    /// A request that does not wait.
    pub(crate) fn new(client: &Arc<Client>, wanted: Wanted, ttl: Duration) -> Self {
        let Wanted { key, kind, owner } = wanted;
        let request = Request { key, id: client.next_request(), kind, owner, ttl };
        Self {
            in_flight: InFlight::new(client),
            request,
            is_waiting: false,
            route: None,
            first_asked: None,
            live: Duration::ZERO,
            ttl,
            position: None,
            heartbeat: None,
            confirmed_until: None,
            subscription: SubscriptionState::Done(None),
        }
    }

    /// A request that may wait. Its route is there before its first command is
    /// sent: an offer may arrive before the answer does.
    pub(crate) fn waiting(client: &Arc<Client>, wanted: Wanted, ttl: Duration) -> Self {
        let mut pending = Self::new(client, wanted, ttl);
        pending.is_waiting = true;
        if client.store.has_queue() {
            pending.route = Some(client.hints.route(&pending.request));
        }
        if let Some(subscription) = client.store.subscribe(&pending.request) {
            pending.subscription = SubscriptionState::Later(subscription);
        }
        pending
    }

    /// Whether it may be asked for again with this TTL: an ask that had no answer could
    /// set another one at any time.
    pub(crate) fn can_use_ttl(&self, ttl: Duration) -> bool {
        ttl == self.request.ttl || self.in_flight.in_doubt_since().is_none()
    }

    /// The same request for another acquisition.
    pub(crate) fn with_ttl(mut self, ttl: Duration) -> Self {
        self.request.ttl = ttl;
        self
    }

    pub(crate) fn key(&self) -> &LockKey {
        &self.request.key
    }

    pub(crate) fn now(&self) -> Instant {
        self.client().store.now()
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.client().keeper.shutdown.has_begun()
    }

    fn client(&self) -> &Arc<Client> {
        &self.in_flight.client
    }

    /// Whether an offer would be heard of.
    pub(crate) fn hears_hints(&self) -> bool {
        self.in_flight.client.store.gives_hints()
            && !matches!(self.subscription, SubscriptionState::Failed)
    }

    /// Whether there is something to be taken back, or to be inherited.
    pub(crate) fn is_begun(&self) -> bool {
        self.in_flight.is_begun()
    }

    /// Asks once; if there is time left to wait, the request joins the queue.
    pub(crate) async fn ask(&mut self, left: Duration) -> Result<Attempt, StoreError> {
        // Who reads may try to write, and not wait for it: by a try it would be had. So
        // who waits for that never asks as one who tries.
        let may_upgrade = self.request.kind == Kind::Write && self.request.owner.is_some();
        let is_waiting = self.is_waiting && (may_upgrade || !left.is_zero());
        if let SubscriptionState::Later(_) = self.subscription {
            if !may_upgrade {
                let answer = self.ask_once(None).await;
                if !is_waiting || !matches!(answer, Ok(Attempt::Busy { .. })) {
                    return answer;
                }
            }
            let before = std::mem::replace(&mut self.subscription, SubscriptionState::Failed);
            if let SubscriptionState::Later(subscription) = before
                && let Ok(subscription) = subscription.await
            {
                self.subscription = SubscriptionState::Done(Some(subscription));
            }
        }
        self.ask_once(is_waiting.then(|| LIVE.min(left.saturating_add(LIVE_BEYOND)))).await
    }

    async fn ask_once(&mut self, live: Option<Duration>) -> Result<Attempt, StoreError> {
        loop {
            // What was inherited is answered first.
            if !self.in_flight.is_under_way() {
                self.send(live);
            }
            let answer = self.in_flight.answer().await;
            let (sent, is_own) = (self.in_flight.sent, self.ttl == self.request.ttl);
            match &answer {
                Ok(Attempt::Queued { position, until, .. }) => {
                    self.in_flight.arm();
                    self.position = Some(*position);
                    self.heartbeat = Some(Heartbeat { sent, live: self.live, until: *until });
                    self.confirmed_until = None;
                }
                Ok(Attempt::Granted { .. }) => {
                    self.in_flight.arm();
                    if !is_own {
                        self.note_possible_confirmation();
                        continue;
                    }
                }
                Err(error) if error.outcome == Outcome::Unknown => {
                    self.note_possible_confirmation();
                    if !is_own {
                        // It could set that TTL at any time.
                        self.in_flight.give_up(|| vec![self.request.clone()]);
                        self.start_anew();
                    }
                }
                // It has taken it back, and knows it no more.
                _ if !self.client().store.has_queue() => self.start_anew(),
                // Refused; but an earlier copy may still be on its way.
                _ => {}
            }
            return answer;
        }
    }

    /// The last ask may have confirmed an offer, for its own TTL.
    fn note_possible_confirmation(&mut self) {
        let until = self.in_flight.sent + validity(self.ttl);
        self.confirmed_until = Some(self.confirmed_until.map_or(until, |it| it.min(until)));
    }

    fn send(&mut self, live: Option<Duration>) {
        let waiting = live.map(|live| Waiting { live, position: self.position() });
        (self.live, self.ttl) = (live.unwrap_or_default(), self.request.ttl);
        self.in_flight.send(|store| Some(store.acquire(&self.request, waiting)));
        self.first_asked.get_or_insert(self.in_flight.sent);
    }

    fn position(&self) -> QueuePosition {
        match (self.position, self.first_asked) {
            (Some(position), _) => QueuePosition::Assigned(position),
            (None, Some(first)) => {
                QueuePosition::New { age: self.now().saturating_duration_since(first) }
            }
            (None, None) => QueuePosition::New { age: Duration::ZERO },
        }
    }

    /// Pauses until there is an offer or a reason to ask (nothing).
    /// That something was missed is such a reason only while the store answers:
    /// else each connection that fails would wake all who wait, and they would
    /// make the next one.
    pub(crate) async fn wait_for_hint(
        &mut self,
        pause: Duration,
        is_faulty: bool,
    ) -> Option<Offer> {
        let mut pause = pin!(sleep(pause));
        let Some(route) = &self.route else {
            tokio::select! {
                () = pause => {}
                () = self.in_flight.client.keeper.shutdown.begun() => {}
            }
            return None;
        };
        loop {
            let message = tokio::select! {
                biased;
                message = route.message() => message,
                () = &mut pause => return None,
                () = self.in_flight.client.keeper.shutdown.begun() => return None,
            };
            match (message, self.heartbeat) {
                (Message::Offered(offer), Some(heartbeat)) if offer.until >= heartbeat.until => {
                    return Some(offer);
                }
                // An offer that had ended when the request was queued again.
                (Message::Offered(_), Some(_)) => {}
                (Message::Offered(_), None) | (Message::Free, _) => return None,
                (Message::Missed, _) if is_faulty => {}
                (Message::Missed, _) => {
                    // Not all who wait for anything at the same moment.
                    sleep(Duration::from_millis(20).mul_f64(fastrand::f64())).await;
                    return None;
                }
            }
        }
    }

    /// What was granted. From here on it is the caller's.
    pub(crate) fn take_grant(&mut self, token: u64) -> Grant {
        self.take(token, GrantTimes::by_command(self.in_flight.sent, self.request.ttl))
    }

    /// What was offered: it lasts as long as the offer does, counted from
    /// the ask that it is for, however late it was heard of; and longer once the keeper
    /// has confirmed it. That sets the TTL, and may run long before its answer is here: so
    /// not beyond a TTL from now, or from an earlier ask that may have confirmed it.
    pub(crate) fn take_offer(&mut self, offer: Offer) -> Option<Grant> {
        let Heartbeat { sent, live, .. } = self.heartbeat?;
        let now = self.now();
        // Where the server's clock has jumped since that ask, it ends sooner than by that.
        let longest = OFFER.min(self.request.ttl);
        let deadline = sent + validity(live.saturating_sub(offer.early));
        let deadline = deadline.min(now + validity(longest));
        let deadline = self.confirmed_until.map_or(deadline, |until| deadline.min(until));
        // What has run out, or is about to, is asked for again by the same request.
        if now + MIN_LEFT_OF_OFFER >= deadline {
            return None;
        }
        let times = GrantTimes { sent: now, deadline, is_offer: true, in_doubt_since: None };
        Some(self.take(offer.token, times))
    }

    fn take(&mut self, token: u64, times: GrantTimes) -> Grant {
        let fence = self.request.kind.is_fenced().then(|| Fence::new(token));
        let times = GrantTimes { in_doubt_since: self.in_flight.in_doubt_since(), ..times };
        self.in_flight.disarm();
        Grant { request: self.request.clone(), fence, times }
    }

    /// Goes on as another request, at the end of the queue.
    pub(crate) fn start_anew(&mut self) {
        self.request.id = self.client().next_request();
        if self.route.is_some() {
            self.route = Some(self.client().hints.route(&self.request));
        }
        self.in_flight.start_anew();
        (self.first_asked, self.position) = (None, None);
        (self.heartbeat, self.confirmed_until) = (None, None);
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.in_flight.give_up(|| vec![self.request.clone()]);
    }
}
