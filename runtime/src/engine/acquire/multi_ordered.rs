//! Several locks, and takes of rates: all or none, with one wait for all.
//!
//! If all are free, one command takes them. Otherwise the locks are acquired one after another, each
//! through its own queue, and by every caller in the same order. A caller that waits for one
//! lock holds none that comes after it, so no two callers wait for each other.
//!
//! Rates are taken last, so that what is taken is used at once. A caller that waits for a rate holds
//! nothing.

use std::pin::pin;
use std::sync::Arc;

use super::multi_atomic::AtomicAcquire;
use super::patience::{Patience, UnderWay};
use super::rates::{Rates, TakenRates};
use super::single::acquire;
use super::time_limit::within;
use crate::client::not_granted::NotGranted;
use crate::core::error::{LockError, Step};
use crate::core::key::LockKey;
use crate::core::options::Options;
use crate::core::timers::check_timers;
use crate::engine::lease::Lease;
use crate::engine::lease_set::LeaseSet;
use crate::engine::rate_status::RateStatus;
use crate::engine::shared::Shared;
use crate::store::{Kind, NotAll, RequestSpec, TakeSpec};

/// What a call names: the locks, and the rates.
pub(crate) type SetSpec = (Vec<RequestSpec>, Vec<TakeSpec>);

/// How many locks and rates a call may name: a script that takes more would block the server for too
/// long.
pub(crate) const MAX_KEYS: usize = 64;

/// Acquires all of them, within the wait of the options.
///
/// # Cancel safety
///
/// Dropping it at any point leaves nothing held: held leases are released, and pending requests
/// are cancelled.
pub(crate) async fn acquire_all(
    shared: &Arc<Shared>,
    set: SetSpec,
    options: Options,
) -> Result<LeaseSet, LockError> {
    let (locks, rates) = in_order(set)?;
    let [first, ..] = &locks[..] else {
        let mut leases = LeaseSet::new();
        leases.rates = acquire_rates(shared, &rates, options).await?;
        return Ok(leases);
    };
    check(shared, &first.key, &rates, &options)?;
    let (patience, rates) = (Patience::new(shared, options), Rates(&rates));
    let acquired = OrderedAcquire { patience, locks: &locks, rates }.acquire().await;
    let is_semaphore = |spec: &RequestSpec| matches!(spec.kind, Kind::Semaphore { .. });
    acquired.map_err(|error| {
        error.of_semaphore(|key| locks.iter().any(|spec| spec.key == *key && is_semaphore(spec)))
    })
}

/// Takes of rates, within the wait of the options. There is at least one.
pub(crate) async fn acquire_rates(
    shared: &Arc<Shared>,
    rates: &[TakeSpec],
    options: Options,
) -> Result<Vec<RateStatus>, LockError> {
    check(shared, &rates[0].key, rates, &options)?;
    let mut patience = Patience::new(shared, options);
    let taken = Rates(rates).acquire(&mut patience).await?;
    TakenRates::settle(shared, &taken);
    Ok(taken)
}

/// Refuses what can't be acquired.
fn check(
    shared: &Shared,
    first: &LockKey,
    rates: &[TakeSpec],
    options: &Options,
) -> Result<(), LockError> {
    options.check(false)?;
    shared.client.check_not_forked(Step::Acquire, first)?;
    check_timers()?;
    if !rates.is_empty() && !shared.client.store.has_queue() {
        return Err(LockError::Unsupported { what: "a rate limit" });
    }
    Ok(())
}

/// Sorts both by name. A mutex, a reader or a writer that is named twice counts once.
pub(crate) fn in_order((mut locks, mut rates): SetSpec) -> Result<SetSpec, LockError> {
    let refuse = |problem| Err(LockError::InvalidOption { option: "keys", problem });
    locks.sort_by(|one, other| one.key.cmp(&other.key));
    rates.sort_by(|one, other| one.key.cmp(&other.key));
    locks.dedup_by(|one, other| {
        let counts_once = matches!(one.kind, Kind::Mutex | Kind::Read | Kind::Write);
        one.key == other.key && one.kind == other.kind && counts_once
    });
    let count = locks.len() + rates.len();
    if count == 0 || count > MAX_KEYS {
        return refuse(format!("{count} keys are named; name 1 to {MAX_KEYS}"));
    }
    // A lock and a rate of one name are two things.
    if let Some(pair) = rates.windows(2).find(|pair| pair[0].key == pair[1].key) {
        return refuse(pair[0].rate.named_twice(&pair[1].rate, pair[0].key.name()));
    }
    let Some(pair) = locks.windows(2).find(|pair| pair[0].key == pair[1].key) else {
        return Ok((locks, rates));
    };
    let key = &pair[0].key;
    refuse(match (pair[0].kind, pair[1].kind) {
        (Kind::Semaphore { .. }, Kind::Semaphore { .. }) => {
            format!("`{key}` is named for two permits; name it once, with the weight of both")
        }
        (Kind::Read | Kind::Write, Kind::Read | Kind::Write) => {
            format!("`{key}` is named twice; name it once")
        }
        _ => format!("`{key}` is named for two kinds of lock; one name is one kind"),
    })
}

struct OrderedAcquire<'a> {
    patience: Patience<'a>,
    /// At least one, sorted by name, of which all are different.
    locks: &'a [RequestSpec],
    rates: Rates<'a>,
}

impl OrderedAcquire<'_> {
    async fn acquire(&mut self) -> Result<LeaseSet, LockError> {
        loop {
            if self.patience.shared.client.keeper.shutdown.has_begun() {
                return self.patience.give_up((&self.locks[0]).into(), LockError::ShutDown);
            }
            let mut leases = match self.acquire_atomically().await? {
                Some(leases) => leases,
                None => self.acquire_in_order().await?,
            };
            if leases.is_held() && leases.len() == self.locks.len() {
                if leases.rates().len() < self.rates.0.len() {
                    match self.rates.take(&mut self.patience, false).await? {
                        Ok(rates) => leases.rates = rates,
                        Err((spec, after)) => {
                            let _ = leases.release().await;
                            if after > self.patience.left() {
                                return self.patience.refuse((spec, after));
                            }
                            self.patience.wait_for(spec, after).await?;
                            continue;
                        }
                    }
                }
                if leases.is_held() {
                    TakenRates::settle(self.patience.shared, leases.rates());
                    return Ok(leases);
                }
            }
            // What was lost meanwhile is not used.
            drop(TakenRates::of(self.patience.shared, std::mem::take(&mut leases.rates)));
            // One was lost before all were held, or had ended when it arrived.
            let lost = leases.iter().find(|lease| !lease.is_held()).map(Lease::key);
            let lost = self.locks.iter().find(|spec| Some(&spec.key) == lost);
            let lost = lost.unwrap_or(&self.locks[0]);
            let _ = leases.release().await;
            self.patience.pause(NotGranted::TooLate, lost.into()).await?;
        }
    }

    /// Acquires all by one command, if all are free and nobody waits for any. `None` if they
    /// must be acquired in order.
    async fn acquire_atomically(&mut self) -> Result<Option<LeaseSet>, LockError> {
        let (locks, rates) = (self.locks, self.rates.0);
        if locks.len() + rates.len() == 1 {
            return Ok(None);
        }
        let anew = |patience: &Patience<'_>| AtomicAcquire::new(patience, locks, rates, true);
        let (mut pending, mut found_free) = (anew(&self.patience), 0);
        loop {
            if pending.is_late() {
                pending = anew(&self.patience);
            }
            if self.locks.iter().any(|spec| self.patience.shared.queues.has_waiters(spec)) {
                return Ok(None);
            }
            let (client, ttl) = (&self.patience.shared.client, self.patience.options.first_ttl());
            let limit = self.patience.schedule.time_limit(&*client.store, ttl);
            let of = UnderWay(Some((&locks[0]).into()));
            match of.until(within(limit, pin!(pending.ask()))).await.unwrap_or_else(Err) {
                Ok(Ok(leases)) => {
                    self.patience.count(locks);
                    self.patience.count(rates);
                    return Ok(Some(leases));
                }
                Ok(Err(NotAll::UsedUp(index, after))) => {
                    return self.patience.refuse((&rates[index], after));
                }
                Ok(Err(NotAll::Reserved(index, after))) => {
                    self.patience.wait_for(&rates[index], after).await?;
                }
                Ok(Err(NotAll::Busy(index))) if let Some(spec) = self.locks.get(index) => {
                    if let Err(closed) = client.limits.in_force(&spec.key, spec.kind) {
                        return self.patience.give_up(spec.into(), *closed);
                    }
                    if !self.patience.schedule.is_try() {
                        return Ok(None);
                    }
                    if found_free == locks.len() {
                        let error = self.patience.schedule.refused(spec.key.clone(), ttl);
                        let error =
                            error.of_semaphore(|_| matches!(spec.kind, Kind::Semaphore { .. }));
                        return self.patience.give_up(spec.into(), error);
                    }
                    found_free += 1;
                    // A try asks for the lock alone: for the error, or because it is free by now. Then it tries
                    // all again, once for each: two callers could go on for ever. It may have lingered here.
                    let lease = acquire(self.patience.shared, spec.clone(), self.patience.options);
                    let _ = lease.await?.release_now().await;
                }
                Ok(Err(_)) => return Ok(None),
                // A store may refuse all together and still grant each, for example through a
                // proxy before a cluster. If it does not, the single acquire gives the reason.
                Err(error) if !error.is_passing => return Ok(None),
                Err(error) => {
                    self.patience.pause(NotGranted::Fault(error), (&locks[0]).into()).await?;
                }
            }
        }
    }

    /// Acquires one after another. The set is smaller than asked for if a held lease was lost.
    async fn acquire_in_order(&mut self) -> Result<LeaseSet, LockError> {
        let mut held = LeaseSet::new();
        for spec in self.locks {
            let wait = self.patience.schedule.wait_left(self.patience.shared.client.store.now());
            let next = acquire(
                self.patience.shared,
                spec.clone(),
                Options { wait, ..self.patience.options },
            );
            let next = tokio::select! {
                biased;
                // A try needs no timer; its leases are checked in the end.
                _ = held.lost(), if !self.patience.schedule.is_try() => return Ok(held),
                next = next => next,
            };
            match next {
                Ok(lease) => held.push(lease),
                Err(error) => {
                    // If the store failed, the keeper releases the held leases.
                    if error.is_held_by_another() {
                        let _ = held.release().await;
                    }
                    return Err(self.error_for_all(error));
                }
            }
        }
        Ok(held)
    }

    /// Turns the error of one lock into that of the whole call, with the whole wait.
    fn error_for_all(&self, mut error: LockError) -> LockError {
        if let LockError::Busy { key, held_by_caller, is_semaphore, .. } = &error
            && !self.patience.schedule.is_try()
        {
            let (key, held_by_caller, is_semaphore) = (key.clone(), *held_by_caller, *is_semaphore);
            let (waited, held_by_client) = (self.patience.waited(), false);
            error =
                LockError::TimedOut { key, waited, held_by_caller, held_by_client, is_semaphore };
        }
        if let LockError::TimedOut { waited, .. } = &mut error {
            *waited = self.patience.waited();
        }
        error
    }
}
