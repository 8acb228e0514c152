//! A state of the clients and the server.

use super::client::Client;
use super::server::{Answer, Rules, Sent, Server};
use crate::faults::Faults;
use crate::messages::RequestId;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) server: Server,
    pub(super) clients: Vec<Client>,
    /// The faults that may still happen.
    pub(super) left: Faults,
}

impl State {
    /// The server runs the command that the client awaits an answer to.
    pub(super) fn run(&mut self, at: usize, rules: Rules) {
        let client = &mut self.clients[at];
        let Some(command) = client.request.take() else { return };
        let sent = Sent { id: client.id, command };
        let answer = self.run_late(sent, rules);
        self.clients[at].answer = Some(answer);
    }

    /// The server runs a command.
    pub(super) fn run_late(&mut self, sent: Sent, rules: Rules) -> Answer {
        let mut told = Vec::new();
        let answer = self.server.run(sent, rules, &mut told);
        for id in told {
            self.clients[usize::from(id.client)].notify(id);
        }
        answer
    }

    /// True if its client lives and works on it.
    pub(super) fn keeps_alive(&self, id: RequestId) -> bool {
        self.clients[usize::from(id.client)].works_on(id)
    }
}
