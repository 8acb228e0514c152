//! Several mutexes, all or none, with one wait for all.
//!
//! Where all are free, one command takes them. Else they are taken one after another,
//! each through its own queue, and in the same order by everybody: whoever waits for
//! one has none that comes after it, so no two wait for each other.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::backoff::{Backoff, NotGranted};
use super::multi_atomic::AtomicAcquire;
use super::single::acquire;
use super::time_limit::within;
use crate::core::error::{LockError, Step};
use crate::core::key::LockKey;
use crate::core::options::{Options, Wait};
use crate::engine::lease::{Lease, LeaseHandle};
use crate::engine::lease_set::LeaseSet;
use crate::engine::shared::Shared;
use crate::state::telemetry;
use crate::store::{Kind, Wanted};

/// How many there may be: a script that takes more would keep the server from others.
const MAX_KEYS: usize = 64;

/// Acquires all of them, within the options' wait.
///
/// # Cancel safety
///
/// Dropping it at any point leaves nothing held: what it has is released, and what it
/// has begun is taken back.
pub(crate) async fn acquire_all(
    shared: &Arc<Shared>,
    mut keys: Vec<LockKey>,
    options: Options,
) -> Result<LeaseSet, LockError> {
    let client = &shared.client;
    options.check()?;
    keys.sort_unstable();
    keys.dedup();
    if keys.is_empty() || keys.len() > MAX_KEYS {
        return Err(LockError::InvalidOption {
            option: "keys",
            problem: format!("{} of them; name from 1 to {MAX_KEYS}", keys.len()),
        });
    }
    client.check_not_forked(Step::Acquire, &keys[0])?;
    let begun = client.store.now();
    let backoff = Backoff::new(begun, options.wait);
    OrderedAcquire { shared, keys: &keys, options, begun, backoff }.acquire().await
}

struct OrderedAcquire<'a> {
    shared: &'a Arc<Shared>,
    /// In order, each once.
    keys: &'a [LockKey],
    options: Options,
    begun: Instant,
    backoff: Backoff,
}

impl OrderedAcquire<'_> {
    async fn acquire(&mut self) -> Result<LeaseSet, LockError> {
        loop {
            if self.shared.client.keeper.shutdown.has_begun() {
                return Err(LockError::ShutDown);
            }
            let leases = match self.acquire_atomically().await? {
                Some(leases) => leases,
                None => self.acquire_in_order().await?,
            };
            if leases.is_held() && leases.iter().len() == self.keys.len() {
                return Ok(leases);
            }
            // One of them was lost before all were there, or was over when it came.
            let lost = leases.iter().find(|lease| !lease.is_held()).map(Lease::key);
            let lost = lost.unwrap_or(&self.keys[0]).clone();
            let _ = leases.release().await;
            self.pause(NotGranted::TooLate, &lost).await?;
        }
    }

    /// By one command, if all are free and nobody waits for any.
    async fn acquire_atomically(&mut self) -> Result<Option<LeaseSet>, LockError> {
        let [first, _, ..] = self.keys else { return Ok(None) };
        let mut pending = AtomicAcquire::new(self.shared, self.keys, self.options);
        loop {
            if self.keys.iter().any(|key| self.shared.queues.has_waiters(&wanted(key))) {
                return Ok(None);
            }
            let store = &*self.shared.client.store;
            let limit = self.backoff.time_limit(store, self.options.first_ttl());
            match within(limit, pin!(pending.ask())).await.unwrap_or_else(Err) {
                Ok(Ok(leases)) => {
                    let waited = self.waited();
                    for _ in self.keys {
                        telemetry::acquired(Kind::Mutex, || waited, &Ok(()));
                    }
                    return Ok(Some(leases));
                }
                Ok(Err(place)) => match place.and_then(|place| self.keys.get(place)) {
                    Some(key) if self.backoff.is_try() => self.refuse(key).await?,
                    _ => return Ok(None),
                },
                // What is refused for all of them may be granted for each, as by a proxy
                // before a cluster; if not, that says why.
                Err(error) if !error.is_passing => return Ok(None),
                Err(error) => self.pause(NotGranted::Fault(error), first).await?,
            }
        }
    }

    /// Why one of them is not to be had, for a call that does not wait. Nothing if it has
    /// become free by now: then all are asked for again.
    async fn refuse(&mut self, key: &LockKey) -> Result<(), LockError> {
        let lease = acquire(self.shared, wanted(key), self.options).await?;
        let _ = lease.release().await;
        self.pause(NotGranted::TooLate, key).await
    }

    /// One after another. They are fewer than all if one that it had was lost.
    async fn acquire_in_order(&mut self) -> Result<LeaseSet, LockError> {
        let mut held = LeaseSet::new();
        for key in self.keys {
            let wait = match self.options.wait {
                Wait::For(_) => Wait::For(self.backoff.left(self.shared.client.store.now())),
                Wait::Forever => Wait::Forever,
            };
            let next = acquire(self.shared, wanted(key), Options { wait, ..self.options });
            let next = tokio::select! {
                biased;
                // A try needs no timer; what it has is looked at in the end.
                _ = held.lost(), if !self.backoff.is_try() => return Ok(held),
                next = next => next,
            };
            match next {
                Ok(lease) => held.push(lease),
                Err(error) => {
                    // A store that failed is left to the keeper.
                    if error.is_held_by_another() {
                        let _ = held.release().await;
                    }
                    return Err(self.error_for_all(error));
                }
            }
        }
        Ok(held)
    }

    /// The error of one, with the time that was waited for all.
    fn error_for_all(&self, error: LockError) -> LockError {
        match error {
            LockError::Busy { key, .. } | LockError::TimedOut { key, .. }
                if !self.backoff.is_try() =>
            {
                let held_by_caller = LeaseHandle::is_around(self.shared.client.id, &key);
                LockError::TimedOut { key, waited: self.waited(), held_by_caller }
            }
            error => error,
        }
    }

    /// Pauses before all is asked for again, if there is time left.
    async fn pause(&mut self, refusal: NotGranted, key: &LockKey) -> Result<(), LockError> {
        let Some(pause) = self.backoff.next(self.shared.client.store.now(), &refusal, true) else {
            let refused = Err(refusal.into_error(key.clone(), &self.backoff));
            telemetry::acquired(Kind::Mutex, || self.waited(), &refused);
            return refused;
        };
        // A try needs no timer.
        if !pause.is_zero() {
            tokio::select! {
                () = sleep(pause) => {}
                () = self.shared.client.keeper.shutdown.begun() => return Err(LockError::ShutDown),
            }
        }
        Ok(())
    }

    fn waited(&self) -> Duration {
        self.shared.client.store.now().saturating_duration_since(self.begun)
    }
}

fn wanted(key: &LockKey) -> Wanted {
    Wanted { key: key.clone(), kind: Kind::Mutex, owner: None }
}
