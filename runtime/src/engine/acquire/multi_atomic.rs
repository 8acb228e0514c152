//! Several mutexes, permits and takes of rates by one command. If its caller is dropped, the keeper
//! cancels them, so no lock stays held without a holder.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::patience::Patience;
use crate::client::in_flight::InFlight;
use crate::core::options::Options;
use crate::engine::lease::Lease;
use crate::engine::lease_set::LeaseSet;
use crate::engine::rate_status::RateStatus;
use crate::engine::shared::Shared;
use crate::keeper::ToCancel;
use crate::state::lease::{Grant, GrantTimes};
use crate::store::{All, Ask, Kind, NotAll, Request, RequestSpec, StoreError, Take, TakeSpec};

/// How much later than its time a request may begin that has waited for a rate. Later, it asks for
/// another time: many that are late would begin together.
const LATE: Duration = Duration::from_millis(250);

/// For how long in advance rates are taken.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The requests of one command, until they are granted or given up.
pub(super) struct AtomicAcquire {
    shared: Arc<Shared>,
    in_flight: InFlight<All>,
    locks: Vec<Request>,
    takes: Vec<Take>,
    /// When it may begin, if it waits for a rate.
    begins: Option<Instant>,
    options: Options,
}

impl AtomicAcquire {
    /// Requests that may wait for their rates, or not.
    pub(super) fn new(
        patience: &Patience<'_>,
        locks: &[RequestSpec],
        rates: &[TakeSpec],
        may_wait: bool,
    ) -> Self {
        let (shared, options) = (patience.shared, patience.options);
        let wait = if may_wait { patience.left().min(LONGEST) } else { Duration::ZERO };
        let id = || shared.client.next_request();
        let request = |spec: &RequestSpec| spec.clone().into_request(id(), options.first_ttl());
        let take = |spec: &TakeSpec| {
            let settled = shared.settled_takes.take(&spec.key);
            Take { wait, ..spec.clone().into_take(id(), settled) }
        };
        Self {
            locks: locks.iter().map(request).collect(),
            takes: rates.iter().map(take).collect(),
            in_flight: InFlight::new(&shared.client),
            shared: shared.clone(),
            begins: None,
            options,
        }
    }

    /// Returns true if it is too late to begin.
    pub(super) fn is_late(&self) -> bool {
        self.begins.is_some_and(|begins| self.shared.client.store.now() > begins + LATE)
    }

    /// Asks once, with the same ids each time. Gives the leases if all were granted, or why none was;
    /// a lock that an operator has closed is busy.
    pub(super) async fn ask(&mut self) -> Result<Result<LeaseSet, NotAll>, StoreError> {
        let has_permits = self.locks.iter().any(|it| matches!(it.kind, Kind::Semaphore { .. }));
        let limits = &self.shared.client.limits;
        if has_permits && !limits.are_known() {
            Box::pin(limits.know()).await?;
        }
        let mut asked = Cow::Borrowed(&self.locks);
        for (index, request) in self.locks.iter().enumerate() {
            match limits.asked(request) {
                Ok(None) => {}
                Ok(Some(request)) => asked.to_mut()[index] = request,
                Err(_) => return Ok(Err(NotAll::Busy(index))),
            }
        }
        if !self.in_flight.send(|store| store.acquire_all(&asked, &self.takes)) {
            return Ok(Err(NotAll::Unknown));
        }
        match self.in_flight.answer().await? {
            Ok(tokens) => {
                self.in_flight.arm();
                Ok(self.take_grants(&tokens).ok_or(NotAll::Unknown))
            }
            Err(NotAll::Reserved(index, after)) => {
                self.in_flight.arm();
                self.begins = Some(self.shared.client.store.now() + after);
                Ok(Err(NotAll::Reserved(index, after)))
            }
            // Refused. An earlier copy may still arrive.
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    fn take_grants(&mut self, tokens: &[u64]) -> Option<LeaseSet> {
        if tokens.len() != self.locks.len() + self.takes.len() {
            return None;
        }
        let (tokens, used) = tokens.split_at(self.locks.len());
        let times = GrantTimes::by_command(self.in_flight.sent, self.options.first_ttl());
        let times = self.in_flight.note_unanswered(times);
        let mut leases = LeaseSet::new();
        for (request, token) in self.locks.drain(..).zip(tokens) {
            let grant = Grant::new(request, *token, times);
            leases.push(Lease::new(&self.shared, grant, &self.options).begin_hold());
        }
        let is_settled = self.in_flight.unanswered_since().is_none();
        let used = used.iter().copied().map(Duration::from_micros);
        let status = |(take, used)| RateStatus::new(take, used, is_settled);
        leases.rates.extend(self.takes.drain(..).zip(used).map(status));
        self.in_flight.disarm();
        Some(leases)
    }
}

impl Drop for AtomicAcquire {
    fn drop(&mut self) {
        self.in_flight.give_up(|| {
            let locks = self.locks.drain(..).map(ToCancel::from);
            locks.chain(self.takes.drain(..).map(ToCancel::from)).collect()
        });
    }
}
