//! Several mutexes, permits and parts of rates by one command. If its caller is dropped, the keeper
//! cancels the requests, so no lock stays held without a holder.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::client::in_flight::InFlight;
use crate::core::options::Options;
use crate::engine::lease::Lease;
use crate::engine::lease_set::LeaseSet;
use crate::engine::rate_status::RateStatus;
use crate::engine::shared::Shared;
use crate::state::lease::{Grant, GrantTimes};
use crate::store::{All, Ask, Kind, NotAll, Request, RequestSpec, StoreError};

/// The requests of one command, until they are granted or given up.
pub(super) struct AtomicAcquire {
    shared: Arc<Shared>,
    in_flight: InFlight<All>,
    requests: Vec<Request>,
    options: Options,
}

impl AtomicAcquire {
    pub(super) fn new(shared: &Arc<Shared>, specs: &[RequestSpec], options: Options) -> Self {
        let request = |spec: &RequestSpec| Request {
            key: spec.key.clone(),
            id: shared.client.next_request(),
            kind: spec.kind,
            owner: spec.owner.clone(),
            note: spec.note.clone(),
            ttl: options.first_ttl(),
        };
        let requests = specs.iter().map(request).collect();
        Self { shared: shared.clone(), in_flight: InFlight::new(&shared.client), requests, options }
    }

    /// Asks once, with the same ids each time. Gives the leases if all were granted, or why none was;
    /// a lock that an operator has closed is busy.
    pub(super) async fn ask(&mut self) -> Result<Result<LeaseSet, NotAll>, StoreError> {
        let has_permits = self.requests.iter().any(|it| matches!(it.kind, Kind::Semaphore { .. }));
        let limits = &self.shared.client.limits;
        if has_permits && !limits.are_known() {
            Box::pin(limits.know()).await?;
        }
        let mut asked = Cow::Borrowed(&self.requests);
        for (index, request) in self.requests.iter().enumerate() {
            match limits.asked(request) {
                Ok(None) => {}
                Ok(Some(request)) => asked.to_mut()[index] = request,
                Err(_) => return Ok(Err(NotAll::Busy(index))),
            }
        }
        if !self.in_flight.send(|store| store.acquire_all(&asked)) {
            return Ok(Err(NotAll::Unknown));
        }
        match self.in_flight.answer().await? {
            Ok(tokens) => {
                self.in_flight.arm();
                Ok(self.take_grants(&tokens).ok_or(NotAll::Unknown))
            }
            // Refused. An earlier copy may still arrive.
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    fn take_grants(&mut self, tokens: &[u64]) -> Option<LeaseSet> {
        if tokens.len() != self.requests.len() {
            return None;
        }
        let times = GrantTimes::by_command(self.in_flight.sent, self.options.first_ttl());
        let times = self.in_flight.note_unanswered(times);
        let mut leases = LeaseSet::new();
        for (request, token) in self.requests.drain(..).zip(tokens) {
            if let Some((rate, _)) = request.kind.rate() {
                let used = Duration::from_micros(*token);
                leases.rates.push(RateStatus::new(request, rate, used));
                continue;
            }
            let grant = Grant::new(request, *token, times);
            leases.push(Lease::new(&self.shared, grant, &self.options).begin_hold());
        }
        self.in_flight.disarm();
        Some(leases)
    }
}

impl Drop for AtomicAcquire {
    fn drop(&mut self) {
        self.in_flight.give_up(|| std::mem::take(&mut self.requests));
    }
}
