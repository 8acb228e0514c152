//! The right to ask the store for a lock, or to have what was granted to the one before.

use std::sync::Arc;
use std::time::Duration;

use super::{Lines, Name, TurnId, What};
use crate::api::locks::Client;
use crate::core::options::Options;
use crate::engine::acquire::Asking;
use crate::engine::lease::Lease;

/// The right to ask the store for a lock, or to have what was granted to the one
/// before; it goes to the next when dropped.
pub(crate) struct Admission {
    client: Arc<Client>,
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
    pub(super) fn asker(client: &Arc<Client>, name: Name, what: What, generation: u64) -> Self {
        Self::new(client, name, what, Standing::Asks(generation))
    }

    pub(super) fn in_turn(client: &Arc<Client>, name: Name, what: What, turn: TurnId) -> Self {
        Self::new(client, name, what, Standing::InTurn(turn))
    }

    fn new(client: &Arc<Client>, name: Name, what: What, standing: Standing) -> Self {
        Self { client: client.clone(), name, what, standing, inherited: None }
    }

    /// The lease that the one before handed over. Nothing if there is none, or not any
    /// more: then the store is to be asked.
    pub(crate) fn take_up(&mut self, options: &Options) -> Option<Lease> {
        let Standing::InTurn(turn) = self.standing else { return None };
        self.standing = Standing::Served;
        let lease = Lines::take_up(&self.client, &self.name, turn)
            .and_then(|baton| baton.lease(turn, options));
        if lease.is_none() {
            // It asks the store, beside whoever does.
            let now = self.client.store.now();
            let mut all = self.client.lines.all();
            let line = self.client.lines.line(&mut all, &self.name, now);
            line.admit(self.what.0, now);
            self.standing = Standing::Asks(line.generation);
        }
        lease
    }

    /// What the one before has begun, and not ended.
    pub(crate) fn inherit(&mut self) -> Option<Box<Asking>> {
        self.inherited.take()
    }

    /// Says that it asks.
    pub(crate) fn sign(&self) {
        if let Some(line) = self.client.lines.all().lines.get_mut(&self.name) {
            line.sign = self.client.store.now();
        }
    }

    /// The store has granted it what it asked for, for this TTL; those who wait here may
    /// have it next, if a turn has begun.
    pub(crate) fn granted(mut self, ttl: Duration) -> Option<TurnId> {
        let Standing::Asks(generation) = self.standing else { return None };
        self.standing = Standing::Served;
        Lines::begin_turn(&self.client, &self.name, &self.what, ttl, generation)
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
                Lines::change(&self.client, &self.name, inherited, |line| {
                    line.dismiss(kind, generation);
                    None::<()>
                });
            }
            Standing::InTurn(turn) => Lines::pass_on(&self.client, &self.name, &self.what, turn),
            Standing::Served => {}
        }
    }
}
