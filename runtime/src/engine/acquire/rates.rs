//! The rates of a set: taken when all locks are held, and waited for while none is.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::multi_atomic::AtomicAcquire;
use super::multi_ordered::OrderedAcquire;
use super::time_limit::within;
use crate::client::not_granted::NotGranted;
use crate::core::error::LockError;
use crate::engine::rate_status::RateStatus;
use crate::engine::shared::Shared;
use crate::keeper::UnknownOutcome;
use crate::state::telemetry::MeasuredAttempt;
use crate::store::{Kind, NotAll, RequestSpec, StoreError};

/// What was taken from rates, and is given back in the background if it is dropped.
pub(super) struct TakenRates<'a> {
    shared: &'a Arc<Shared>,
    rates: Vec<RateStatus>,
}

impl<'a> TakenRates<'a> {
    pub(super) fn of(shared: &'a Arc<Shared>, rates: Vec<RateStatus>) -> Self {
        Self { shared, rates }
    }

    fn keep(mut self) -> Vec<RateStatus> {
        std::mem::take(&mut self.rates)
    }
}

impl Drop for TakenRates<'_> {
    fn drop(&mut self) {
        if !self.rates.is_empty() {
            let requests = self.rates.drain(..).map(RateStatus::into_request).collect();
            let client = &self.shared.client;
            let outcome = UnknownOutcome::new(None, client.store.now());
            client.keeper.cancel_later(requests, None, outcome);
        }
    }
}

/// The rate that was used up, and after how long it is not.
type UsedUp<'a> = (&'a RequestSpec, Duration);

impl<'a> OrderedAcquire<'a> {
    /// Takes of all rates, or of none: by one command, if the store can do that.
    pub(super) async fn take_rates(
        &mut self,
    ) -> Result<Result<Vec<RateStatus>, UsedUp<'a>>, LockError> {
        let (shared, rates) = (self.shared, self.rates());
        match self.take(rates).await? {
            Ok(taken) => return Ok(Ok(self.count(taken))),
            Err(NotAll::UsedUp(index, short)) if let Some(rate) = rates.get(index) => {
                return Ok(Err((rate, short)));
            }
            Err(_) => {}
        }
        let mut all = TakenRates::of(shared, Vec::new());
        for rate in rates {
            match self.take(std::slice::from_ref(rate)).await? {
                Ok(taken) => all.rates.extend(taken),
                Err(NotAll::UsedUp(_, short)) => return Ok(Err((rate, short))),
                Err(_) => {
                    let error =
                        StoreError::impossible("the store has no rates; use one server".to_owned());
                    return Err(self.schedule.error(NotGranted::Fault(error), rate.key.clone()));
                }
            }
        }
        Ok(Ok(self.count(all.keep())))
    }

    /// Asks until the store answers.
    async fn take(
        &mut self,
        rates: &'a [RequestSpec],
    ) -> Result<Result<Vec<RateStatus>, NotAll>, LockError> {
        let mut pending = AtomicAcquire::new(self.shared, rates, self.options);
        loop {
            let store = &*self.shared.client.store;
            let limit = self.schedule.time_limit(store, self.options.first_ttl());
            match within(limit, pin!(pending.ask())).await.unwrap_or_else(Err) {
                Ok(taken) => return Ok(taken.map(|taken| taken.rates)),
                Err(error) => self.pause(NotGranted::Fault(error), &rates[0]).await?,
            }
        }
    }

    fn count(&self, taken: Vec<RateStatus>) -> Vec<RateStatus> {
        let waited = self.waited();
        for rate in self.rates() {
            MeasuredAttempt::new(rate.kind, &rate.key).end(|| waited, &Ok(()));
        }
        taken
    }

    /// Goes behind those in this process that wait for one of the rates already.
    pub(super) async fn line_up(&mut self) -> Result<(), LockError> {
        let turns = &self.shared.rate_turns;
        let is_taken = |rate: &&RequestSpec| turns.are_taken(&rate.key);
        if !self.schedule.is_try()
            && let Some(spec) = self.rates().iter().find(is_taken)
            && let Some((rate, weight)) = spec.kind.rate()
        {
            // Those before it take something, too.
            let least = Duration::from_micros(rate.micros(weight));
            self.turn = Some(self.wait(spec, least, turns.take(&spec.key)).await?);
        }
        Ok(())
    }

    /// Waits until a rate allows more, which takes this time at least, if the wait is long enough.
    /// Nothing is held meanwhile.
    pub(super) async fn wait_for_rate(
        &mut self,
        spec: &RequestSpec,
        short: Duration,
    ) -> Result<(), LockError> {
        if self.turn.as_ref().is_some_and(|turn| turn.key == spec.key) {
            return self.wait(spec, short, sleep(short)).await;
        }
        // Whoever waits for a turn has none.
        self.turn = None;
        let turns = &self.shared.rate_turns;
        let is_first = !turns.are_taken(&spec.key);
        self.turn = Some(self.wait(spec, short, turns.take(&spec.key)).await?);
        if is_first {
            self.wait(spec, short, sleep(short)).await?;
        }
        // Behind others, it takes another time by now.
        Ok(())
    }

    /// Waits for something that takes this time at least, if the wait is long enough.
    async fn wait<T>(
        &self,
        spec: &RequestSpec,
        least: Duration,
        something: impl Future<Output = T>,
    ) -> Result<T, LockError> {
        let client = &self.shared.client;
        let left = self.schedule.left(client.store.now());
        if least > left {
            return self.refuse_by_rate(spec, least);
        }
        tokio::select! {
            biased;
            it = something => Ok(it),
            () = client.keeper.shutdown.begun() => Err(LockError::ShutDown),
            () = sleep(left) => self.refuse_by_rate(spec, least),
        }
    }

    fn refuse_by_rate<T>(&self, spec: &RequestSpec, retry_after: Duration) -> Result<T, LockError> {
        let Kind::Rate { rate, .. } = spec.kind else { unreachable!("it waits for a rate") };
        let refused = Err(LockError::RateLimited { key: spec.key.clone(), rate, retry_after });
        MeasuredAttempt::new(spec.kind, &spec.key).end(|| self.waited(), &refused);
        refused
    }
}
