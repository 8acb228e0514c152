//! All options of a layer but the key, and what they make of a request.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::request::Parts;
use http::{Method, Request, Response};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::answer::{Answer, KeptParts, OnRefused, copy_parts};
use super::demand::{Demand, assert_none};
use super::grpc;
use super::held::Held;
use super::hold::{HoldUntil, OnLost};
use super::identity::{Identify, Identity};
use super::key::KeyError;
use super::layer_lock::LayerLock;
use super::outage::{Outage, Part, Way};
use super::read_ahead::ReadAhead;
use super::reject::{Refusal, log_label};
use super::request_lock::{Handle as LockHandle, LayerKind, RequestLock, Share};
use super::telemetry;
use super::upgrade::{Warned, is_upgrade};
use super::waiters::{Acquire, Denied, WaiterSlot, Waiters};
use crate::api::lock_options::LockOptions;
use crate::api::lock_spec::LockSpec;
use crate::api::locks::Locks;
use crate::api::multi_lock::MultiLock;
use crate::api::mutex::Mutex;
use crate::api::rw_lock::RwLock;
use crate::api::semaphore::Semaphore;
use crate::core::error::{LockError, Quiet};
use crate::core::key::LockKey;
use crate::core::log_rate::seldom;
use crate::core::options::Wait;

/// How many requests may wait by default, beyond a semaphore's permits.
const MAX_WAITERS: usize = 256;

/// All options of a layer but the key.
#[derive(Clone)]
// Apart from the count of its `Arc`, which every lease changes on some core.
#[repr(align(64))]
pub(super) struct Policy {
    pub(super) locks: Locks,
    /// The key, if it is one plain name: the same for all requests.
    pub(super) name: Option<LockKey>,
    pub(super) demand: Demand,
    /// The locks of a layer with several, which have keys of their own.
    pub(super) set: Option<Arc<[LayerLock]>>,
    /// The options of each lock. Its owner and its note are those of the request.
    pub(super) given: LockOptions,
    /// `None` is the default.
    pub(super) max_waiters: Option<usize>,
    /// So many bytes of the body of a request that waits.
    pub(super) read_ahead: usize,
    /// How long a handler may take.
    pub(super) timeout: Option<Duration>,
    /// The waiters of this layer and all its clones.
    pub(super) waiters: Waiters,
    pub(super) hold_until: HoldUntil,
    pub(super) on_lost: OnLost,
    pub(super) warned: Warned,
    pub(super) identify: Identify,
    pub(super) fails_open: bool,
    /// The store is known to be out of reach.
    pub(super) outage: Outage,
    pub(super) on_refused: Option<OnRefused>,
    /// The lock of that one name, once it was needed. A change of an option forgets it.
    pub(super) fixed: OnceLock<RequestLock>,
}

impl Policy {
    /// Panics if no request could ever get its lock. Each option is judged where it is set: axum may
    /// build a route with its first connection, where a panic ends the process.
    #[track_caller]
    pub(crate) fn assert_possible(&self) {
        let is_of_mutex = matches!(self.demand.kind, LayerKind::Mutex);
        assert_none(self.given.check(is_of_mutex).err());
    }

    /// The lock, if it is the same for all requests, and all take as much of it and are
    /// nobody in particular.
    pub(super) fn fixed(&self) -> Option<&RequestLock> {
        let is_nobody = self.identify.owner.is_none() && self.identify.note.is_none();
        let is_fixed = self.demand.is_fixed() && is_nobody;
        let name = self.name.as_ref().filter(|_| is_fixed)?;
        let lock = || self.lock(name.clone(), self.demand.kind, Identity::default());
        Some(self.fixed.get_or_init(lock))
    }

    /// The lock of this name, for a request.
    pub(super) fn lock(&self, key: LockKey, kind: LayerKind, identity: Identity) -> RequestLock {
        let key = self.given.labelled(key);
        let given = self.given(identity);
        let spec = LockSpec::with(self.locks.shared(), key.clone(), given);
        let handle = match kind {
            LayerKind::Mutex => LockHandle::Mutex(Mutex::new(spec)),
            LayerKind::Semaphore { limit } => LockHandle::Semaphore(Semaphore::new(spec, limit)),
            LayerKind::RwLock => LockHandle::RwLock(RwLock::new(spec)),
            LayerKind::Set | LayerKind::Rate { .. } => unreachable!("a set has no key of its own"),
        };
        RequestLock { key, handle }
    }

    /// The locks of a layer with several, for a request. `None` if it needs none of them.
    pub(super) fn set(
        &self,
        set: &[LayerLock],
        parts: &mut Parts,
    ) -> Result<Option<RequestLock>, Refusal> {
        let given = self.given(self.identify.read(parts));
        let mut locks = MultiLock::of(self.locks.shared(), Vec::new(), given);
        let mut first = None;
        for lock in set {
            if let Some(key) = lock.key(parts)? {
                first.get_or_insert_with(|| self.given.labelled(key.clone()));
                locks = lock.add_to(locks, key, parts)?;
            }
        }
        Ok(first.map(|key| RequestLock { key, handle: LockHandle::Set(locks) }))
    }

    /// The options of a request's lock.
    fn given(&self, Identity { owner, note }: Identity) -> LockOptions {
        let mut given = self.given.of(owner, note.as_deref());
        if self.max_waiters == Some(0) {
            given.options = given.options.at_once();
        }
        given
    }

    pub(super) fn acquire(&self, lock: RequestLock, share: Share) -> Acquire {
        let waits =
            self.max_waiters != Some(0) && self.given.options.wait != Wait::For(Duration::ZERO);
        let slot = waits
            .then(|| WaiterSlot::new(&self.waiters, lock.bounds(|limit| self.max_waiters(limit))));
        if !self.fails_open {
            return lock.acquire(share, slot);
        }
        let (outage, parts, label) = (self.outage.clone(), self.parts(&lock), lock.key.log_label());
        Box::pin(async move {
            let begun = Instant::now();
            let answer = lock.acquire(share, slot).await;
            match &answer {
                Err(Denied::Because(error)) if error.is_outage() => {
                    outage.failed(parts, begun, label, error);
                }
                // None of these errors shows that the store answered.
                Err(
                    Denied::Because(
                        LockError::ShutDown
                        | LockError::Closed { .. }
                        | LockError::InvalidKey { .. }
                        | LockError::InvalidOption { .. }
                        | LockError::Unsupported { .. },
                    )
                    | Denied::Crowded { .. },
                ) => {}
                Err(Denied::Because(LockError::RateLimited { .. })) if waits => {}
                Err(Denied::Because(error)) if error.is_held_by_caller() => {}
                Ok(_) | Err(Denied::Because(_)) => {
                    parts.for_each(|part| outage.settled(&part, begun, label));
                }
            }
            answer
        })
    }

    /// Returns true if a request passes at once without its lock: the store is known to be out
    /// of reach. What would be refused without the store does not pass.
    pub(super) fn passes(&self, lock: &RequestLock, share: Share) -> bool {
        if !self.fails_open || !self.outage.is_known() {
            return false;
        }
        // What would be refused without the store does not pass.
        let parts = self.parts(lock).filter(|part| lock.look(part, share).is_some());
        match self.outage.way(parts) {
            Way::Ask => return false,
            Way::Pass => {}
            Way::Look(looking) => {
                let asked = lock.look(looking.part(), share);
                if let (Some(asked), Ok(runtime)) = (asked, Handle::try_current()) {
                    runtime.spawn(async move { looking.found(asked.finds_answer().await) });
                }
            }
        }
        telemetry::passed_open(self.demand.kind.name(), lock.key.log_label());
        true
    }

    /// What fails together with each of a request's locks.
    fn parts(&self, lock: &RequestLock) -> impl Iterator<Item = Part> + Send + use<> {
        let fails_alone = !self.locks.fails_as_one();
        let first = fails_alone.then(|| lock.key.clone());
        // A single lock has no others, so nothing is allocated.
        let others = if fails_alone { lock.other_keys() } else { Vec::new() };
        std::iter::once(first).chain(others.into_iter().map(Some))
    }

    /// How many requests may wait for a lock, which may be a semaphore of this limit.
    fn max_waiters(&self, limit: Option<u32>) -> usize {
        self.max_waiters.unwrap_or_else(|| {
            let limit = limit.map_or(Ok(0), usize::try_from);
            limit.map_or(usize::MAX, |limit| limit.saturating_add(MAX_WAITERS))
        })
    }

    /// Lets a request pass without a lock, or returns its refusal.
    pub(super) fn judge(&self, denied: Denied, lock: &'static str) -> Result<(), Refusal> {
        let error = match denied {
            Denied::Because(error) => error,
            Denied::Crowded { key, is_semaphore } => {
                return Err(Refusal::crowded(key, is_semaphore));
            }
        };
        let error = match error {
            // The request says who owns its lease.
            LockError::InvalidOption { option: "owner", problem }
                if self.identify.owner.is_some() =>
            {
                return Err(Refusal::NoOwner(KeyError::new(problem)));
            }
            // Another request of the same owner holds it.
            error @ LockError::WouldDeadlock { .. } if self.identify.owner.is_some() => {
                return Err(Refusal::Held(error));
            }
            error => error,
        };
        let lock = log_label(&error).unwrap_or(lock);
        match Refusal::from(error) {
            Refusal::Unavailable(error) if self.fails_open && error.is_store_failure() => {
                telemetry::passed_open(self.demand.kind.name(), lock);
                // In an outage its beginning and its end are logged.
                if !error.is_outage()
                    && let Some(left_out) = seldom("passed", lock)
                {
                    let error = Quiet(&error);
                    tracing::warn!(lock, left_out, %error, "a request passes without its lock: the lock store failed");
                }
                Ok(())
            }
            refusal => Err(refusal),
        }
    }

    /// What the handler does not go on without.
    pub(super) fn needed<'a>(&self, held: Option<&'a Held>) -> Option<&'a Held> {
        held.filter(|held| self.on_lost == OnLost::Cancel && !held.is_empty())
    }

    /// Returns true if the lease is for as long as the connection that this response opens.
    pub(super) fn keeps_upgraded<B>(&self, method: &Method, response: &Response<B>) -> bool {
        self.hold_until == HoldUntil::BodyEnd && is_upgrade(method, response)
    }

    /// Logs it if a handler has finished after its lock was lost.
    pub(super) fn note_loss(held: Option<&Held>) {
        if let Some(held) = held.filter(|held| !held.is_held()) {
            let lock = held.log_label();
            tracing::warn!(lock, "a request finished after its lock was lost");
        }
    }

    /// Returns true if a function of the program answers refused requests.
    fn has_own_answers(&self, is_grpc: bool) -> bool {
        !is_grpc && self.on_refused.is_some()
    }

    /// The head of a request that goes to the inner service, if the program answers for a handler that
    /// is stopped. Others pay nothing for it.
    pub(super) fn keep_parts<A>(
        &self,
        held: Option<&Held>,
        is_grpc: bool,
        request: Request<A>,
    ) -> (Request<A>, KeptParts) {
        let may_be_stopped = self.timeout.is_some() || self.needed(held).is_some();
        if self.has_own_answers(is_grpc) && may_be_stopped {
            copy_parts(request)
        } else {
            (request, None)
        }
    }

    /// Answers a request that the inner service has not got.
    pub(super) fn refuse<A: 'static>(
        &self,
        refusal: Refusal,
        is_grpc: bool,
        lock: &'static str,
        mut request: Request<A>,
    ) -> Answer {
        if !self.has_own_answers(is_grpc) {
            return self.answer(refusal, is_grpc, lock, None, None);
        }
        let unread = ReadAhead::begin(&mut request);
        self.answer(refusal, is_grpc, lock, Some(Box::new(request.into_parts().0)), unread)
    }

    /// Answers a refused request.
    pub(super) fn answer(
        &self,
        refusal: Refusal,
        is_grpc: bool,
        lock: &'static str,
        parts: KeptParts,
        unread: Option<Box<ReadAhead>>,
    ) -> Answer {
        // A set may be refused because of another lock than its first.
        telemetry::refused(&refusal, refusal.log_label().unwrap_or(lock));
        match (&self.on_refused, parts) {
            _ if is_grpc => Answer::BuiltIn(Some(grpc::response(&refusal))),
            (Some(own), Some(parts)) => own.answer(refusal, *parts, unread),
            _ => Answer::BuiltIn(Some(refusal.to_response())),
        }
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("locks", &self.locks)
            .field("kind", &self.demand)
            .field("set", &self.set)
            .field("given", &self.given)
            .field("max_waiters", &self.max_waiters)
            .field("read_ahead", &self.read_ahead)
            .field("timeout", &self.timeout)
            .field("hold_until", &self.hold_until)
            .field("on_lost", &self.on_lost)
            .field("fails_open", &self.fails_open)
            .finish_non_exhaustive()
    }
}
