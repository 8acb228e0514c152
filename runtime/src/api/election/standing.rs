//! How a candidate stands in its election.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::core::fence::Fence;
use crate::engine::lease::{LeaseHandle, LeaseState};
use crate::store::{ClientInfo, Holder};

/// How this process stands in an [`Election`](crate::Election): idle, campaigning, following
/// or leading.
///
/// # Examples
///
/// ```
/// use leasehold::ElectionState;
///
/// fn show(state: &ElectionState) -> String {
///     match state {
///         ElectionState::Leading { fence, .. } => format!("leading, with the token {fence}"),
///         ElectionState::Following { leader: Some(leader), .. } => {
///             format!("following {} on {}, process {}", leader.service, leader.host, leader.process)
///         }
///         state => format!("{state:?}"),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElectionState {
    /// It does not campaign: [`lead`](crate::Election::lead) is not running, or this process
    /// has [stepped down](crate::ElectionHandle::step_down) and its pause is not over.
    Idle,
    /// It wants to lead, and does not know who leads: nobody does, the store does not answer,
    /// or it has not asked yet. On a quorum a candidate can't ask, and never follows.
    Campaigning,
    /// It wants to lead, and another leader holds the lock. The leader may be another
    /// election of this process.
    #[non_exhaustive]
    Following {
        /// The leader's service, host and process; `None` if the store does not know them.
        leader: Option<ClientInfo>,
        /// The name that the leader was given with [`Mutex::owner`](crate::Mutex::owner).
        owner: Option<String>,
    },
    /// This process leads.
    #[non_exhaustive]
    Leading {
        /// The fencing token of this leadership, for the resource to check.
        fence: Fence,
    },
}

/// One leadership of this process.
#[derive(Debug)]
pub(super) struct Term {
    pub(super) lease: LeaseHandle,
    /// The pause that the leader asked for when it stepped down.
    pause: OnceLock<Duration>,
    asked: Notify,
}

impl Term {
    pub(super) fn of(lease: LeaseHandle) -> Arc<Self> {
        Arc::new(Self { lease, pause: OnceLock::new(), asked: Notify::new() })
    }

    /// Asks the leader to step down. The first call's pause counts.
    pub(super) fn step_down(&self, pause: Duration) {
        let _ = self.pause.set(pause);
        self.asked.notify_one();
    }

    /// Resolves when the leader was asked to step down, to the pause.
    pub(super) async fn stepped_down(&self) -> Duration {
        loop {
            if let Some(pause) = self.pause.get() {
                return *pause;
            }
            // A permit is stored, so no notification is missed.
            self.asked.notified().await;
        }
    }
}

#[derive(Debug, Default)]
enum Position {
    #[default]
    Idle,
    Campaigning,
    Following {
        leader: Option<ClientInfo>,
        owner: Option<String>,
    },
    Leading(Arc<Term>),
}

/// What an election knows, for its handles.
#[derive(Debug, Default)]
pub(super) struct Standing {
    position: Position,
    /// The last leader seen. Each leadership has a token of its own.
    last: Option<Fence>,
    pub(super) transitions: u64,
}

impl Standing {
    /// The state by this process's own clock: a leader whose lease has ended does not lead,
    /// even if its election has not noticed yet.
    pub(super) fn state(&self) -> ElectionState {
        match &self.position {
            Position::Idle => ElectionState::Idle,
            Position::Campaigning => ElectionState::Campaigning,
            Position::Following { leader, owner } => {
                ElectionState::Following { leader: leader.clone(), owner: owner.clone() }
            }
            Position::Leading(term) => match (term.lease.state(), term.lease.fence()) {
                (LeaseState::Held | LeaseState::Suspect, Ok(fence)) => {
                    ElectionState::Leading { fence }
                }
                (LeaseState::Released, _) => ElectionState::Idle,
                _ => ElectionState::Campaigning,
            },
        }
    }

    /// The leadership of this process. Its lease may have ended.
    pub(super) fn term(&self) -> Option<&Arc<Term>> {
        match &self.position {
            Position::Leading(term) => Some(term),
            _ => None,
        }
    }

    fn saw(&mut self, leader: Option<Fence>) {
        if leader.is_some() && leader != self.last {
            self.transitions += u64::from(self.last.is_some());
            self.last = leader;
        }
    }
}

/// The election's side of what its handles see.
pub(super) trait Announce {
    fn idle(&self);
    fn campaigning(&self);
    fn following(&self, leader: Holder);
    fn leading(&self, term: &Arc<Term>);
}

impl Announce for watch::Sender<Standing> {
    fn idle(&self) {
        self.send_modify(|standing| standing.position = Position::Idle);
    }

    fn campaigning(&self) {
        self.send_modify(|standing| standing.position = Position::Campaigning);
    }

    fn following(&self, Holder { client: leader, owner, fence, .. }: Holder) {
        self.send_modify(|standing| {
            standing.saw(fence);
            standing.position = Position::Following { leader, owner };
        });
    }

    fn leading(&self, term: &Arc<Term>) {
        self.send_modify(|standing| {
            standing.saw(term.lease.fence().ok());
            standing.position = Position::Leading(term.clone());
        });
    }
}
