//! The right to ask the store for a lock, or to have what was granted to the one before.

use std::sync::Arc;
use std::time::Duration;

use super::handoff::Baton;
use super::{Lines, Name, TurnId, What};
use crate::client::pending::Asking;
use crate::state::lease::Granted;
use crate::state::shutdown::Stay;

/// The right to ask the store for a lock, or to have what was granted to the one
/// before; it goes to the next when dropped.
pub(crate) struct Admission {
    queues: Arc<Lines>,
    name: Name,
    what: What,
    standing: Standing,
    pub(super) inherited: Option<Box<Asking>>,
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
    pub(super) fn asker(queues: &Arc<Lines>, name: Name, what: What, generation: u64) -> Self {
        Self::new(queues, name, what, Standing::Asks(generation))
    }

    pub(super) fn in_turn(queues: &Arc<Lines>, name: Name, what: What, turn: TurnId) -> Self {
        Self::new(queues, name, what, Standing::InTurn(turn))
    }

    fn new(queues: &Arc<Lines>, name: Name, what: What, standing: Standing) -> Self {
        Self { queues: queues.clone(), name, what, standing, inherited: None }
    }

    /// What the one before handed over, and in which turn. Nothing if there is none, or not
    /// any more: then the store is to be asked.
    /// The client's end waits for as long as the `Stay` is there.
    pub(crate) fn take_up(&mut self) -> Option<(Granted, TurnId, Stay)> {
        let Standing::InTurn(turn) = self.standing else { return None };
        self.standing = Standing::Served;
        let baton = self.queues.take_up(&self.name, turn);
        let Some((granted, stay)) = baton.and_then(Baton::into_granted) else {
            self.ask_instead();
            return None;
        };
        Some((granted, turn, stay))
    }

    /// What it took up was over: it asks the store, beside whoever does.
    pub(crate) fn ask_instead(&mut self) {
        let now = self.queues.now();
        let mut all = self.queues.all();
        let line = self.queues.line(&mut all, &self.name, now);
        line.admit(self.what.0, now);
        self.standing = Standing::Asks(line.generation);
    }

    /// What the one before has begun, and not ended.
    pub(crate) fn inherit(&mut self) -> Option<Box<Asking>> {
        self.inherited.take()
    }

    /// Says that it asks.
    pub(crate) fn sign(&self) {
        if let Some(line) = self.queues.all().lines.get_mut(&self.name) {
            line.sign = self.queues.now();
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
    pub(crate) fn leave_behind(mut self, asking: Asking) {
        self.inherited = Some(Box::new(asking));
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        match self.standing {
            Standing::Asks(generation) => {
                let inherited = self.inherited.take().map(|asking| (self.what.clone(), asking));
                let kind = self.what.0;
                self.queues.change(&self.name, inherited, |line| {
                    line.dismiss(kind, generation);
                    None::<()>
                });
            }
            Standing::InTurn(turn) => self.queues.pass_on(&self.name, &self.what, turn),
            Standing::Served => {}
        }
    }
}
