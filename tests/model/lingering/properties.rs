//! The properties that hold in every state.

use stateright::{Model, Property};

use super::client::{Client, Phase};
use super::design::Lingering;
use super::mistake::Mistake;
use super::server::{Flaw, Mark};
use super::state::State;
use super::steps::Action;
use crate::messages::RequestId;

pub(super) const TWO_HOLDERS: &str = "one holder at a time";
pub(super) const REPEATED_TOKEN: &str = "tokens grow";
pub(super) const FREED_ANOTHERS: &str = "only the holder releases";
pub(super) const IDLE_BESIDE_WAITERS: &str = "no lease may stay while others wait";
pub(super) const IDLE_THOUGH_RECALLED: &str = "a recalled lease is not idle";
pub(super) const NOT_SERVED_BY_RECALLS: &str = "a waiter is served if messages arrive";
pub(super) const NOT_SERVED_BY_ENDS: &str = "a waiter is served if the linger ends";
pub(super) const LEFT_BEHIND: &str = "nothing is left behind";

pub(super) fn all() -> Vec<Property<Lingering>> {
    let flawless =
        |name, flawless: fn(&Lingering, &State) -> bool| Property::always(name, flawless);
    vec![
        flawless(TWO_HOLDERS, |_, state| {
            state.clients.iter().filter(|client| state.believes(client)).count() <= 1
        }),
        flawless(REPEATED_TOKEN, |_, state| state.server.flaw != Some(Flaw::RepeatedToken)),
        flawless(FREED_ANOTHERS, |_, state| state.server.flaw != Some(Flaw::FreedAnothers)),
        flawless(IDLE_BESIDE_WAITERS, |_, state| {
            state.server.mark != Mark::Lingers || !state.server.has_waiters()
        }),
        flawless(IDLE_THOUGH_RECALLED, |_, state| !is_idle_though_recalled(state)),
        flawless(NOT_SERVED_BY_RECALLS, |model, state| are_served(model, state, true)),
        flawless(NOT_SERVED_BY_ENDS, |model, state| are_served(model, state, false)),
        flawless(LEFT_BEHIND, |_, state| !leaves_something(state)),
        Property::sometimes("all acquire", |_, state: &State| {
            state.clients.iter().all(|it| it.rounds == 0 && it.phase == Phase::Resting)
        }),
        Property::sometimes("a lease is taken up here", |model: &Lingering, state: &State| {
            let is_taken_up = |it: &Client| it.turn.may_stay && it.phase == Phase::Holding;
            model.rounds == [1; 2] || state.clients.iter().any(is_taken_up)
        }),
    ]
}

/// True if a recall was neither lost nor is on its way, and its client keeps the lease idle.
fn is_idle_though_recalled(state: &State) -> bool {
    let Some(holder) = state.server.holder.filter(|_| state.server.mark == Mark::Recalled) else {
        return false;
    };
    let client = &state.clients[usize::from(holder.client)];
    client.phase == Phase::Idle && client.id == holder && client.recalls == 0 && !state.has_lost
}

/// True if each waiter gets the lock when clients do the rest of their work and begin nothing
/// more. Either recalls arrive and no linger ends, or no recall arrives and the lingers end.
fn are_served(model: &Lingering, state: &State, by_recalls: bool) -> bool {
    let waits = |at: &usize| state.clients[*at].phase == Phase::Asleep;
    (0..state.clients.len()).filter(waits).all(|at| is_served(model, state.clone(), at, by_recalls))
}

fn is_served(model: &Lingering, mut state: State, waiter: usize, by_recalls: bool) -> bool {
    for _ in 0..16 {
        for at in 0..state.clients.len() {
            while let Some(action) = rest(model, &state, at, by_recalls) {
                if let Some(next) = model.next_state(&state, action) {
                    state = next;
                }
                if state.clients[waiter].phase == Phase::Holding {
                    return true;
                }
            }
            if state.clients[at].phase == Phase::Asleep
                && let Some(next) = model.next_state(&state, Action::Poll(at))
            {
                state = next;
            }
        }
        // What dead clients leave ends in time.
        if let Some(id) = state.server.holder
            && !state.keeps_alive(id)
        {
            state.server.expire(id);
        }
    }
    false
}

/// The next thing that a client does by itself. A holder prefers to let its lease linger.
fn rest(model: &Lingering, state: &State, at: usize, by_recalls: bool) -> Option<Action> {
    let client = &state.clients[at];
    if !client.requests.is_empty() {
        return Some(Action::Run(at));
    }
    if !client.answers.is_empty() {
        return Some(Action::Receive(at));
    }
    if !client.refills.is_empty() {
        return Some(Action::RunRefill(at));
    }
    if !client.refilled.is_empty() {
        return Some(Action::TakeRefill(at));
    }
    if client.recalls > 0 {
        return Some(if by_recalls { Action::TakeRecall(at) } else { Action::LoseRecall(at) });
    }
    if client.forced.is_some() {
        return Some(Action::TakeForce(at));
    }
    let may_end = !by_recalls && model.mistake != Mistake::IdleForEver;
    match client.phase {
        Phase::Refused => Some(Action::GiveUp(at)),
        Phase::Holding => Some(Action::LetLinger(at)),
        Phase::Idle if may_end => Some(Action::EndIdle(at)),
        _ => None,
    }
}

/// True if the server has a lease or a queue entry of a request that its client has finished.
fn leaves_something(state: &State) -> bool {
    let is_left = |id: RequestId| {
        let client = &state.clients[usize::from(id.client)];
        client.is_quiet() && !client.knows(id)
    };
    let server = &state.server;
    server.holder.is_some_and(is_left)
        || server.queue.iter().any(|waiter| waiter.is_live && is_left(waiter.id))
}
