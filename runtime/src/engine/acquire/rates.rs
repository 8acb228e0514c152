//! The rates of a set: taken when all locks are held, and waited for while none is.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::multi_atomic::AtomicAcquire;
use super::patience::Patience;
use super::time_limit::within;
use crate::client::not_granted::NotGranted;
use crate::core::error::LockError;
use crate::engine::rate_status::RateStatus;
use crate::engine::rate_turns::RateTurn;
use crate::engine::shared::Shared;
use crate::keeper::UnknownOutcome;
use crate::state::telemetry::{MeasuredAttempt, Subject};
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

/// The rate that was used up, and after how long it is not.
pub(super) type UsedUp<'a> = (&'a TakeSpec, Duration);

/// The rates of a set.
pub(super) struct Rates<'a> {
    /// Sorted by name.
    specs: &'a [TakeSpec],
    /// The turn to ask for the rate that was used up.
    turn: Option<RateTurn>,
}

impl<'a> Rates<'a> {
    pub(super) fn of(specs: &'a [TakeSpec]) -> Self {
        Self { specs, turn: None }
    }

    pub(super) fn specs(&self) -> &'a [TakeSpec] {
        self.specs
    }

    /// Takes of all of them, and waits until that is possible. Only where no lock is held.
    pub(super) async fn acquire(
        &mut self,
        patience: &mut Patience<'a>,
    ) -> Result<Vec<RateStatus>, LockError> {
        self.line_up(patience).await?;
        loop {
            if patience.shared.client.keeper.shutdown.has_begun() {
                return Err(LockError::ShutDown);
            }
            match self.take(patience).await? {
                Ok(taken) => return Ok(taken),
                Err(used_up) => self.wait_for(used_up, patience).await?,
            }
        }
    }

    /// Lets others ask for the rate meanwhile.
    pub(super) fn leave_turn(&mut self) {
        self.turn = None;
    }

    /// Takes of all rates, or of none: by one command, if the store can do that.
    pub(super) async fn take(
        &mut self,
        patience: &mut Patience<'a>,
    ) -> Result<Result<Vec<RateStatus>, UsedUp<'a>>, LockError> {
        let specs = self.specs;
        match self.ask(specs, patience).await? {
            Ok(taken) => {
                patience.count(specs);
                return Ok(Ok(taken));
            }
            Err(NotAll::UsedUp(index, short)) if let Some(spec) = specs.get(index) => {
                return Ok(Err((spec, short)));
            }
            Err(_) => {}
        }
        let mut all = TakenRates::of(patience.shared, Vec::new());
        for spec in specs {
            match self.ask(std::slice::from_ref(spec), patience).await? {
                Ok(taken) => all.rates.extend(taken),
                Err(NotAll::UsedUp(_, short)) => return Ok(Err((spec, short))),
                // Something else is stored there.
                Err(_) => return Err(LockError::WrongKind { key: spec.key.clone() }),
            }
        }
        patience.count(specs);
        Ok(Ok(all.keep()))
    }

    /// Asks until the store answers.
    async fn ask(
        &mut self,
        specs: &'a [TakeSpec],
        patience: &mut Patience<'a>,
    ) -> Result<Result<Vec<RateStatus>, NotAll>, LockError> {
        let anew = |patience: &Patience<'a>| {
            AtomicAcquire::new(patience.shared, &[], specs, patience.options)
        };
        let mut pending = anew(patience);
        loop {
            let store = &*patience.shared.client.store;
            let limit = patience.schedule.time_limit(store, patience.options.first_ttl());
            let answer = within(limit, pin!(pending.ask())).await.unwrap_or_else(Err);
            match answer {
                // What replicas have not confirmed was given back.
                Ok(Err(NotAll::GivenBack)) => pending = anew(patience),
                Ok(taken) => return Ok(taken.map(|taken| taken.rates)),
                Err(error) => {
                    self.leave_turn();
                    patience.pause(NotGranted::Fault(error), (&specs[0]).into()).await?;
                }
            }
        }
    }

    /// Goes behind those in this process that wait for one of the rates already.
    pub(super) async fn line_up(&mut self, patience: &Patience<'_>) -> Result<(), LockError> {
        let turns = &patience.shared.rate_turns;
        let taken = |spec: &'a TakeSpec| Some((spec, turns.taken(&spec.key, rest(spec))?));
        if !patience.schedule.is_try()
            && let Some(used_up) = self.specs.iter().find_map(taken)
        {
            self.turn = wait_for_turn(patience, used_up).await?;
        }
        Ok(())
    }

    /// Waits until a rate allows more, which takes this time at least, if the wait is long enough.
    /// Nothing is held meanwhile.
    pub(super) async fn wait_for(
        &mut self,
        (spec, short): UsedUp<'_>,
        patience: &Patience<'_>,
    ) -> Result<(), LockError> {
        if self.turn.as_ref().is_none_or(|turn| turn.key != spec.key) {
            // Whoever waits for a turn has none.
            self.turn = None;
            self.turn = patience.shared.rate_turns.take_free(&spec.key);
            if self.turn.is_none() {
                // Behind others, it takes another time by then.
                self.turn = wait_for_turn(patience, (spec, short)).await?;
                return Ok(());
            }
        }
        if let Some(turn) = &self.turn {
            turn.asks_after(short, rest(spec));
        }
        wait(patience, (spec, short), sleep(short)).await
    }
}

/// Waits for the turn to ask for a rate. `None` if whoever has it does not use it.
async fn wait_for_turn(
    patience: &Patience<'_>,
    (spec, least): UsedUp<'_>,
) -> Result<Option<RateTurn>, LockError> {
    let turn = patience.shared.rate_turns.take(&spec.key);
    wait(patience, (spec, least), turn).await
}

/// Waits for something that takes this time at least, if the wait is long enough.
async fn wait<T>(
    patience: &Patience<'_>,
    (spec, least): UsedUp<'_>,
    something: impl Future<Output = T>,
) -> Result<T, LockError> {
    let client = &patience.shared.client;
    let left = patience.schedule.left(client.store.now());
    if least > left {
        return patience.give_up(spec.into(), used_up(spec, least));
    }
    let waiting = Waiting(Some(spec));
    let ended = tokio::select! {
        biased;
        it = something => Ok(it),
        () = client.keeper.shutdown.begun() => Err(LockError::ShutDown),
        () = sleep(left) => Err(used_up(spec, least.saturating_sub(left).max(own(spec)))),
    };
    waiting.ends();
    ended.or_else(|error| patience.give_up(spec.into(), error))
}

/// A wait for a rate. It counts as cancelled if it is dropped.
struct Waiting<'a>(Option<&'a TakeSpec>);

impl Waiting<'_> {
    fn ends(mut self) {
        self.0 = None;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(spec) = self.0 {
            drop(MeasuredAttempt::new(Subject::Rate, &spec.key));
        }
    }
}

/// How much of its burst a take leaves, in time.
fn rest(spec: &TakeSpec) -> Duration {
    Duration::from_micros(spec.rate.micros(spec.rate.most_at_once())).saturating_sub(own(spec))
}

/// For how long a take uses its rate up.
fn own(spec: &TakeSpec) -> Duration {
    Duration::from_micros(spec.rate.micros(spec.weight))
}

fn used_up(spec: &TakeSpec, retry_after: Duration) -> LockError {
    LockError::RateLimited { key: spec.key.clone(), rate: spec.rate, retry_after }
}
