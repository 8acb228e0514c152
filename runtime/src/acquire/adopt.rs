//! Taking up a lease that was detached.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::pace::{Pace, Refusal};
use crate::keeper::{Doubt, why};
use crate::lease::Lease;
use crate::locks::Client;
use crate::options::SHORTEST_TTL;
use crate::shutdown::Stay;
use crate::store::{Adoption, Request, StoreError, StoreFuture};
use crate::term::Grant;
use crate::ticket::Ticket;
use crate::{Fence, LockError, LossReason, Outcome, Step, Wait, telemetry};

/// Puts a request of this client in the place of the ticket's.
///
/// # Cancel safety
///
/// Dropping it at any point leaves nothing held by this client: what it has begun is
/// taken back by the keeper, and the ticket may be spent.
pub(crate) async fn adopt(client: &Arc<Client>, ticket: Ticket) -> Result<Lease, LockError> {
    if ticket.options.max_hold.is_some_and(|most| most < SHORTEST_TTL) {
        return Err(LockError::Lost { key: ticket.key, reason: LossReason::MaxHold });
    }
    ticket.options.check()?;
    let begun = client.store.now();
    let kind = ticket.kind;
    let result = Adopting::new(client, ticket).adopt().await;
    telemetry::acquired(kind, client.store.now().saturating_duration_since(begun), &result);
    result
}

/// An adoption under way. Whatever happens to its caller, it leaves no lease that
/// nobody knows of.
struct Adopting {
    client: Arc<Client>,
    ticket: Ticket,
    request: Request,
    in_flight: Option<StoreFuture<Adoption>>,
    /// The store may have it done, and nobody has the lease.
    is_armed: bool,
    /// When the first command was sent that had no answer.
    unanswered: Option<Instant>,
    /// When the last command was sent.
    sent: Instant,
    _stay: Stay,
}

impl Adopting {
    fn new(client: &Arc<Client>, ticket: Ticket) -> Self {
        let request = Request {
            key: ticket.key.clone(),
            id: client.next_request(),
            kind: ticket.kind,
            owner: ticket.owner.clone(),
            ttl: ticket.options.first_ttl(),
        };
        Self {
            client: client.clone(),
            ticket,
            request,
            in_flight: None,
            is_armed: false,
            unanswered: None,
            sent: client.store.now(),
            _stay: Stay::new(&client.keeper.shutdown),
        }
    }

    async fn adopt(&mut self) -> Result<Lease, LockError> {
        let mut pace = Pace::new(self.sent, Wait::For(Duration::ZERO));
        let key = self.request.key.clone();
        loop {
            if self.client.keeper.shutdown.has_begun() {
                return Err(LockError::ShutDown);
            }
            let error = match self.ask().await {
                Ok(Adoption::Adopted { token }) => {
                    let lease = self.lease(token);
                    if lease.is_held() {
                        return Ok(lease);
                    }
                    // This process, or the network, stood still.
                    return Err(LockError::Lost { key, reason: LossReason::Expired });
                }
                Ok(Adoption::NotHeld(reason)) => {
                    let before = Request { id: self.ticket.id, ..self.request.clone() };
                    let reason = why(&self.client.store, &before, reason).await;
                    return Err(LockError::Lost { key, reason });
                }
                Err(error) => error,
            };
            if !error.is_passing {
                return Err(LockError::store(Step::Adopt, &key, error));
            }
            let refusal = Refusal::Fault(error);
            match (pace.next(self.client.store.now(), &refusal, true), refusal) {
                (Some(pause), _) => sleep(pause).await,
                (None, Refusal::Fault(error)) => {
                    return Err(LockError::store(Step::Adopt, &key, error));
                }
                (None, refusal) => return Err(refusal.into_error(key, &pace)),
            }
        }
    }

    /// Asks once, by the same id each time.
    async fn ask(&mut self) -> Result<Adoption, StoreError> {
        self.sent = self.client.store.now();
        let adoption = self.client.store.adopt(self.ticket.id, &self.request);
        let answer = self.in_flight.insert(adoption).await;
        self.in_flight = None;
        match &answer {
            Ok(Adoption::Adopted { .. }) => self.is_armed = true,
            Err(error) if error.outcome == Outcome::Unknown => {
                self.is_armed = true;
                self.unanswered.get_or_insert(self.sent);
            }
            _ => {}
        }
        answer
    }

    fn lease(&mut self, token: u64) -> Lease {
        let fence = self.request.kind.is_fenced().then(|| Fence::new(token));
        let grant = Grant::by_command(self.sent, self.request.ttl);
        let request = self.request.clone();
        let lease = Lease::new(self.client.clone(), request, fence, grant, &self.ticket.options);
        // From here on it is the lease's.
        self.is_armed = false;
        lease
    }
}

impl Drop for Adopting {
    fn drop(&mut self) {
        let in_flight = self.in_flight.take();
        if self.is_armed || in_flight.is_some() {
            let requests = vec![self.request.clone()];
            let doubt = Doubt::new(self.unanswered, self.sent);
            self.client.keeper.cancel_later(requests, in_flight, doubt);
        }
    }
}
