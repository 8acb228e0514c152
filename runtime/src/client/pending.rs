//! A request until it is granted. If its caller is dropped, the keeper cancels the request, so
//! the lock does not stay held without a holder.

mod about;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Client;
use super::in_flight::InFlight;
use super::not_granted::{DoneWork, NotGranted, warn_of_missing_expiry};
use super::subscription::SubscriptionState;
use crate::core::error::{LockError, Outcome};
use crate::hints::{Message, Offer, Route};
use crate::state::lease::{Grant, GrantTimes};
use crate::store::{
    Ask, Attempt, Kind, LIVE, OFFER, QueuePosition, Request, RequestSpec, SUBSCRIBING, Stamp,
    Waiting, validity,
};
use crate::system;

/// A waiter whose wait ends before `LIVE` stays in the store's queue for this much longer than its
/// wait.
const LIVE_BEYOND: Duration = Duration::from_millis(500);

/// An offer with less time left is not used: it may end before it is confirmed.
const MIN_LEFT_TO_USE: Duration = Duration::from_millis(50);

/// One request, from its first command until it is granted or given up.
pub(crate) struct PendingRequest {
    in_flight: InFlight<Attempt>,
    request: Request,
    is_waiting: bool,
    /// Where its hints arrive. `None` if it does not wait, or if the store has no queue.
    route: Option<Route>,
    /// When it first asked.
    first_asked: Option<Instant>,
    /// The `live` of its last ask, and the TTL of that ask.
    live: Duration,
    ttl: Duration,
    position: Option<u64>,
    heartbeat: Option<Heartbeat>,
    /// The earliest end that an ask since the heartbeat may have given an offer: each may have
    /// confirmed it, for the TTL that it carried.
    confirmed_until: Option<Instant>,
    subscription: SubscriptionState,
}

/// The last ask that was answered *queued*. Offers name it, and end with it at the latest.
#[derive(Clone, Copy)]
struct Heartbeat {
    sent: Instant,
    live: Duration,
    until: Stamp,
}

impl PendingRequest {
    /// A request that does not wait.
    pub(crate) fn new(client: &Arc<Client>, spec: RequestSpec, ttl: Duration) -> Self {
        let request = spec.into_request(client.next_request(), ttl);
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

    /// A request that may wait. Its route exists before its first command is sent, because an
    /// offer may arrive before the answer.
    pub(crate) fn waiting(client: &Arc<Client>, spec: RequestSpec, ttl: Duration) -> Self {
        let mut pending = Self::new(client, spec, ttl);
        pending.is_waiting = true;
        if client.store.has_queue() {
            pending.route = Some(client.hints.route(&pending.request));
        }
        if let Some(subscription) = client.store.subscribe(&pending.request) {
            pending.subscription = SubscriptionState::Later(subscription);
        }
        pending
    }

    /// Asks once. If there is time left to wait, the request joins the store's queue. The caller
    /// makes a lease of a grant, or cancels it.
    pub(crate) async fn ask(&mut self, left: Duration) -> Result<Grant, NotGranted> {
        let limits = &self.in_flight.client.limits;
        if matches!(self.request.kind, Kind::Semaphore { .. }) && !limits.are_known() {
            // Boxed: once for each client.
            Box::pin(limits.know()).await.map_err(NotGranted::Fault)?;
        }
        // An owner that reads may try to write, but may not wait for that. So a request that waits
        // always says so, or it could be granted as a try.
        let may_upgrade = self.request.kind == Kind::Write && self.request.owner.is_some();
        let waits_now = self.is_waiting && (may_upgrade || !left.is_zero());
        // A lock that is free costs no subscription.
        if self.subscription.is_later() && self.position.is_none() && !may_upgrade {
            let answer = self.ask_once(None).await;
            if !waits_now || !answer.as_ref().is_err_and(NotGranted::may_be_queued) {
                return answer;
            }
        }
        if self.subscription.is_to_retry()
            && let Some(subscription) = self.client().store.subscribe(&self.request)
        {
            self.subscription = SubscriptionState::Later(subscription);
        }
        self.subscription.settle(SUBSCRIBING.min(left)).await;
        self.ask_once(waits_now.then(|| LIVE.min(left.saturating_add(LIVE_BEYOND)))).await
    }

    async fn ask_once(&mut self, live: Option<Duration>) -> Result<Grant, NotGranted> {
        let answer = self.attempt(live).await?;
        Err(match answer {
            Attempt::Granted { token } => return Ok(self.take_grant(token)),
            Attempt::GrantedTick { token, tick } => {
                return Ok(self.take_grant(token).in_tick(tick, self.now()));
            }
            Attempt::Done { completed, until, left } => {
                self.in_flight.left_queue();
                NotGranted::Done(DoneWork { completed, until, left })
            }
            Attempt::Queued { ask_again, .. } => NotGranted::Queued(ask_again),
            Attempt::Busy { retry_after, expiry_added, kept } => {
                if expiry_added {
                    warn_of_missing_expiry(self.key());
                }
                NotGranted::Held { left: retry_after, kept }
            }
            Attempt::Recalled { retry_after: left, other_kind } => {
                NotGranted::Recalled { left, other_kind }
            }
            Attempt::WrongKind => NotGranted::WrongKind,
            Attempt::WouldDeadlock => NotGranted::HeldByOwner,
            // The store takes it for one that was cancelled, so it needs a new id.
            Attempt::Ended => {
                self.start_anew();
                NotGranted::TooLate
            }
        })
    }

    async fn attempt(&mut self, live: Option<Duration>) -> Result<Attempt, NotGranted> {
        loop {
            // An inherited command is answered first.
            if !self.in_flight.is_under_way() {
                self.send(live).map_err(NotGranted::Closed)?;
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
                Ok(Attempt::Granted { .. } | Attempt::GrantedTick { .. }) => {
                    self.in_flight.arm();
                    // It has the TTL of the acquisition before: it is asked for again with ours.
                    if !is_own {
                        self.note_possible_confirmation();
                        continue;
                    }
                }
                Err(error) if error.outcome == Outcome::Unknown => {
                    self.note_possible_confirmation();
                    if !is_own {
                        // The given-up ask could still set its own TTL.
                        self.start_anew();
                    }
                }
                // This store has cancelled the request itself.
                _ if !self.client().store.has_queue() => self.start_anew(),
                // It is not in the queue. An earlier copy of the ask may still arrive.
                _ => {}
            }
            return answer.map_err(NotGranted::Fault);
        }
    }

    /// Notes that the last ask may have confirmed an offer, for its own TTL.
    fn note_possible_confirmation(&mut self) {
        let until = self.in_flight.sent + validity(self.ttl);
        self.confirmed_until = Some(self.confirmed_until.map_or(until, |it| it.min(until)));
    }

    /// Asks with the limit that holds now: an operator may have changed it since the last ask.
    fn send(&mut self, live: Option<Duration>) -> Result<(), Box<LockError>> {
        let asked = self.client().limits.asked(&self.request)?;
        let waiting = live.map(|live| Waiting { live, position: self.position() });
        let is_routed = self.route.is_some() || !self.client().store.has_queue();
        debug_assert!(waiting.is_none() || is_routed, "an offer could be missed");
        (self.live, self.ttl) = (live.unwrap_or_default(), self.request.ttl);
        let asked = asked.as_ref().unwrap_or(&self.request);
        self.in_flight.send(|store| Some(store.acquire(asked, waiting)));
        self.first_asked.get_or_insert(self.in_flight.sent);
        Ok(())
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

    /// Pauses until it takes an offer, or there is another reason to ask (`None`).
    ///
    /// Missed hints are a reason only while the store answers. Otherwise each failed connection
    /// would wake all waiters, and they would make the next one fail.
    pub(crate) async fn wait_for_offer(
        &mut self,
        pause: Duration,
        is_faulty: bool,
    ) -> Option<Grant> {
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
                // `until` names the ask that the offer answers. Only an offer for our last ask that
                // was answered *queued* is taken up. Which time is later proves nothing: the
                // server's clock may have been set back.
                (Message::Offered(offer), Some(heartbeat)) if offer.until == heartbeat.until => {
                    return self.take_offer(offer);
                }
                // It answers a later ask, which got no answer, or one from before the clock was set
                // back: the next ask tells.
                (Message::Offered(offer), Some(heartbeat)) if offer.until > heartbeat.until => {
                    return None;
                }
                // It answers an earlier ask, and ended before the store queued us again.
                (Message::Offered(_), Some(_)) => {}
                (Message::Offered(_), None) | (Message::Free, _) => return None,
                (Message::Missed, _) if is_faulty => {}
                (Message::Missed, _) => {
                    // Spreads the waiters, which all wake at this moment.
                    sleep(system::full_jitter(Duration::from_millis(20))).await;
                    return None;
                }
            }
        }
    }

    /// Takes the grant that the last answer gave.
    fn take_grant(&mut self, token: u64) -> Grant {
        self.take(token, GrantTimes::by_command(self.in_flight.sent, self.request.ttl))
    }

    /// Takes an offer, as a grant that ends with the offer. `None` if it ends too soon.
    ///
    /// The grant ends at the earliest of: the offer's end, which counts from the ask that it answers;
    /// `OFFER` from now, or the TTL if that is shorter; and the end of an earlier ask's TTL, if that
    /// ask may have confirmed the offer. The first renewal confirms it: the TTL begins when the
    /// server runs that, not when its answer arrives.
    fn take_offer(&mut self, offer: Offer) -> Option<Grant> {
        // Only the answer to an ask names the tick of work that is to succeed once.
        let is_once = matches!(self.request.kind, Kind::Once(_));
        let Heartbeat { sent, live, .. } = self.heartbeat.filter(|_| !is_once)?;
        let now = self.now();
        // If the server's clock has jumped since that ask, the offer ends sooner.
        let longest = OFFER.min(self.request.ttl);
        let deadline = sent + validity(live.saturating_sub(offer.early));
        let deadline = deadline.min(now + validity(longest));
        let deadline = self.confirmed_until.map_or(deadline, |until| deadline.min(until));
        // The same request asks again for an offer that has ended or is about to.
        if now + MIN_LEFT_TO_USE >= deadline {
            return None;
        }
        let times = GrantTimes { deadline, is_offer: true, ..GrantTimes::by_command(now, longest) };
        Some(self.take(offer.token, times))
    }

    fn take(&mut self, token: u64, times: GrantTimes) -> Grant {
        let times = self.in_flight.note_unanswered(times);
        self.in_flight.disarm();
        Grant::new(self.request.clone(), token, times)
    }

    /// Goes on as a new request, at the end of the queue.
    pub(crate) fn start_anew(&mut self) {
        self.in_flight.start_anew(|| vec![self.request.clone().into()]);
        self.request.id = self.client().next_request();
        if self.route.is_some() {
            self.route = Some(self.client().hints.route(&self.request));
        }
        (self.first_asked, self.position) = (None, None);
        (self.heartbeat, self.confirmed_until) = (None, None);
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.in_flight.give_up(|| vec![self.request.clone().into()]);
    }
}
