//! A state of the clients, the server and the resource.

use super::server::Store;
use crate::client::{Client, Phase};
use crate::faults::Faults;
use crate::messages::RequestId;
use crate::tickets::Tickets;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) store: Store,
    /// The greatest token the resource has seen.
    pub(super) fence: u8,
    pub(super) clients: Vec<Client>,
    /// The faults that may still happen.
    pub(super) left: Faults,
    pub(super) has_failed_over: bool,
    pub(super) tickets: Tickets,
    pub(super) late_writes: Vec<LateWrite>,
}

/// A write that was on its way to the resource when its lease was detached or handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LateWrite {
    pub(super) token: u8,
    /// Nobody has written since the read that it is based on.
    pub(super) is_fresh: bool,
}

impl State {
    /// True if the client believes that it holds the lock, and its window has not ended.
    pub(super) fn believes(&self, client: &Client) -> bool {
        client.is_holder() && self.has_window(client)
    }

    /// A write of this client may arrive late.
    pub(super) fn leave_write(&mut self, at: usize) {
        let client = &self.clients[at];
        if client.phase == Phase::HasRead {
            let write = LateWrite { token: client.token, is_fresh: client.is_fresh };
            self.late_writes.push(write);
        }
    }

    /// True if its client lives and works on it.
    pub(super) fn keeps_alive(&self, id: RequestId) -> bool {
        let client = &self.clients[usize::from(id.client)];
        client.phase != Phase::Dead && client.knows(id)
    }

    pub(super) fn detach(&mut self, at: usize) {
        self.left.detaches -= 1;
        self.leave_write(at);
        self.tickets.write(self.clients[at].id, self.clients[at].token);
        self.clients[at].detach();
    }

    pub(super) fn has_window(&self, client: &Client) -> bool {
        client.stamp == Some(self.store.stamp(client.id))
    }
}
