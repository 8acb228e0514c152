//! The guard: what acquiring gives, and what ends it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::keeper::why;
use crate::locks::Client;
use crate::options::Options;
use crate::store::{Ended, Request};
use crate::term::Term;
use crate::{Fence, LockError, LockKey, LossReason, Outcome, Step};

/// How often a release is sent before it is left to the keeper.
const TRIES: u32 = 3;

/// The right to a lock, for as long as it is renewed: released when dropped.
///
/// The client renews it every third of its TTL until it is released, so it
/// may be held for longer than the TTL; a process that dies stops renewing,
/// and the lock is free after the TTL.
///
/// Dropping cannot wait for the store, so it hands the release to the keeper,
/// which also serves when the caller's runtime is gone, and makes the thread
/// it was dropped on wait for it, for at most 2 seconds, when that thread
/// ends. Call [`release`](Self::release) to learn whether the lock was held to
/// the end.
#[must_use = "a lock is released as soon as its lease is dropped: bind it to a name such as `_lease`, and not to `_`"]
pub struct Lease {
    client: Arc<Client>,
    term: Arc<Term>,
    /// Until when the lock stays held, even if it is released before.
    keep_until: Option<Instant>,
    /// The store has answered a release: nothing is left to be done.
    is_settled: bool,
}

/// How a lease came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    /// When the command was sent that it goes back to; an offer: when it was heard
    /// of.
    pub(crate) sent: Instant,
    /// When it must be regarded as ended, unless it is renewed.
    pub(crate) deadline: Instant,
    /// When it is to be renewed for the first time; an offer at once, which
    /// confirms it.
    pub(crate) renew: Instant,
}

impl Lease {
    pub(crate) fn new(
        client: Arc<Client>,
        request: Request,
        fence: Option<Fence>,
        Grant { sent, deadline, renew }: Grant,
        options: Options,
    ) -> Self {
        let received = client.store.now();
        // Counted from when the grant was received: the later stamp is the
        // safe one here.
        let keep_until =
            (!options.hold_at_least.is_zero()).then(|| received + options.hold_at_least);
        let term = Arc::new(Term::new(client.store.clone(), request, fence, sent, deadline));
        client.keeper.watch(&term, renew);
        Self { client, term, keep_until, is_settled: false }
    }

    /// Takes back a lease that was over when it came: nobody has worked under
    /// it, so nothing is kept.
    pub(crate) fn discard(mut self) {
        self.keep_until = None;
    }

    /// The lock.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        &self.term.request.key
    }

    /// The fencing token, for the resource to check.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] once the lease is lost: its token is of no use.
    /// - [`LockError::NotFenced`] for a permit or a reader's lease, of which several
    ///   are out.
    pub fn fence(&self) -> Result<Fence, LockError> {
        fence(&self.term)
    }

    /// How long it lasts, unless it is renewed before; zero when it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.term.remaining()
    }

    /// Whether it is held now, by this process's own clock: no command is sent.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.term.is_held()
    }

    /// Resolves when the lease is lost: when its deadline has passed, or the
    /// store has said so. It is pending for ever if it is not.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is lost when it is dropped.
    pub async fn lost(&self) -> LossReason {
        self.term.lost().await
    }

    /// Runs a future under the lease, and drops it when the lease is lost.
    ///
    /// The deadline is checked before each poll, so that work which was stopped
    /// past it does not go on.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lease was lost before the future was ready.
    ///
    /// # Cancel safety
    ///
    /// As safe as the future: it is dropped with this one.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockError> {
        let mut work = pin!(work);
        let mut loss = pin!(self.term.lost());
        poll_fn(|context| {
            if let Poll::Ready(reason) = loss.as_mut().poll(context) {
                return Poll::Ready(Err(LockError::Lost { key: self.key().clone(), reason }));
            }
            if !self.term.is_held() {
                // It is lost, and how will be known soon.
                return Poll::Pending;
            }
            work.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// A handle that tells about the lease, and neither keeps nor ends it.
    #[must_use]
    pub fn handle(&self) -> LeaseHandle {
        LeaseHandle { term: self.term.clone() }
    }

    /// Releases the lock and waits for the store's answer.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if the lease had ended before: the work was not
    ///   protected to its end.
    /// - [`LockError::Store`] if the store failed. The keeper goes on trying
    ///   until the TTL is over.
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped, the lease inside it is dropped too, and
    /// the keeper releases the lock.
    pub async fn release(mut self) -> Result<Released, LockError> {
        let key = self.key().clone();
        let was_held = self.stop();
        if !was_held && let Some(reason) = self.term.loss() {
            return Err(LockError::Lost { key, reason });
        }
        let mut tries_left = TRIES;
        let mut is_unconfirmed = false;
        loop {
            tries_left -= 1;
            let now = self.client.store.now();
            let keep = self.keep_until.map(|end| end.saturating_duration_since(now));
            match self.client.store.release(&self.term.request, keep.unwrap_or_default()).await {
                Err(error) if error.is_passing && tries_left > 0 => {
                    is_unconfirmed |= error.outcome == Outcome::Unknown;
                }
                Err(error) => return Err(LockError::store(Step::Release, &key, error)),
                Ok(answer) => {
                    self.is_settled = true;
                    return match answer {
                        Ended::Kept => Ok(Released::Kept),
                        Ended::StillHeld(left) => Ok(Released::StillHeld(left)),
                        Ended::NotHeld(reason) if !is_unconfirmed || !was_held => {
                            let request = &self.term.request;
                            let reason = why(&self.client.store, request, reason).await;
                            Err(LockError::Lost { key, reason })
                        }
                        // Not held after a release that had no answer, and not known
                        // to be lost before: that one did it.
                        Ended::Released | Ended::NotHeld(_) => Ok(Released::Free),
                    };
                }
            }
        }
    }

    /// Ends the renewals; false if the lease was lost before.
    fn stop(&self) -> bool {
        let was_held = self.term.end();
        self.client.keeper.forget(&self.term);
        was_held
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.is_settled {
            self.stop();
            self.client.keeper.release_later(&self.term, self.keep_until);
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(&self.term, "Lease", f)
    }
}

/// What a release did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The lease has ended, and the lock is free for others.
    Free,
    /// This hold has ended, and so many others of its owner are left: of a reentrant
    /// mutex alone.
    StillHeld(u32),
    /// It stays held, without a holder, for the rest of `hold_at_least`.
    Kept,
}

/// Tells about a lease: cheap to clone, and free to outlive it.
#[derive(Clone)]
pub struct LeaseHandle {
    term: Arc<Term>,
}

impl LeaseHandle {
    /// The lock.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        &self.term.request.key
    }

    /// The fencing token, for the resource to check.
    ///
    /// # Errors
    ///
    /// As of [`Lease::fence`].
    pub fn fence(&self) -> Result<Fence, LockError> {
        fence(&self.term)
    }

    /// How long the lease lasts, unless it is renewed before; zero when it was
    /// lost or released.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.term.remaining()
    }

    /// Whether the lease is held now: neither lost nor released.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.term.is_held()
    }

    /// Resolves when the lease is lost; it is pending for ever if it is
    /// released before.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is lost when it is dropped.
    pub async fn lost(&self) -> LossReason {
        self.term.lost().await
    }
}

impl fmt::Debug for LeaseHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(&self.term, "LeaseHandle", f)
    }
}

fn fence(term: &Term) -> Result<Fence, LockError> {
    let key = || term.request.key.clone();
    if let Some(reason) = term.loss().or_else(|| term.gone()) {
        return Err(LockError::Lost { key: key(), reason });
    }
    term.fence.ok_or_else(|| LockError::NotFenced { key: key() })
}

fn show(term: &Term, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.debug_struct(name)
        .field("key", &term.request.key)
        .field("fence", &term.fence)
        .field("remaining", &term.remaining())
        .finish_non_exhaustive()
}
