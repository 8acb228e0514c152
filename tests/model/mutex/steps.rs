//! The steps that can happen, and when.

use stateright::{Model, Property};

use super::design::Protocol;
use super::mistake::Mistake;
use super::properties;
use super::server::{BLOCK, Lock, Store};
use super::state::State;
use crate::client::{Client, Phase};
use crate::messages::RequestId;
use crate::tickets::Tickets;

/// The first number is a client, the second one a hint for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Start(usize),
    /// The server runs the next command of the connection.
    Run(usize),
    /// The server runs a command that does not keep the order.
    RunUnordered(usize),
    Receive(usize),
    TakeHint(usize, usize),
    Subscribe(usize),
    Poll(usize),
    Read(usize),
    Write(usize),
    /// Leaves its lease to an adopter.
    Detach(usize),
    Adopt(usize, RequestId),
    /// Leaves its lease to another task of its client.
    HandOver(usize),
    /// The task that was to take up the lease is gone.
    CancelHandoff(usize),
    /// A late write of a former holder arrives at the resource.
    WriteLate(usize),
    /// Sees that its window has ended, and stops.
    Notice(usize),
    Cancel(usize),
    /// Sends the unanswered command again. The answer was lost, or the command is late.
    TimeOut(usize),
    /// Sends the unanswered command again, because the command was lost.
    Reconnect(usize),
    LoseHint(usize, usize),
    Die(usize),
    Expire(RequestId),
    Replicate,
    FailOver,
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let clients = (0..self.clients).map(|client| Client::new(client, self.rounds)).collect();
        vec![State {
            store: Store::new(self.clients),
            fence: 0,
            clients,
            left: self.faults,
            has_failed_over: false,
            tickets: Tickets::default(),
            late_writes: Vec::new(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // States after a flaw are not explored.
        if state.store.flaw.is_some() {
            return;
        }
        for (at, client) in state.clients.iter().enumerate() {
            self.actions_of(state, at, client, actions);
        }
        actions.extend((0..state.late_writes.len()).map(Action::WriteLate));
        self.expiries(state, actions);
        if state.left.failovers > 0 {
            if state.store.server != state.store.replica {
                actions.push(Action::Replicate);
            }
            actions.push(Action::FailOver);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Run(at) => {
                let sent = state.clients[at].requests.remove(0);
                let answer = self.run(&mut state, sent);
                if sent.is_awaited {
                    state.clients[at].answers.push(answer);
                }
            }
            Action::RunUnordered(at) => {
                let sent = state.clients[at].unordered.remove(0);
                let answer = self.run(&mut state, sent);
                let is_known = state.clients[at].id == sent.id && sent.is_awaited;
                if is_known && state.clients[at].is_holder() {
                    self.renewed(&mut state, at, answer);
                }
            }
            Action::Receive(at) => self.receive(&mut state, at),
            Action::TakeHint(at, hint) => {
                let hint = state.clients[at].hints.remove(hint);
                self.take_hint(&mut state, at, hint);
            }
            Action::LoseHint(at, hint) => {
                state.left.hints -= 1;
                state.clients[at].hints.remove(hint);
            }
            Action::Read(at) => self.read(&mut state, at),
            Action::Write(at) => self.write(&mut state, at),
            Action::Detach(at) => state.detach(at),
            Action::HandOver(at) => self.hand_over(&mut state, at),
            Action::CancelHandoff(at) => self.cancel_handoff(&mut state.clients[at]),
            Action::Adopt(at, from) => {
                state.clients[at].rounds -= 1;
                state.clients[at].adopt(from);
            }
            Action::WriteLate(at) => {
                let write = state.late_writes.remove(at);
                self.reach(&mut state, write);
            }
            Action::Cancel(at) => self.cancel(&mut state, at),
            Action::TimeOut(at) => {
                state.left.losses -= 1;
                self.send_again(&mut state.clients[at], false);
            }
            Action::Reconnect(at) => {
                state.left.losses -= 1;
                self.send_again(&mut state.clients[at], true);
            }
            Action::Expire(id) => {
                if state.keeps_alive(id) {
                    state.left.pauses -= 1;
                }
                state.store.expire(id, self.mistake);
                state.tickets.end(id);
                let client = &mut state.clients[usize::from(id.client)];
                if client.is_overlong && client.id == id {
                    client.stamp = Some(state.store.stamp(id));
                }
            }
            Action::Replicate => state.store.replica = state.store.server.clone(),
            Action::FailOver => {
                state.left.failovers -= 1;
                state.has_failed_over = true;
                state.store.server = state.store.replica.clone();
                if self.mistake == Mistake::ClockBehind {
                    state.store.behind = 2 * BLOCK;
                }
            }
            Action::Start(at) => {
                state.clients[at].rounds -= 1;
                state.clients[at].ask();
            }
            Action::Poll(at) => state.clients[at].ask(),
            Action::Subscribe(at) => state.clients[at].phase = Phase::Asleep,
            Action::Notice(at) => self.release(&mut state.clients[at]),
            Action::Die(at) => {
                state.left.deaths -= 1;
                state.clients[at].die();
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

impl Protocol {
    fn actions_of(&self, state: &State, at: usize, client: &Client, actions: &mut Vec<Action>) {
        if !client.requests.is_empty() {
            actions.push(Action::Run(at));
        }
        if !client.unordered.is_empty() {
            actions.push(Action::RunUnordered(at));
        }
        if !client.answers.is_empty() {
            actions.push(Action::Receive(at));
        }
        for (hint, &content) in client.hints.iter().enumerate() {
            // A hint that comes before the answer to an ask is kept until then.
            let is_kept = self.mistake != Mistake::ForgetsEarlyHint;
            if client.phase == Phase::Asleep || self.accepts(state, client, content) || !is_kept {
                actions.push(Action::TakeHint(at, hint));
            }
            if state.left.hints > 0 {
                actions.push(Action::LoseHint(at, hint));
            }
        }
        match client.phase {
            Phase::Idle => {
                actions.push(Action::Start(at));
                actions.extend(state.tickets.ids().map(|from| Action::Adopt(at, from)));
            }
            Phase::Unsubscribed => actions.push(Action::Subscribe(at)),
            Phase::Asleep if self.mistake.polls() => actions.push(Action::Poll(at)),
            Phase::Holding => actions.push(Action::Read(at)),
            Phase::HasRead => actions.push(Action::Write(at)),
            _ => {}
        }
        if client.is_holder() && (client.is_lost || !state.has_window(client)) {
            actions.push(Action::Notice(at));
        }
        if state.left.detaches > 0 && client.is_holder() && self.may_detach(state, client) {
            actions.push(Action::Detach(at));
        }
        if state.left.turns > 0 && self.may_hand_over(state, client) {
            actions.push(Action::HandOver(at));
        }
        if client.turns > 0 && client.phase == Phase::Holding {
            actions.push(Action::CancelHandoff(at));
        }
        let is_under_way = matches!(client.phase, Phase::Asking | Phase::Adopting | Phase::Asleep);
        if state.left.cancels > 0 && is_under_way {
            actions.push(Action::Cancel(at));
        }
        if state.left.losses > 0 && client.awaits_answer() {
            actions.push(Action::TimeOut(at));
            if !client.requests.is_empty() {
                actions.push(Action::Reconnect(at));
            }
        }
        if state.left.deaths > 0 && !matches!(client.phase, Phase::Idle | Phase::Done | Phase::Dead)
        {
            actions.push(Action::Die(at));
        }
    }

    /// True if its asks are answered and its lease has not ended. Then no late ask queues it again.
    fn may_detach(&self, state: &State, client: &Client) -> bool {
        let is_answered = client.requests.is_empty() || self.mistake.detaches_early();
        let has_it = state.has_window(client) && !client.is_lost;
        is_answered && (has_it || self.mistake == Mistake::DetachesLostLease)
    }

    /// The leases, offers and heartbeats that can end. Those of a live client end only if the
    /// client pauses, or the network is slow.
    fn expiries(&self, state: &State, actions: &mut Vec<Action>) {
        let server = &state.store.server;
        let waiting = server.queue.iter().filter(|waiter| waiter.is_live).map(|waiter| waiter.id);
        for id in server.lock.id().into_iter().chain(waiting) {
            let takes_pause = state.keeps_alive(id);
            if (!takes_pause || state.left.pauses > 0) && self.can_expire(state, id) {
                actions.push(Action::Expire(id));
            }
        }
    }

    pub(super) fn can_expire(&self, state: &State, id: RequestId) -> bool {
        self.mistake != Mistake::OfferWithoutWindow || state.store.server.lock != Lock::Offered(id)
    }
}
