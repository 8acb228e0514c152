//! The steps that can happen, and when.

use stateright::{Model, Property};

use super::client::{Client, Phase};
use super::design::Lingering;
use super::mistake::Mistake;
use super::properties;
use super::server::{Answer, Command, Sent, Server};
use super::state::State;
use crate::messages::RequestId;

/// The number is a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Takes up its idle lease, or asks the server and waits.
    Acquire(usize),
    /// Takes up its idle lease, or asks the server and does not wait.
    Try(usize),
    TryAgain(usize),
    GiveUp(usize),
    /// The server runs the next command of the connection.
    Run(usize),
    Receive(usize),
    Poll(usize),
    /// Ends its lease, which stays idle, or asks the server whether it may.
    LetLinger(usize),
    Release(usize),
    /// Its linger is over.
    EndIdle(usize),
    /// Asks for more tokens, in the background.
    Refill(usize),
    RunRefill(usize),
    TakeRefill(usize),
    TakeRecall(usize),
    LoseRecall(usize),
    DoubleRecall(usize),
    Force,
    TakeForce(usize),
    LoseForce(usize),
    /// Gives the unanswered command up. The answer was lost, or the command is late.
    TimeOut(usize),
    /// The same, and the command was lost.
    Reconnect(usize),
    Die(usize),
    Expire(RequestId),
}

impl Model for Lingering {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let clients = [0, 1].map(|at| Client::new(at, self.rounds[usize::from(at)])).to_vec();
        vec![State { server: Server::new(), clients, left: self.faults, has_lost: false }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // States after a flaw are not explored.
        if state.server.flaw.is_some() {
            return;
        }
        for (at, client) in state.clients.iter().enumerate() {
            self.actions_of(state, at, client, actions);
        }
        if state.left.forces > 0 && state.server.holder.is_some() {
            actions.push(Action::Force);
        }
        Self::expiries(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Acquire(at) => self.acquire(&mut state, at, false),
            Action::Try(at) => self.acquire(&mut state, at, true),
            Action::TryAgain(at) | Action::Poll(at) => state.clients[at].ask(),
            Action::GiveUp(at) => state.clients[at].finish(),
            Action::Run(at) => {
                let sent = state.clients[at].requests.remove(0);
                let answer = self.run(&mut state, sent);
                if sent.is_awaited {
                    state.clients[at].answers.push(answer);
                }
            }
            Action::Receive(at) => self.receive(&mut state.clients[at]),
            Action::LetLinger(at) => self.let_linger(&mut state, at),
            Action::Release(at) => state.clients[at].release(),
            Action::EndIdle(at) => state.clients[at].end_idle(),
            Action::Refill(at) => {
                let client = &mut state.clients[at];
                let in_use = self.mistake != Mistake::RefillReleases;
                let command = Command::Linger { in_use };
                client.turn.is_refilling = true;
                client.refills.push(Sent { id: client.id, command, is_awaited: true });
            }
            Action::RunRefill(at) => {
                let sent = state.clients[at].refills.remove(0);
                let answer = self.run(&mut state, sent);
                state.clients[at].refilled.push((sent.id, answer));
            }
            Action::TakeRefill(at) => {
                let (id, answer) = state.clients[at].refilled.remove(0);
                self.refilled(&mut state.clients[at], id, answer);
            }
            Action::TakeRecall(at) => {
                state.clients[at].recalls -= 1;
                self.recalled(&mut state.clients[at]);
            }
            Action::LoseRecall(at) => {
                state.left.hints = state.left.hints.saturating_sub(1);
                state.clients[at].recalls -= 1;
                state.has_lost = true;
            }
            Action::DoubleRecall(at) => {
                state.left.hints -= 1;
                state.clients[at].recalls += 1;
            }
            Action::Force => {
                state.left.forces -= 1;
                let forced = state.server.force();
                if let Some(id) = forced.filter(|_| self.mistake != Mistake::ForceNotTold) {
                    state.clients[usize::from(id.client)].forced = Some(id);
                }
            }
            Action::TakeForce(at) => {
                let client = &mut state.clients[at];
                if client.forced.take() == Some(client.id) && client.phase == Phase::Idle {
                    client.end_idle();
                }
            }
            Action::LoseForce(at) => {
                state.left.hints -= 1;
                state.clients[at].forced = None;
                state.has_lost = true;
            }
            Action::TimeOut(at) => {
                state.left.losses -= 1;
                self.send_again(&mut state.clients[at], false);
            }
            Action::Reconnect(at) => {
                state.left.losses -= 1;
                self.send_again(&mut state.clients[at], true);
            }
            Action::Die(at) => {
                state.left.deaths -= 1;
                state.clients[at].die();
            }
            Action::Expire(id) => {
                if Self::takes_pause(&state, id) {
                    state.left.pauses -= 1;
                }
                state.server.expire(id);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

impl Lingering {
    fn actions_of(&self, state: &State, at: usize, client: &Client, actions: &mut Vec<Action>) {
        let network = [
            (!client.requests.is_empty(), Action::Run(at)),
            (!client.answers.is_empty(), Action::Receive(at)),
            (!client.refills.is_empty(), Action::RunRefill(at)),
            (!client.refilled.is_empty(), Action::TakeRefill(at)),
            (client.recalls > 0, Action::TakeRecall(at)),
            (client.forced.is_some(), Action::TakeForce(at)),
            (client.recalls > 0 && state.left.hints > 0, Action::LoseRecall(at)),
            (client.recalls == 1 && state.left.hints > 0, Action::DoubleRecall(at)),
            (client.forced.is_some() && state.left.hints > 0, Action::LoseForce(at)),
            (client.awaits_answer() && state.left.losses > 0, Action::TimeOut(at)),
        ];
        actions.extend(network.into_iter().filter(|(may, _)| *may).map(|(_, action)| action));
        if client.awaits_answer() && state.left.losses > 0 && !client.requests.is_empty() {
            actions.push(Action::Reconnect(at));
        }
        let begins = [Action::Acquire(at), Action::Try(at)];
        let begins = begins.into_iter().take(if self.tries { 2 } else { 1 });
        match client.phase {
            Phase::Resting if client.rounds > 0 => actions.extend(begins),
            Phase::Refused => actions.extend([Action::TryAgain(at), Action::GiveUp(at)]),
            Phase::Asleep => actions.push(Action::Poll(at)),
            Phase::Holding => actions.extend([Action::LetLinger(at), Action::Release(at)]),
            Phase::Idle => {
                actions.extend(begins.filter(|_| client.rounds > 0));
                if self.mistake != Mistake::IdleForEver {
                    actions.push(Action::EndIdle(at));
                }
            }
            _ => {}
        }
        let is_in_turn =
            client.turn.may_stay && matches!(client.phase, Phase::Holding | Phase::Idle);
        let is_short = client.last_token <= client.token + 1;
        let may_refill = !client.turn.is_recalled && !client.turn.is_refilling && is_short;
        if is_in_turn && may_refill && client.rounds > 0 {
            actions.push(Action::Refill(at));
        }
        if state.left.deaths > 0 && !matches!(client.phase, Phase::Resting | Phase::Dead) {
            actions.push(Action::Die(at));
        }
    }

    /// Takes up the idle lease by its deadline, within the reserved tokens. Otherwise asks the
    /// server.
    fn acquire(&self, state: &mut State, at: usize, is_try: bool) {
        let window = state.server.window(state.clients[at].id);
        let has_window = state.has_window(&state.clients[at]);
        let is_forced = self.mistake == Mistake::ForceNotTold && state.left.forces == 0;
        let revives = self.mistake == Mistake::TakesUpAfterDeadline || is_forced;
        let client = &mut state.clients[at];
        client.rounds -= 1;
        client.is_try = is_try;
        if client.phase == Phase::Idle {
            let has_token = client.token < client.last_token;
            let counts = self.mistake != Mistake::TokensBeyondBlock;
            if (has_window || revives) && (has_token || !counts) {
                if revives {
                    client.window = window;
                }
                client.phase = Phase::Holding;
                client.token += 1;
                let (id, token) = (client.id, client.token);
                // A forced client may not know, and its token is older than others.
                if !state.server.forced.contains(&id) && !is_forced {
                    state.server.uses(token);
                }
                return;
            }
            client.end_idle();
        }
        client.ask();
    }

    fn run(&self, state: &mut State, sent: Sent) -> Answer {
        let (answer, recalled) = state.server.run(sent.id, sent.command, self.mistake);
        if let Some(client) = recalled {
            let holder = &mut state.clients[usize::from(client)];
            // A third on its way at once would add nothing.
            if holder.phase != Phase::Dead {
                holder.recalls = (holder.recalls + 1).min(2);
            }
        }
        answer
    }

    fn receive(&self, client: &mut Client) {
        match (client.phase, client.answers.remove(0)) {
            (Phase::Asking, Answer::Granted { token, window }) => {
                client.phase = Phase::Holding;
                (client.token, client.last_token, client.window) = (token, token, window);
            }
            (Phase::Asking, Answer::Queued { position, window }) => {
                client.phase = Phase::Asleep;
                (client.position, client.window) = (Some(position), window);
            }
            (Phase::Asking, Answer::Refused) => client.phase = Phase::Refused,
            (Phase::Lingers, Answer::Kept { last_token, window }) => {
                (client.last_token, client.window) = (last_token, window);
                client.turn.may_stay = true;
                if client.turn.is_recalled && self.mistake != Mistake::ForgetsEarlyRecall {
                    client.end_idle();
                } else {
                    client.phase = Phase::Idle;
                    client.turn.is_recalled = false;
                }
            }
            _ => client.finish(),
        }
    }

    /// The lease is idle at once if it was before and was not recalled. A lease that is lost by its
    /// deadline is released.
    fn let_linger(&self, state: &mut State, at: usize) {
        let has_window = state.has_window(&state.clients[at]);
        let window = state.server.window(state.clients[at].id);
        let client = &mut state.clients[at];
        let revives = self.mistake == Mistake::LostLeaseLingers;
        let has_token = client.token < client.last_token;
        let may_stay = has_token || self.mistake == Mistake::TokensBeyondBlock;
        if !has_window && !revives {
            client.release();
        } else if client.turn.may_stay && !client.turn.is_recalled && may_stay {
            client.phase = Phase::Idle;
            if revives {
                client.window = window;
            }
        } else {
            // The turn before ends, and a new one begins with the question.
            (client.turn.is_recalled, client.turn.may_stay) = (false, false);
            client.phase = Phase::Lingers;
            client.send(Command::Linger { in_use: false });
        }
    }

    fn refilled(&self, client: &mut Client, id: RequestId, answer: Answer) {
        let is_in_turn =
            client.turn.may_stay && matches!(client.phase, Phase::Holding | Phase::Idle);
        if client.id != id || !is_in_turn {
            return;
        }
        client.turn.is_refilling = false;
        match answer {
            Answer::Kept { last_token, .. } => {
                client.last_token = client.last_token.max(last_token);
            }
            _ if self.mistake == Mistake::RefillsEndedLease => client.last_token += 1,
            _ => self.recalled(client),
        }
    }

    fn recalled(&self, client: &mut Client) {
        match client.phase {
            Phase::Idle if self.mistake == Mistake::IgnoresRecall => {}
            Phase::Idle => client.end_idle(),
            Phase::Lingers | Phase::Holding => client.turn.is_recalled = true,
            _ => {}
        }
    }

    fn send_again(&self, client: &mut Client, is_lost: bool) {
        client.give_up_answers();
        if is_lost {
            // The releases of earlier leases are sent again, too.
            client.requests.retain(|sent| sent.id != client.id);
        }
        match client.phase {
            Phase::Asking => client.ask(),
            Phase::Lingers if self.mistake == Mistake::NoReleaseAfterLinger => client.finish(),
            Phase::Lingers | Phase::Releasing => client.release(),
            _ => {}
        }
    }

    /// The leases and heartbeats that can end, and those that would have ended if nobody had taken
    /// the lock by force.
    fn expiries(state: &State, actions: &mut Vec<Action>) {
        let server = &state.server;
        let waiting = server.queue.iter().filter(|waiter| waiter.is_live).map(|waiter| waiter.id);
        for id in server.holder.into_iter().chain(waiting).chain(server.forced.iter().copied()) {
            if state.left.pauses > 0 || !Self::takes_pause(state, id) {
                actions.push(Action::Expire(id));
            }
        }
    }

    /// True if only a pause of its client, or a slow network, ends the window. An idle lease ends by
    /// itself, and so does a forced one.
    fn takes_pause(state: &State, id: RequestId) -> bool {
        let client = &state.clients[usize::from(id.client)];
        state.keeps_alive(id) && client.phase != Phase::Idle && !state.server.forced.contains(&id)
    }
}
