//! An election: the campaign for a mutex, the work of the leader, and the handles that tell
//! how this process stands.

mod handle;
mod standing;

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

pub use self::handle::ElectionHandle;
pub use self::standing::ElectionState;
use self::standing::{Announce, Standing, Term};
use super::mutex::Mutex;
use crate::core::error::{LockError, Quiet};
use crate::core::options::Wait;
use crate::engine::lease::{Lease, LeaseHandle};
use crate::store::{Ask, Holder};
use crate::system::equal_jitter;

/// The pause after the store failed, so that a failing store is not asked without end.
const PAUSE: Duration = Duration::from_secs(5);

/// When a candidate that still waits looks for the first time who leads. A lock that is free
/// is granted sooner, without a look.
const FIRST_LOOK: Duration = Duration::from_millis(100);

/// The shortest time between two looks of a candidate.
const SHORTEST: Duration = Duration::from_secs(1);

/// A candidate for the leadership: runs a future while it leads, and tells through its handles
/// how it stands. From [`Mutex::election`].
///
/// Kubernetes, etcd and Consul call this leader election too. A leader's identity is the
/// service, host and process of its client, and the name given with [`Mutex::owner`].
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
///
/// # async fn example(locks: leasehold::Locks) -> Result<(), leasehold::LockError> {
/// let scheduler = locks.mutex("scheduler").ttl(Duration::from_secs(10));
/// let mut election = scheduler.election();
/// let standing = election.handle(); // for a health check, or an operator's page
/// tokio::spawn(async move {
///     election
///         .lead(|_lease| async {
///             loop {
///                 // … do what is due
///                 tokio::time::sleep(Duration::from_secs(1)).await;
///             }
///         })
///         .await
/// });
/// println!("leading: {}, state: {:?}", standing.is_leader(), standing.state());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "an election does nothing until it leads"]
pub struct Election {
    mutex: Mutex,
    standing: watch::Sender<Standing>,
}

/// The end of a leadership that was not lost.
enum Ended<T> {
    Finished(T),
    SteppedDown(Duration),
}

impl Mutex {
    /// Makes this process a candidate in an election for this lock. All options apply, except
    /// `wait`, `linger`, `replace`, `once` and `once_per`.
    ///
    /// If nobody needs to know who leads, [`lead`](Self::lead) is enough.
    pub fn election(&self) -> Election {
        let mutex = self.clone().wait(Wait::Forever).linger(Duration::ZERO).of_election();
        Election { mutex, standing: watch::Sender::default() }
    }
}

impl Election {
    /// A handle that tells how this process stands. It sends no commands.
    ///
    /// While a handle exists and another process leads, the election asks the store now and
    /// then who that is: see [`ElectionHandle::state`]. Each time costs a command, and one
    /// more for the leader and for each candidate. A leader sends none.
    #[must_use]
    pub fn handle(&self) -> ElectionHandle {
        ElectionHandle::new(self.standing.subscribe())
    }

    /// Waits for the lock as long as it takes, and runs a future under it: see
    /// [`Mutex::lead`], which is this call without handles.
    ///
    /// If a handle lets the leader [step down](ElectionHandle::step_down), the future is
    /// dropped and the lock released. After the pause the election campaigns again, as the
    /// last waiter. After this call has returned, it can be called again.
    ///
    /// # Errors
    ///
    /// - [`LockError::ShutDown`] when the client is [shut down](crate::Locks::shutdown). The
    ///   future was dropped at once, and the lock was released.
    /// - [`LockError::NoRuntime`] outside of a Tokio runtime with timers.
    /// - [`LockError::WrongKind`] if the name is in use by another kind of lock, or by
    ///   something that is not a lock.
    /// - [`LockError::InvalidKey`] if no lock can have this name.
    /// - [`LockError::InvalidOption`] if an option is out of its range.
    ///
    /// # Panics
    ///
    /// If the future panics. The lock is then released in the background.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping this future drops the work, and then the lock is released in the
    /// background. The state is then [`Idle`](ElectionState::Idle).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// let mut election = locks.mutex("migration").election();
    /// let standing = election.handle();
    /// let led = election.lead(|_lease| async { standing.is_leader() }).await?;
    /// assert!(led && !standing.is_leader());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lead<W: Future>(
        &mut self,
        mut work: impl FnMut(LeaseHandle) -> W,
    ) -> Result<W::Output, LockError> {
        let _idle = IdleAtEnd(&self.standing);
        let shutdown = &self.mutex.spec().shared.client.keeper.shutdown;
        loop {
            self.standing.campaigning();
            // Boxed: it is seldom, and the work has no room for it.
            let lease = match Box::pin(self.campaign()).await {
                Ok(lease) => lease,
                Err(error) if error.is_store_failure() => {
                    let lock = self.mutex.spec().label();
                    tracing::warn!(lock, error = %Quiet(&error), "leader election: lock store unavailable; retrying");
                    self.standing.campaigning();
                    tokio::select! {
                        () = shutdown.begun() => return Err(LockError::ShutDown),
                        () = sleep(equal_jitter(PAUSE)) => continue,
                    }
                }
                Err(error) => return Err(error),
            };
            let term = Term::of(lease.handle());
            self.standing.leading(&term);
            // Whatever ends it, the future is dropped before the lock goes to another.
            // Boxed, as whatever holds it by value on its way would grow by it each time.
            let working = Box::pin(async { work(lease.handle()).await });
            let led = tokio::select! {
                biased;
                () = shutdown.begun() => Err(LockError::ShutDown),
                pause = term.stepped_down() => Ok(Ended::SteppedDown(pause)),
                led = lease.run(working) => led.map(Ended::Finished),
            };
            match led {
                Err(LockError::Lost { .. }) if !shutdown.has_begun() => drop(lease),
                Err(LockError::Lost { .. }) => return Err(LockError::ShutDown),
                Ok(Ended::SteppedDown(pause)) => {
                    self.standing.idle();
                    release(lease).await;
                    tokio::select! {
                        biased;
                        () = shutdown.begun() => return Err(LockError::ShutDown),
                        () = sleep(pause) => {}
                    }
                }
                Ok(Ended::Finished(output)) => {
                    release(lease).await;
                    return Ok(output);
                }
                Err(error) => {
                    release(lease).await;
                    return Err(error);
                }
            }
        }
    }

    /// Waits for the lock, and meanwhile finds out who leads.
    async fn campaign(&self) -> Result<Lease, LockError> {
        tokio::select! {
            biased;
            lease = self.mutex.lock() => lease,
            never = self.follow() => match never {},
        }
    }

    async fn follow(&self) -> Infallible {
        let between = (self.mutex.spec().given.options.ttl / 3).max(SHORTEST);
        sleep(FIRST_LOOK).await;
        loop {
            // Without a handle nobody wants to know.
            if self.standing.receiver_count() > 0 {
                let leader = timeout(between, self.leader()).await;
                match leader.ok().flatten() {
                    Some(leader) => self.standing.following(leader),
                    None => self.standing.campaigning(),
                }
            }
            // Candidates that began together do not look together.
            sleep(equal_jitter(between)).await;
        }
    }

    /// The holder of the lock, as the store knows it. `None` if nobody holds it, or if the
    /// store does not say.
    async fn leader(&self) -> Option<Holder> {
        let spec = self.mutex.spec();
        let info = spec.shared.client.store.inspect(&spec.key().ok()?).await;
        info.ok()?.holders.into_iter().next()
    }
}

async fn release(lease: Lease) {
    let lock = lease.key().log_label();
    if let Err(error) = lease.release().await {
        tracing::warn!(lock, error = %Quiet(&error), "leader election: the lock could not be released");
    }
}

/// Tells the handles that the campaign is over, however it ended.
struct IdleAtEnd<'a>(&'a watch::Sender<Standing>);

impl Drop for IdleAtEnd<'_> {
    fn drop(&mut self) {
        self.0.idle();
    }
}
