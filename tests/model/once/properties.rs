//! The properties that hold in every state.

use stateright::{Model, Property};

use super::client::{Client, End, Phase};
use super::design::Once;
use super::mistake::Mistake;
use super::server::Flaw;
use super::state::State;
use super::steps::Action;

pub(super) const TWO_SUCCESSES: &str = "one success within the time that it counts";
pub(super) const MARKED_BY_ANOTHER: &str = "only the holder marks the work as done";
pub(super) const WRONGLY_DONE: &str = "what counts as done has succeeded";
pub(super) const DENIED: &str = "a success is not denied while it counts";
pub(super) const RUNS_THOUGH_DONE: &str = "nobody is granted what counts as done";
pub(super) const UNSERVED: &str = "a waiter runs, or learns that the work is done";
pub(super) const UNTOLD: &str = "without a fault, a waiter is told";

pub(super) fn all() -> Vec<Property<Once>> {
    let flawless = |name, flawless: fn(&Once, &State) -> bool| Property::always(name, flawless);
    vec![
        flawless(TWO_SUCCESSES, |_, state| state.server.flaw != Some(Flaw::TwoSuccesses)),
        flawless(MARKED_BY_ANOTHER, |_, state| state.server.flaw != Some(Flaw::MarkedByAnother)),
        flawless(WRONGLY_DONE, |_, state| !state.server.is_wrongly_done()),
        flawless(DENIED, |_, state| state.server.flaw != Some(Flaw::Denied)),
        flawless(RUNS_THOUGH_DONE, |model, state| !is_held_though_done(model, state)),
        flawless(UNSERVED, |model, state| are_served(model, state, true)),
        flawless(UNTOLD, |model, state| {
            state.left != model.faults || are_served(model, state, false)
        }),
        Property::sometimes("all finish", |_, state: &State| {
            state.clients.iter().all(|client| client.phase == Phase::Over)
        }),
        Property::sometimes("a waiter learns that the work is done", |_, state: &State| {
            state.clients.iter().any(|it| it.has_waited && it.end == Some(End::FoundDone))
        }),
        Property::sometimes("a waiter succeeds after a failure", |_, state: &State| {
            let is_success = |it: &Client| it.has_waited && it.end == Some(End::Succeeded);
            let is_failure = |it: &Client| it.end == Some(End::Failed);
            state.clients.iter().any(is_success) && state.clients.iter().any(is_failure)
        }),
    ]
}

/// True if the server has the lock held or offered for work that counts as done.
fn is_held_though_done(model: &Once, state: &State) -> bool {
    let holder = state.server.lock.id();
    state.server.is_done() && holder.is_some_and(|id| model.plain != Some(id.client))
}

/// True if each waiter gets the lock, or learns that the work is done, when clients do the rest
/// of their work and begin nothing more: if all that holders do succeeds, and if all fails.
fn are_served(model: &Once, state: &State, polls: bool) -> bool {
    let waits = |at: &usize| state.clients[*at].phase == Phase::Asleep;
    let polls = polls && model.mistake != Mistake::NeverPolls;
    (0..state.clients.len()).filter(waits).all(|at| {
        [true, false].into_iter().all(|succeed| is_served(model, state, at, succeed, polls))
    })
}

fn is_served(model: &Once, state: &State, waiter: usize, succeed: bool, polls: bool) -> bool {
    let (mut state, id) = (state.clone(), state.clients[waiter].id);
    for _ in 0..8 {
        for at in 0..state.clients.len() {
            while let Some(action) = rest(model, &state.clients[at], at, succeed) {
                if let Some(next) = model.next_state(&state, action) {
                    state = next;
                }
                let client = &state.clients[waiter];
                if client.phase == Phase::Holding || client.id != id {
                    return true;
                }
            }
            if polls && state.clients[at].phase == Phase::Asleep {
                state.clients[at].ask();
            }
        }
        // What nobody works on ends in time.
        if let Some(id) = state.server.lock.id()
            && !state.keeps_alive(id)
        {
            state.server.expire(id);
        }
    }
    false
}

/// The next thing that a client does by itself.
fn rest(model: &Once, client: &Client, at: usize, succeed: bool) -> Option<Action> {
    if client.request.is_some() {
        return Some(Action::Run(at));
    }
    if client.answer.is_some() {
        return Some(Action::Receive(at));
    }
    match client.phase {
        Phase::Asleep if client.is_told => Some(Action::TakeHint(at)),
        Phase::Holding if succeed && model.is_once(client) => Some(Action::Succeed(at)),
        Phase::Holding => Some(Action::Fail(at)),
        _ => None,
    }
}
