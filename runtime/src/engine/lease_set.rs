//! The guard of several: the leases of mutexes that were acquired together.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;

use super::lease::Lease;
use crate::core::error::{LockError, LossReason};
use crate::core::fence::Fence;
use crate::core::key::LockKey;

/// The right to several mutexes, from [`MultiLock`](crate::MultiLock): each is a
/// [`Lease`] of its own, with a fencing token of its own, and is renewed by itself.
///
/// What they guard together is guarded as long as all are held: they are lost when one
/// of them is. The others then stay held until they are released or dropped.
///
/// Dropping releases all of them in the background, as of [`Lease`].
#[derive(Debug)]
#[must_use = "the locks are released as soon as their leases are dropped: bind them to a name such as `_leases`, and not to `_`"]
pub struct LeaseSet {
    /// In the order of their names.
    leases: Vec<Lease>,
}

impl LeaseSet {
    /// Of nothing yet.
    pub(crate) const fn new() -> Self {
        Self { leases: Vec::new() }
    }

    pub(crate) fn push(&mut self, lease: Lease) {
        self.leases.push(lease);
    }

    /// The leases one by one, in the order of their names.
    pub fn iter(&self) -> std::slice::Iter<'_, Lease> {
        self.leases.iter()
    }

    /// The fencing token of one of them, for the resource that it guards to check.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] once one of them is lost, be it another.
    /// - [`LockError::InvalidOption`] if it is none of them.
    pub fn fence(&self, key: impl AsRef<str>) -> Result<Fence, LockError> {
        let name = key.as_ref();
        // First of all what was lost, whichever that is.
        let fences: Vec<_> = self.iter().map(Lease::fence).collect::<Result<_, _>>()?;
        let at = self.leases.binary_search_by(|lease| lease.key().name().cmp(name));
        at.map(|at| fences[at]).map_err(|_| LockError::InvalidOption {
            option: "key",
            problem: format!("`{name}` is none of the locks that these leases are of"),
        })
    }

    /// How long all of them last, unless they are renewed before: the least of them;
    /// zero when one is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.iter().map(Lease::remaining).min().unwrap_or_default()
    }

    /// Whether all of them are held now, by this process's own clock: no command is
    /// sent.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.iter().all(Lease::is_held)
    }

    /// Resolves when the first of them is lost, as of [`Lease::lost`]: which one, and
    /// how. It is pending for ever if none is.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is lost when it is dropped.
    pub async fn lost(&self) -> (LockKey, LossReason) {
        let of_one = async |lease: &Lease| (lease.key().clone(), lease.lost().await);
        let mut losses: FuturesUnordered<_> = self.iter().map(of_one).collect();
        match losses.next().await {
            Some(lost) => lost,
            None => pending().await,
        }
    }

    /// Runs a future under the leases, and drops it when one of them is lost.
    ///
    /// The deadlines are checked before each poll, so that work which was stopped past
    /// one of them does not go on.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if one was lost before the future was ready.
    ///
    /// # Cancel safety
    ///
    /// As safe as the future: it is dropped with this one.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockError> {
        let mut work = pin!(work);
        let mut loss = pin!(self.lost());
        poll_fn(|context| {
            if let Poll::Ready((key, reason)) = loss.as_mut().poll(context) {
                return Poll::Ready(Err(LockError::Lost { key, reason }));
            }
            if !self.is_held() {
                // One is lost, and how will be known soon.
                return Poll::Pending;
            }
            work.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Releases all of them at the same time, and waits for the store's answers.
    ///
    /// # Errors
    ///
    /// As of [`Lease::release`]: the first in the order of their names, once all were
    /// tried.
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped, the keeper releases what was not released yet.
    pub async fn release(self) -> Result<(), LockError> {
        let released = join_all(self.leases.into_iter().map(Lease::release)).await;
        released.into_iter().try_for_each(|released| released.map(drop))
    }
}

impl<'a> IntoIterator for &'a LeaseSet {
    type Item = &'a Lease;
    type IntoIter = std::slice::Iter<'a, Lease>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
