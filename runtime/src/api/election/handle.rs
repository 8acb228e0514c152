//! The handle that observes an election, and lets its leader step down.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::standing::{ElectionState, Standing, Term};

/// Tells how this process stands in an [`Election`](crate::Election), and lets a leader step
/// down. Cheap to clone; it may outlive the election, and does not keep it running.
///
/// It comes from [`Election::handle`](crate::Election::handle).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let locks = leasehold::Locks::in_memory();
/// let mut election = locks.mutex("scheduler").election();
/// let mut standing = election.handle();
/// tokio::spawn(async move { election.lead(|_lease| std::future::pending::<()>()).await });
/// while !standing.is_leader() {
///     println!("{:?}", standing.changed().await);
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ElectionHandle {
    standing: watch::Receiver<Standing>,
    /// What `changed` returned last.
    seen: ElectionState,
}

impl ElectionHandle {
    pub(super) fn new(standing: watch::Receiver<Standing>) -> Self {
        let seen = standing.borrow().state();
        Self { standing, seen }
    }

    /// The state: idle, campaigning, following or leading. No command is sent.
    ///
    /// Whether this process leads is true at once, by its own clock. Who leads elsewhere is
    /// as old as the candidate's last look: it looks a tenth of a second after it began to
    /// wait, then every third of the lock's TTL, but at most once a second. If the store does
    /// not answer such a look within the same time, the candidate is campaigning.
    #[must_use]
    pub fn state(&self) -> ElectionState {
        self.standing.borrow().state()
    }

    /// Returns true while this process leads, by its own clock. No command is sent.
    ///
    /// It is false from the moment at which the lease is lost, even if the leader's task has
    /// not run since. It is false too once the leader has begun to release the lock.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.standing.borrow().term().is_some_and(|term| term.lease.is_held())
    }

    /// Waits until the [state](Self::state) is another than at the last call, and returns it.
    /// The first call compares with the state when the handle was made. States that lasted
    /// only between two calls are skipped. Returns `None` when the election was dropped.
    ///
    /// A loss is a change at once, even if the leader's task has not run since.
    ///
    /// # Panics
    ///
    /// If it has to wait for a leader's loss outside of a Tokio runtime with timers.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future skips no state.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{ElectionHandle, ElectionState};
    ///
    /// async fn log(mut standing: ElectionHandle) {
    ///     while let Some(state) = standing.changed().await {
    ///         match state {
    ///             ElectionState::Leading { fence, .. } => println!("leading: {fence}"),
    ///             ElectionState::Following { leader, .. } => println!("following {leader:?}"),
    ///             _ => println!("nobody is known to lead"),
    ///         }
    ///     }
    /// }
    /// ```
    pub async fn changed(&mut self) -> Option<ElectionState> {
        loop {
            let (state, term) = self.now();
            if state != self.seen {
                self.seen = state.clone();
                return Some(state);
            }
            let ended = async {
                match &term {
                    Some(term) => term.lease.until_not_held().await,
                    None => pending().await,
                }
            };
            tokio::select! {
                announced = self.standing.changed() => announced.ok()?,
                () = ended => {}
            }
        }
    }

    /// How many times the leader changed, as far as this election has seen: 0 for the first
    /// leader. A process that leads again after a loss counts too.
    ///
    /// The count begins with the election. Leaders that came and went between two looks of a
    /// candidate are not counted, and neither is any leader on a quorum but this process.
    #[must_use]
    pub fn transitions(&self) -> u64 {
        self.standing.borrow().transitions
    }

    /// Lets this process step down, if it leads: the election drops the leader's future,
    /// releases the lock, and campaigns again after the pause. Returns false if this process
    /// does not lead.
    ///
    /// It does not wait: the future is dropped at its next `.await`, and
    /// [`changed`](Self::changed) tells when. During the pause the state is
    /// [`Idle`](ElectionState::Idle). If it is called twice in one leadership, the first
    /// pause counts.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # async fn is_healthy() -> bool { false }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let locks = leasehold::Locks::in_memory();
    /// let mut election = locks.mutex("scheduler").election();
    /// let standing = election.handle();
    /// let lead = election.lead(|_lease| async {
    ///     while is_healthy().await {
    ///         // … one step of the work
    ///     }
    ///     // Another process leads for at least a minute, if there is one.
    ///     standing.step_down(Duration::from_secs(60));
    ///     std::future::pending::<()>().await;
    /// });
    /// # let _ = tokio::time::timeout(Duration::from_millis(50), lead).await;
    /// # Ok(())
    /// # }
    /// ```
    #[expect(clippy::must_use_candidate, reason = "a leader that ended by itself needs no step")]
    pub fn step_down(&self, pause: Duration) -> bool {
        let term = self.standing.borrow().term().filter(|term| term.lease.is_held()).cloned();
        if let Some(term) = &term {
            term.step_down(pause);
        }
        term.is_some()
    }

    /// The state; if this process leads in it, its leadership.
    fn now(&self) -> (ElectionState, Option<Arc<Term>>) {
        let standing = self.standing.borrow();
        let state = standing.state();
        let leads = matches!(state, ElectionState::Leading { .. });
        (state, standing.term().filter(|_| leads).cloned())
    }
}
