//! A state of the clients and the server.

use super::client::{Client, Phase};
use super::server::Server;
use crate::faults::Faults;
use crate::messages::RequestId;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) server: Server,
    pub(super) clients: Vec<Client>,
    /// The faults that may still happen.
    pub(super) left: Faults,
    /// A message was lost.
    pub(super) has_lost: bool,
}

impl State {
    /// True if the deadline of the client's lease has not passed.
    pub(super) fn has_window(&self, client: &Client) -> bool {
        client.window == self.server.window(client.id)
    }

    /// True if a task of the client believes that it holds the lock. A forced client may, until its
    /// deadline.
    pub(super) fn believes(&self, client: &Client) -> bool {
        client.phase == Phase::Holding
            && self.has_window(client)
            && !self.server.forced.contains(&client.id)
    }

    /// True if its client lives and works on it.
    pub(super) fn keeps_alive(&self, id: RequestId) -> bool {
        let client = &self.clients[usize::from(id.client)];
        client.phase != Phase::Dead && client.knows(id)
    }
}
