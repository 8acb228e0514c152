//! The same for locks with several holders: a semaphore, a reentrant mutex, a read-write lock.
//! The queue and the network are those of a mutex. The [rule](rule) says which holders may hold
//! together.
//!
//! An owner with several leases is several clients here, each with one lease. So one process may
//! ask while another of the same owner holds. A [bond](Bond) connects two of them: one call is
//! inside the other, or a writer becomes a reader.
//!
//! A forced release is a step of no client. A forced holder goes on until a renewal tells it, or
//! until a late ask of its own is granted anew. Until then only its token can stop it.
//!
//! A permit may go from one task of a client to the next, for a turn.
//!
//! **Left out**, beside the limits of the mutex's model: weights; a script purges at most 64
//! ended leases; a forced release beside a detached lease, where a late ask of the former holder
//! may stay in the queue for a heartbeat.

mod grants;
mod mistake;
mod properties;
mod reentrant;
mod rule;
mod rw;
mod semaphore;
mod server;

use stateright::{Model, Property};

use self::mistake::Mistake;
use self::rule::{Bond, Mode, Role};
use self::server::Server;
use crate::checker;
use crate::client::{Client, Phase};
use crate::faults::Faults;
use crate::messages::{Answer, Command, Hint, RequestId, Sent};
use crate::tickets::Tickets;

#[derive(Clone, Copy, Debug)]
struct Protocol {
    /// The role of each client.
    roles: &'static [Role],
    rounds: u8,
    faults: Faults,
    mistake: Mistake,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    server: Server,
    clients: Vec<Client>,
    left: Faults,
    tickets: Tickets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Start(usize),
    Run(usize),
    RunUnordered(usize),
    Receive(usize),
    TakeHint(usize, usize),
    Poll(usize),
    Release(usize),
    HandOver(usize),
    CancelHandoff(usize),
    Detach(usize),
    Adopt(usize, RequestId),
    Cancel(usize),
    TimeOut(usize),
    Die(usize),
    Expire(RequestId),
    Force,
}

impl State {
    fn keeps_alive(&self, id: RequestId) -> bool {
        let client = &self.clients[usize::from(id.client)];
        client.phase != Phase::Dead && client.knows(id)
    }

    fn has_window(&self, client: &Client) -> bool {
        client.stamp == Some(self.server.stamp(client.id))
    }

    /// The client believes that it holds, and its window has not ended.
    fn believes(&self, client: &Client) -> bool {
        client.is_holder() && self.has_window(client)
    }

    fn run(&mut self, sent: Sent, design: &Protocol) -> Answer {
        let (answer, hints) = self.server.run(sent, design);
        if let (Command::Adopt { from }, Answer::Granted { .. }) = (sent.command, answer) {
            self.tickets.use_up(from, sent.id);
        }
        for hint in hints {
            self.clients[usize::from(hint.id.client)].notify(hint);
        }
        answer
    }

    fn accepts(&self, client: &Client, hint: Hint, mistake: Mistake) -> bool {
        let is_of_this_wait = mistake == Mistake::NoStamp || client.is_of_this_wait(hint);
        self.has_window(client) && is_of_this_wait
    }

    fn take_hint(&mut self, at: usize, hint: usize, mistake: Mistake) {
        let hint = self.clients[at].hints.remove(hint);
        let accepts = self.accepts(&self.clients[at], hint, mistake);
        let client = &mut self.clients[at];
        if accepts {
            let stamp = client.stamp.take().unwrap_or_default();
            client.hold(hint.token, stamp);
            client.unordered.push(Sent {
                id: client.id,
                command: Command::Renew,
                is_awaited: true,
            });
        } else {
            client.ask();
        }
    }

    fn send_again(&mut self, at: usize) {
        self.clients[at].give_up_answers();
        self.clients[at].send_again();
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let clients = (0..).zip(self.roles).map(|(client, _)| Client::new(client, self.rounds));
        let server = Server::new(self.roles.len());
        let tickets = Tickets::default();
        vec![State { server, clients: clients.collect(), left: self.faults, tickets }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let left = state.left;
        for (at, client) in state.clients.iter().enumerate() {
            let mut when = |can: bool, action| can.then(|| actions.push(action));
            when(!client.requests.is_empty(), Action::Run(at));
            when(!client.unordered.is_empty(), Action::RunUnordered(at));
            when(!client.answers.is_empty(), Action::Receive(at));
            for (hint, &content) in client.hints.iter().enumerate() {
                let accepts = state.accepts(client, content, self.mistake);
                when(client.phase == Phase::Asleep || accepts, Action::TakeHint(at, hint));
            }
            when(client.phase == Phase::Idle && self.may_start(state, at), Action::Start(at));
            when(client.phase == Phase::Asleep, Action::Poll(at));
            when(client.is_holder() && self.may_go(state, at), Action::Release(at));
            let is_permit = self.roles[at].mode == Mode::Permit;
            when(is_permit && self.may_hand_over(state, client), Action::HandOver(at));
            when(client.turns > 0, Action::CancelHandoff(at));
            let may_detach = state.believes(client) && client.requests.is_empty();
            when(left.detaches > 0 && may_detach, Action::Detach(at));
            for from in state.tickets.ids().filter(|from| self.may_adopt(client, *from)) {
                when(true, Action::Adopt(at, from));
            }
            when(left.losses > 0 && client.awaits_answer(), Action::TimeOut(at));
            let waits = matches!(client.phase, Phase::Asking | Phase::Adopting | Phase::Asleep);
            when(left.cancels > 0 && waits, Action::Cancel(at));
            when(left.deaths > 0 && (waits || client.is_holder()), Action::Die(at));
        }
        let can_expire = |id: &RequestId| left.pauses > 0 || !state.keeps_alive(*id);
        let ids = state.server.live().chain(state.server.waiting());
        actions.extend(ids.filter(can_expire).map(Action::Expire));
        if left.forces > 0 && state.server.live().next().is_some() {
            actions.push(Action::Force);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Run(at) => {
                let sent = state.clients[at].requests.remove(0);
                let answer = state.run(sent, self);
                if sent.is_awaited {
                    state.clients[at].answers.push(answer);
                }
            }
            Action::RunUnordered(at) => {
                let sent = state.clients[at].unordered.remove(0);
                state.run(sent, self);
            }
            Action::Receive(at) => state.clients[at].receive(),
            Action::TakeHint(at, hint) => state.take_hint(at, hint, self.mistake),
            Action::Start(at) => {
                state.clients[at].rounds -= 1;
                state.clients[at].ask();
            }
            Action::Poll(at) => state.clients[at].ask(),
            Action::Release(at) => state.clients[at].release(),
            Action::HandOver(at) => state.hand_over(at, self.mistake),
            Action::CancelHandoff(at) => state.clients[at].cancel(),
            Action::Detach(at) => {
                state.left.detaches -= 1;
                state.tickets.write(state.clients[at].id, state.clients[at].token);
                state.clients[at].detach();
            }
            Action::Adopt(at, from) => {
                state.clients[at].rounds -= 1;
                state.clients[at].adopt(from);
            }
            Action::Cancel(at) => {
                state.left.cancels -= 1;
                state.clients[at].cancel();
            }
            Action::TimeOut(at) => {
                state.left.losses -= 1;
                state.send_again(at);
            }
            Action::Die(at) => {
                state.left.deaths -= 1;
                state.clients[at].die();
            }
            Action::Expire(id) => {
                state.left.pauses -= u8::from(state.keeps_alive(id));
                state.server.expire(id, self.mistake);
                state.tickets.end(id);
            }
            Action::Force => {
                state.left.forces -= 1;
                state.server.force(self);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

impl Protocol {
    const fn new(roles: &'static [Role]) -> Self {
        Self { roles, rounds: 1, faults: Faults::NONE, mistake: Mistake::None }
    }

    const fn twice(self) -> Self {
        Self { rounds: 2, ..self }
    }

    fn role(&self, id: RequestId) -> Role {
        self.roles[usize::from(id.client)]
    }

    fn may_start(&self, state: &State, at: usize) -> bool {
        match self.roles[at].bond {
            Bond::None => true,
            Bond::Within(other) | Bond::Beyond(other) => state.believes(&state.clients[other]),
        }
    }

    /// True if it would hold the lock in the same way, for the same owner.
    fn may_adopt(&self, client: &Client, from: RequestId) -> bool {
        let (own, other) = (self.role(client.id), self.role(from));
        client.phase == Phase::Idle && own.bond == Bond::None && own.is_like(other)
    }

    /// True if the clients bound to it are done, or if it has seen that its own lease is over.
    fn may_go(&self, state: &State, at: usize) -> bool {
        let is_over = |client: &Client| matches!(client.phase, Phase::Done | Phase::Dead);
        let client = &state.clients[at];
        let is_lost = !state.has_window(client) || !state.server.holds(client.id);
        let inner = |(client, role): (&Client, &Role)| match role.bond {
            Bond::Within(other) if other == at => is_over(client),
            Bond::Beyond(other) if other == at => is_over(client) || client.is_holder(),
            _ => true,
        };
        let outer = |other: usize| !state.clients[other].is_holder();
        let is_first = matches!(self.roles[at].bond, Bond::Beyond(other) if !outer(other));
        is_lost || !is_first && state.clients.iter().zip(self.roles).all(inner)
    }

    fn holds(self, faults: Faults) {
        checker::holds(Self { faults, ..self });
    }

    /// Checks that the mistake breaks the property. Other tests check that the design holds within
    /// the same bounds, because that takes longer.
    fn breaks(self, property: &'static str, mistake: Mistake, faults: Faults) {
        checker::breaks(Self { faults, mistake, ..self }, property);
    }
}
