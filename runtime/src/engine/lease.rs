//! The guard of an acquired lock, and how it ends.

mod ending;
mod give_way;
mod handle;
#[cfg(feature = "tower")]
mod keep;
#[cfg(feature = "tower")]
mod kept;
mod released;
mod scope;
#[cfg(feature = "macros")]
mod stop_at;
mod tick;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::give_way::give_way;
pub use self::handle::{LeaseHandle, LeaseState};
pub use self::released::Released;
pub(crate) use self::scope::OwnLock;
pub(in crate::engine) use self::scope::Scope;
#[cfg(feature = "macros")]
pub(crate) use self::stop_at::StopAt;
pub use self::tick::Tick;
use super::shared::Shared;
use crate::client::Client;
use crate::core::error::{LockError, LossReason, Step};
use crate::core::fence::Fence;
use crate::core::key::LockKey;
use crate::core::options::Options;
use crate::local_queue::TurnId;
use crate::state::lease::{Grant, LocalLease};
use crate::state::telemetry::Hold;

/// How often a release, or a renewal by hand, is sent before it fails.
const TRIES: u32 = 3;

/// The guard of one acquired lock: the client renews it until it is dropped, and then
/// releases the lock.
///
/// The client renews it every third of its TTL, so you may hold it for longer than the TTL.
/// If the process dies, nobody renews it, and the lock is free after the TTL.
///
/// A drop can't wait for the store. It hands the release to the client's keeper, which
/// works even when the caller's runtime is gone. If the thread that dropped the lease ends
/// meanwhile, its end waits for the release, for at most 2 seconds. Call
/// [`release`](Self::release) to learn whether the lock was held to the end.
///
/// **Bind it to a name.** `let _ = mutex.lock().await?` drops the lease in the same statement. The
/// compiler says nothing about that, and even proposes it where a lease is not used: no library can
/// change this. Write `let _lease`, or call [`run`](crate::Mutex::run), which has no guard to lose.
/// `#![warn(let_underscore_drop)]` in your crate finds such lines.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// let locks = leasehold::Locks::in_memory();
/// let lease = locks.mutex("order:42").lock().await?;
/// println!("write with the fencing token {}", lease.fence()?);
/// lease.release().await?; // or drop it
/// # Ok(())
/// # }
/// ```
#[must_use = "a lock is released as soon as its lease is dropped: write `let _lease = ...`; `let _ = ...` releases it at once"]
pub struct Lease {
    shared: Arc<Shared>,
    handle: LeaseHandle,
    /// The work that its drop has to do.
    rest: Rest,
    /// The turn in which this process may hand it over to its next waiter.
    pub(super) turn: Option<TurnId>,
    /// How long it may stay with this process after its release.
    linger: Duration,
    hold: Hold,
}

/// The work that is left to do about a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Release it.
    Release,
    /// Release it, and mark its work as done.
    Complete,
    /// Release it as if it had never been granted: `hold_at_least` does not apply.
    TakeBack,
    /// Nothing.
    Nothing,
}

impl Lease {
    pub(crate) fn new(shared: &Arc<Shared>, granted: Grant, options: &Options) -> Self {
        let (client, times, place) = (&shared.client, granted.times, granted.place);
        let local = Arc::new(LocalLease::new(&client.leases, granted, options));
        #[cfg(feature = "metrics")]
        local.show_if_handled_late();
        client.keeper.watch(&local, local.first_due(times), place);
        Self {
            shared: shared.clone(),
            handle: LeaseHandle::new(local),
            rest: Rest::Release,
            turn: None,
            linger: options.linger,
            hold: Hold::none(),
        }
    }

    /// Begins its span, when its caller gets it.
    pub(crate) fn begin_hold(mut self) -> Self {
        let local = self.local();
        let hold = Hold::new(&local.request, local.fence);
        if let Some(id) = hold.id() {
            let _ = local.hold.set(id);
        }
        if local.is_replaceable() {
            give_way(&self.shared.client, local);
        }
        self.hold = hold;
        self
    }

    /// The span in which its work runs.
    pub(crate) fn hold(&self) -> &Hold {
        &self.hold
    }

    /// The lease of a grant, or nothing if it has ended by `now`. Then the grant is taken
    /// back, and because nobody has worked under it, `hold_at_least` does not apply. Its turn
    /// ends with it.
    pub(crate) fn unless_over(
        shared: &Arc<Shared>,
        granted: Grant,
        now: Instant,
        turn: Option<TurnId>,
        options: &Options,
    ) -> Option<Self> {
        let mut lease = Self::new(shared, granted, options);
        lease.turn = turn;
        if !lease.local().was_over(now) && lease.local().is_held_at(now) {
            return Some(lease);
        }
        lease.rest = Rest::TakeBack;
        None
    }

    /// The name of the lock.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        self.handle.key()
    }

    /// The fencing token, for the resource to check.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] once the lease is lost: the token is useless.
    /// - [`LockError::NotFenced`] for a permit or a reader's lease, because several are
    ///   held at the same time.
    pub fn fence(&self) -> Result<Fence, LockError> {
        self.handle.fence()
    }

    /// The time until the lease ends, unless it is renewed before. Zero when it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.handle.remaining()
    }

    /// Returns true while the lease is held, by this process's own clock. No command is
    /// sent.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.handle.is_held()
    }

    /// The state of the lease: held, suspect, lost or released, by this process's own
    /// clock. No command is sent.
    #[must_use]
    pub fn state(&self) -> LeaseState {
        self.handle.state()
    }

    /// Waits until the lease is lost: its deadline has passed, or the store has said so. It
    /// is pending for ever if that never happens.
    ///
    /// # Panics
    ///
    /// If it has to wait outside of a Tokio runtime with timers.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let locks = leasehold::Locks::in_memory();
    /// let lease = locks.mutex("order:42").lock().await?;
    /// tokio::select! {
    ///     reason = lease.lost() => println!("stop: {reason}"),
    ///     () = std::future::ready(()) => println!("the work is done"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lost(&self) -> LossReason {
        self.handle.lost().await
    }

    /// A handle that observes the lease, and neither keeps nor ends it.
    #[must_use]
    pub fn handle(&self) -> LeaseHandle {
        self.handle.clone()
    }

    /// Its handle, without a copy of it.
    pub(crate) fn as_handle(&self) -> &LeaseHandle {
        &self.handle
    }

    /// Runs a function under the lease, as its handle does. If it `lasts`, the function is a part
    /// of work that ends with the lease at the latest.
    #[cfg(feature = "tower")]
    pub(crate) fn sync_scope<R>(&self, lasts: bool, work: impl FnOnce() -> R) -> R {
        let _in_span = self.hold.enter();
        self.handle.sync_scope_of(lasts, work)
    }

    fn client(&self) -> &Client {
        &self.shared.client
    }

    pub(in crate::engine) fn local(&self) -> &Arc<LocalLease> {
        self.handle.local()
    }

    fn check(&self, step: Step) -> Result<(), LockError> {
        self.client().check_not_forked(step, self.key())
    }

    fn lost_by(&self, reason: LossReason) -> LockError {
        LockError::Lost { key: self.key().clone(), reason }
    }

    fn end_turn(&self, turn: Option<TurnId>) {
        if let Some(turn) = turn {
            self.shared.queues.end_turn(&self.local().request, turn);
        }
    }

    /// Ends the renewals. Returns false if the lease was lost before.
    fn stop(&self, now: Instant) -> bool {
        let was_held = self.local().begin_release(now);
        self.client().keeper.forget(self.local());
        was_held
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.rest != Rest::Nothing {
            // A copy in a process that was forked off is not the lease.
            if self.client().keeper.is_forked() {
                return;
            }
            let now = self.client().store.now();
            let has_ended = self.local().has_ended();
            let was_held = self.local().begin_release(now);
            let may_stay = was_held && self.rest == Rest::Release;
            if may_stay && self.hand_over(now).is_some() {
                return;
            }
            self.client().keeper.forget(self.local());
            // Work that was cut off by a loss does not count as done.
            if self.rest == Rest::Complete && (was_held || has_ended) {
                self.client().keeper.complete_later(self.local());
            } else if !(may_stay && self.linger_later(now)) {
                self.client().keeper.release_later(self.local(), self.rest != Rest::TakeBack);
            }
        }
        self.end_turn(self.turn);
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.show("Lease", f)
    }
}

// Their methods follow in this order in rustdoc.
mod run;

mod closure;

mod release;

mod renew;

mod complete;

mod detach;
