//! The steps that can happen, and when.

use stateright::{Model, Property};

use super::client::{Client, Phase};
use super::design::{Counts, Once};
use super::mistake::Mistake;
use super::properties;
use super::server::{Rules, Server};
use super::state::State;
use crate::messages::RequestId;

/// The first number is a client, the second one a late command of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Start(usize),
    /// The server runs the client's command.
    Run(usize),
    /// The server runs a command that was sent again since.
    RunLate(usize, usize),
    Receive(usize),
    TakeHint(usize),
    LoseHint(usize),
    Poll(usize),
    /// The work succeeds: the client completes its lease.
    Succeed(usize),
    /// The work fails: the client releases its lease.
    Fail(usize),
    /// Sends the unanswered command again. The answer was lost, or the command is late or lost.
    TimeOut(usize),
    Die(usize),
    Expire(RequestId),
    GoOn,
}

impl Model for Once {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let clients = (0..).zip(self.rounds).map(|(client, &rounds)| Client::new(client, rounds));
        vec![State { server: Server::EMPTY, clients: clients.collect(), left: self.faults }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // States after a flaw are not explored.
        if state.server.flaw.is_some() {
            return;
        }
        for (at, client) in state.clients.iter().enumerate() {
            self.actions_of(state, at, client, actions);
        }
        let waiting = state.server.queue.iter().filter(|waiter| waiter.is_live);
        for id in state.server.lock.id().into_iter().chain(waiting.map(|waiter| waiter.id)) {
            if !state.keeps_alive(id) || state.left.pauses > 0 {
                actions.push(Action::Expire(id));
            }
        }
        // Without ticks, time matters only while the mark counts.
        let matters = self.counts == Counts::ForTick || state.server.is_done();
        if matters && state.server.now < self.until {
            actions.push(Action::GoOn);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Start(at) => state.clients[at].start(last.server.now),
            Action::Run(at) => state.run(at, self.rules()),
            Action::RunLate(at, late) => {
                let sent = state.clients[at].late.remove(late);
                state.run_late(sent, self.rules());
            }
            Action::Receive(at) => {
                state.clients[at].receive(self.mistake == Mistake::TickOfTheAsk);
            }
            Action::TakeHint(at) => {
                state.clients[at].is_told = false;
                state.clients[at].ask();
            }
            Action::LoseHint(at) => {
                state.left.hints -= 1;
                state.clients[at].is_told = false;
            }
            Action::Poll(at) => state.clients[at].ask(),
            Action::Succeed(at) => state.clients[at].succeed(),
            Action::Fail(at) => state.clients[at].fail(),
            Action::TimeOut(at) => {
                state.left.losses -= 1;
                state.clients[at].send_again(self.closes());
            }
            Action::Die(at) => {
                state.left.deaths -= 1;
                state.clients[at].die();
            }
            Action::Expire(id) => {
                if state.keeps_alive(id) {
                    state.left.pauses -= 1;
                }
                state.server.expire(id);
            }
            Action::GoOn => state.server.go_on(self.counts),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

impl Once {
    pub(super) const fn rules(&self) -> Rules {
        Rules { counts: self.counts, plain: self.plain, mistake: self.mistake }
    }

    /// True if an ask that was given up can't run late. A late ask could grant the lock anew to a
    /// request whose lease had ended, and a completion of that request would count.
    fn closes(&self) -> bool {
        self.mistake != Mistake::OldConnectionLives
    }

    /// True if this client asks for the work to succeed once.
    pub(super) fn is_once(&self, client: &Client) -> bool {
        self.plain != Some(client.id.client)
    }

    fn actions_of(&self, state: &State, at: usize, client: &Client, actions: &mut Vec<Action>) {
        if client.request.is_some() {
            actions.push(Action::Run(at));
        }
        if client.answer.is_some() {
            actions.push(Action::Receive(at));
        }
        actions.extend((0..client.late.len()).map(|late| Action::RunLate(at, late)));
        // A hint that comes before the answer to an ask is kept until then.
        if client.is_told && client.phase == Phase::Asleep {
            actions.push(Action::TakeHint(at));
        }
        if client.is_told && state.left.hints > 0 {
            actions.push(Action::LoseHint(at));
        }
        match client.phase {
            Phase::Idle => actions.push(Action::Start(at)),
            Phase::Asleep if self.mistake != Mistake::NeverPolls => actions.push(Action::Poll(at)),
            Phase::Holding => {
                if self.is_once(client) {
                    actions.push(Action::Succeed(at));
                }
                actions.push(Action::Fail(at));
            }
            _ => {}
        }
        if state.left.losses > 0 && client.awaits_answer() {
            actions.push(Action::TimeOut(at));
        }
        if state.left.deaths > 0 && !matches!(client.phase, Phase::Idle | Phase::Over | Phase::Dead)
        {
            actions.push(Action::Die(at));
        }
    }
}
