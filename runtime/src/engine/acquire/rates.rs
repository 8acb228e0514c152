//! The rates of a set: taken when all locks are held, and waited for while none is.
//!
//! The store tells a caller that may wait at once when it may begin, and keeps that time for it. So
//! callers of all processes are served in their order, and nobody is held up by one that sleeps or is
//! not polled.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::multi_atomic::AtomicAcquire;
use super::patience::{Patience, UnderWay};
use super::time_limit::within;
use crate::client::not_granted::NotGranted;
use crate::core::error::LockError;
use crate::engine::rate_status::RateStatus;
use crate::engine::shared::Shared;
use crate::keeper::UnknownOutcome;
use crate::store::{NotAll, TakeSpec};

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

    /// Notes that they are used: none is given back from now on.
    pub(super) fn settle(shared: &Shared, rates: &[RateStatus]) {
        for take in rates.iter().filter_map(RateStatus::settled) {
            shared.settled_takes.add(&take.key, take.id);
        }
    }
}

impl Drop for TakenRates<'_> {
    fn drop(&mut self) {
        if !self.rates.is_empty() {
            let takes = self.rates.drain(..).map(|it| it.into_take().into()).collect();
            let client = &self.shared.client;
            let outcome = UnknownOutcome::new(None, client.store.now());
            client.keeper.cancel_later(takes, None, outcome);
        }
    }
}

/// The last rate that allows a request, and after how long.
pub(super) type UsedUp<'a> = (&'a TakeSpec, Duration);

/// The rates of a set, sorted by name.
#[derive(Clone, Copy)]
pub(super) struct Rates<'a>(pub(super) &'a [TakeSpec]);

impl<'a> Rates<'a> {
    /// Takes of all of them, and waits until that is possible. Only where no lock is held.
    pub(super) async fn acquire(
        self,
        patience: &mut Patience<'a>,
    ) -> Result<Vec<RateStatus>, LockError> {
        match self.take(patience, true).await? {
            Ok(taken) => Ok(taken),
            Err(used_up) => patience.refuse(used_up),
        }
    }

    /// Takes of all rates, or of none: by one command, if the store can do that. May wait for that
    /// where no lock is held.
    pub(super) async fn take(
        self,
        patience: &mut Patience<'a>,
        may_wait: bool,
    ) -> Result<Result<Vec<RateStatus>, UsedUp<'a>>, LockError> {
        let taken = match self.ask(patience, may_wait).await? {
            Err(NotAll::Unknown) => self.take_each(patience, may_wait).await?,
            Ok(taken) => Ok(taken),
            Err(refusal) => Err(self.used_up(refusal)?),
        };
        if taken.is_ok() {
            patience.count(self.0);
        }
        Ok(taken)
    }

    /// Takes one after another. It waits for the first one alone, so that none is taken for long before
    /// all are.
    async fn take_each(
        self,
        patience: &mut Patience<'a>,
        may_wait: bool,
    ) -> Result<Result<Vec<RateStatus>, UsedUp<'a>>, LockError> {
        let mut in_turn: Vec<_> = self.0.iter().collect();
        'anew: loop {
            let mut all = TakenRates::of(patience.shared, Vec::new());
            for nth in 0..in_turn.len() {
                let one = Self(std::slice::from_ref(in_turn[nth]));
                let is_first = nth == 0;
                let used_up = match one.ask(patience, may_wait && is_first).await? {
                    Ok(taken) => {
                        all.rates.extend(taken);
                        continue;
                    }
                    Err(refusal) => one.used_up(refusal)?,
                };
                if is_first || !may_wait || used_up.1 > patience.left() {
                    return Ok(Err(used_up));
                }
                in_turn.swap(0, nth);
                continue 'anew;
            }
            all.rates.sort_by(|one, other| one.key().cmp(other.key()));
            return Ok(Ok(all.keep()));
        }
    }

    /// The rate that refused.
    fn used_up(self, refusal: NotAll) -> Result<UsedUp<'a>, LockError> {
        match refusal {
            NotAll::UsedUp(index, after) => Ok((&self.0[index], after)),
            // Something else is stored there.
            _ => Err(LockError::WrongKind { key: self.0[0].key.clone() }),
        }
    }

    /// Asks until the store answers, and then once more at the time that it says.
    async fn ask(
        self,
        patience: &mut Patience<'a>,
        may_wait: bool,
    ) -> Result<Result<Vec<RateStatus>, NotAll>, LockError> {
        let anew = |patience: &Patience<'a>| AtomicAcquire::new(patience, &[], self.0, may_wait);
        let mut pending = anew(patience);
        loop {
            if patience.shared.client.keeper.shutdown.has_begun() {
                return patience.give_up((&self.0[0]).into(), LockError::ShutDown);
            }
            if pending.is_late() {
                pending = anew(patience);
            }
            let store = &*patience.shared.client.store;
            let limit = patience.schedule.time_limit(store, patience.options.first_ttl());
            let of = UnderWay(Some((&self.0[0]).into()));
            let answer = of.until(within(limit, pin!(pending.ask()))).await.unwrap_or_else(Err);
            match answer {
                // What replicas have not confirmed was given back.
                Ok(Err(NotAll::GivenBack)) => pending = anew(patience),
                Ok(Err(NotAll::Reserved(index, after))) => {
                    patience.wait_for(&self.0[index], after).await?;
                }
                Ok(taken) => return Ok(taken.map(|taken| taken.rates)),
                Err(error) => {
                    patience.pause(NotGranted::Fault(error), (&self.0[0]).into()).await?;
                }
            }
        }
    }
}

impl Patience<'_> {
    /// How much of the wait is left.
    pub(super) fn left(&self) -> Duration {
        self.schedule.left(self.shared.client.store.now())
    }

    /// The error of a rate that does not allow the request in time.
    pub(super) fn refuse<T>(&self, (spec, after): UsedUp<'_>) -> Result<T, LockError> {
        let (key, rate) = (spec.key.clone(), spec.rate);
        self.give_up(spec.into(), LockError::RateLimited { key, rate, retry_after: after })
    }

    /// Waits for the time at which a rate allows the request. Nothing is held meanwhile.
    pub(super) async fn wait_for(&self, spec: &TakeSpec, after: Duration) -> Result<(), LockError> {
        self.sleep(after, spec.into()).await
    }
}
