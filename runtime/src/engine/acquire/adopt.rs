//! Adopting a lease that another client has detached.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::consume_budget;
use tokio::time::sleep;
use tracing::Instrument;

use super::schedule::AskSchedule;
use super::time_limit::within;
use crate::client::Client;
use crate::client::in_flight::InFlight;
use crate::core::error::{LockError, LossReason, Step};
use crate::core::option_rules::SHORTEST;
use crate::core::options::Wait;
use crate::core::timers::check_timers;
use crate::engine::lease::Lease;
use crate::engine::shared::Shared;
use crate::engine::ticket::Ticket;
use crate::keeper::loss_reason;
use crate::state::lease::{Grant, GrantTimes};
use crate::state::telemetry::MeasuredAttempt;
use crate::store::{Adoption, Ask, Request, StoreError};

/// Takes over a ticket's lease, with a request of this client.
///
/// # Cancel safety
///
/// Dropping it at any point leaves nothing held by this client: the keeper cancels what it has
/// begun. The ticket may be spent.
pub(crate) async fn adopt(shared: &Arc<Shared>, ticket: Ticket) -> Result<Lease, LockError> {
    let client = &shared.client;
    // Some tickets are refused without the store.
    consume_budget().await;
    if ticket.options.max_hold.is_some_and(|most| most < SHORTEST.time) {
        return Err(LockError::TicketEnded { key: ticket.key, reason: LossReason::MaxHold });
    }
    ticket.options.check(ticket.kind.is_mutex())?;
    client.check_not_forked(Step::Adopt, &ticket.key)?;
    check_timers()?;
    let begun = client.store.now();
    let attempt = MeasuredAttempt::new(ticket.kind, &ticket.key);
    let result = Adopting::new(client, ticket).adopt(shared).instrument(attempt.span()).await;
    attempt.end(|| client.elapsed(begun), &result);
    result.map(Lease::begin_hold)
}

/// An adoption in progress.
struct Adopting {
    in_flight: InFlight<Adoption>,
    ticket: Ticket,
    request: Request,
}

impl Adopting {
    fn new(client: &Arc<Client>, ticket: Ticket) -> Self {
        let request = Request {
            key: ticket.key.clone(),
            id: client.next_request(),
            kind: ticket.kind,
            owner: ticket.owner.clone(),
            note: ticket.note.clone(),
            ttl: ticket.options.first_ttl(),
        };
        Self { in_flight: InFlight::new(client), ticket, request }
    }

    async fn adopt(&mut self, shared: &Arc<Shared>) -> Result<Lease, LockError> {
        let client = self.in_flight.client.clone();
        let mut schedule = AskSchedule::new(self.in_flight.sent, Wait::For(Duration::ZERO));
        let key = self.request.key.clone();
        loop {
            if client.keeper.shutdown.has_begun() {
                return Err(LockError::ShutDown);
            }
            let limit = schedule.time_limit(&*client.store, self.request.ttl);
            let asked = within(limit, pin!(self.ask())).await;
            let error = match asked.unwrap_or_else(Err) {
                Ok(Adoption::Adopted { token }) => {
                    let lease = Lease::unless_over(
                        shared,
                        self.take_grant(token),
                        client.store.now(),
                        None,
                        &self.ticket.options,
                    );
                    // The answer came after the lease had ended: this process or the network
                    // stood still.
                    return lease
                        .ok_or(LockError::TicketEnded { key, reason: LossReason::Expired });
                }
                Ok(Adoption::NotHeld(reason)) => {
                    let before = Request { id: self.ticket.from.id, ..self.request.clone() };
                    let reason = loss_reason(&client.store, &before, reason).await;
                    return Err(LockError::TicketEnded { key, reason });
                }
                Err(error) => error,
            };
            let pause = schedule.after_fault(client.store.now()).filter(|_| error.is_passing);
            let Some(pause) = pause else {
                return Err(LockError::store(Step::Adopt, &key, error));
            };
            sleep(pause).await;
        }
    }

    /// Asks once, with the same id each time.
    async fn ask(&mut self) -> Result<Adoption, StoreError> {
        self.in_flight.send(|store| Some(store.adopt(self.ticket.from, &self.request)));
        let answer = self.in_flight.answer().await;
        if let Ok(Adoption::Adopted { .. }) = answer {
            self.in_flight.arm();
        }
        answer
    }

    fn take_grant(&mut self, token: u64) -> Grant {
        let times = GrantTimes::by_command(self.in_flight.sent, self.request.ttl);
        self.in_flight.disarm();
        Grant::new(self.request.clone(), token, times)
    }
}

impl Drop for Adopting {
    fn drop(&mut self) {
        self.in_flight.give_up(|| vec![self.request.clone().into()]);
    }
}
