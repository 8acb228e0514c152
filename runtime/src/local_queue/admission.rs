//! The right to ask the store for a lock, or to have what was granted to the one before.

use std::sync::Arc;
use std::time::Duration;

use super::handoff::Handoff;
use super::{LocalQueues, Name, TurnId, What};
use crate::client::pending::PendingRequest;
use crate::state::lease::Granted;
use crate::state::shutdown::ActivityGuard;

/// The right to ask the store for a lock, or to have what was granted to the one
/// before; it goes to the next when dropped.
pub(crate) struct Admission {
    queues: Arc<LocalQueues>,
    name: Name,
    what: What,
    standing: Standing,
    pub(super) inherited: Option<Box<PendingRequest>>,
}

#[derive(Clone, Copy)]
enum Standing {
    /// It asks the store, as one of this generation.
    Asks(u64),
    /// It is to take up what is handed over in this turn.
    InTurn(TurnId),
    /// It has what it asked for.
    Served,
}

impl Admission {
    pub(super) fn asker(
        queues: &Arc<LocalQueues>,
        name: Name,
        what: What,
        generation: u64,
    ) -> Self {
        Self::new(queues, name, what, Standing::Asks(generation))
    }

    pub(super) fn in_turn(queues: &Arc<LocalQueues>, name: Name, what: What, turn: TurnId) -> Self {
        Self::new(queues, name, what, Standing::InTurn(turn))
    }

    fn new(queues: &Arc<LocalQueues>, name: Name, what: What, standing: Standing) -> Self {
        Self { queues: queues.clone(), name, what, standing, inherited: None }
    }

    /// What the one before handed over, and in which turn. Nothing if there is none, or not
    /// any more: then the store is to be asked.
    /// The client's end waits for as long as the `ActivityGuard` is there.
    pub(crate) fn take_up(&mut self) -> Option<(Granted, TurnId, ActivityGuard)> {
        let Standing::InTurn(turn) = self.standing else { return None };
        self.standing = Standing::Served;
        let handoff = self.queues.take_up(&self.name, turn);
        let Some((granted, activity)) = handoff.and_then(Handoff::into_granted) else {
            self.ask_instead();
            return None;
        };
        Some((granted, turn, activity))
    }

    /// What it took up was over: it asks the store, beside whoever does.
    pub(crate) fn ask_instead(&mut self) {
        let now = self.queues.now();
        let mut all = self.queues.all();
        let queue = self.queues.queue(&mut all, &self.name, now);
        queue.admit(self.what.0, now);
        self.standing = Standing::Asks(queue.generation);
    }

    /// What the one before has begun, and not ended.
    pub(crate) fn inherit(&mut self) -> Option<Box<PendingRequest>> {
        self.inherited.take()
    }

    /// Says that it asks.
    pub(crate) fn sign(&self) {
        if let Some(queue) = self.queues.all().queues.get_mut(&self.name) {
            queue.sign = self.queues.now();
        }
    }

    /// The store has granted it what it asked for, for this TTL; those who wait here may
    /// have it next, if a turn has begun.
    pub(crate) fn granted(mut self, ttl: Duration) -> Option<TurnId> {
        let Standing::Asks(generation) = self.standing else { return None };
        self.standing = Standing::Served;
        self.queues.begin_turn(&self.name, &self.what, ttl, generation)
    }

    /// Goes, and leaves what was begun to the next: its place in the store's
    /// queue is the client's.
    pub(crate) fn leave_behind(mut self, pending: PendingRequest) {
        self.inherited = Some(Box::new(pending));
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        match self.standing {
            Standing::Asks(generation) => {
                let inherited = self.inherited.take().map(|pending| (self.what.clone(), pending));
                let kind = self.what.0;
                self.queues.change(&self.name, inherited, |queue| {
                    queue.dismiss(kind, generation);
                    None::<()>
                });
            }
            Standing::InTurn(turn) => self.queues.pass_on(&self.name, &self.what, turn),
            Standing::Served => {}
        }
    }
}
