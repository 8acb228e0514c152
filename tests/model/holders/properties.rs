//! The properties that hold in every state.

use stateright::{Model, Property};

use super::rule::{Bond, Role, go_together};
use super::server::Flaw;
use super::{Action, Protocol, State};
use crate::client::{Client, Phase};
use crate::faults::Faults;
use crate::messages::{Answer, Command, Sent};

pub(super) const TOGETHER: &str = "only compatible holders hold at once";
pub(super) const LOST_TURN: &str = "the first waiter is let in when it fits";
pub(super) const OVERTAKEN: &str = "first come, first served, but for an owner";
pub(super) const STUCK: &str = "nobody waits for itself, or for ever";
pub(super) const LEFT_BEHIND: &str = "nothing is left behind";
pub(super) const CUT_SHORT: &str = "no lease is cut short";
pub(super) const REVIVED: &str = "an ended lease stays ended";
pub(super) const REPEATED_TOKEN: &str = "tokens grow";
pub(super) const BEHIND: &str = "a holder has the last token";
const MORE: &str = "a holder can acquire more";
const ALL_DONE: &str = "every client can finish";

pub(super) fn all() -> Vec<Property<Protocol>> {
    let always = |name, condition: fn(&Protocol, &State) -> bool| Property::always(name, condition);
    vec![
        always(TOGETHER, hold_together),
        always(LOST_TURN, |_, state| state.server.flaw != Some(Flaw::LostTurn)),
        always(OVERTAKEN, |_, state| state.server.flaw != Some(Flaw::Overtaken)),
        always(STUCK, |model, state| !is_stuck(model, state)),
        always(LEFT_BEHIND, |_, state| !leaves_something(state)),
        always(CUT_SHORT, |_, state| state.server.flaw != Some(Flaw::CutShort)),
        always(REVIVED, |_, state| state.server.flaw != Some(Flaw::Revived)),
        always(REPEATED_TOKEN, |_, state| state.server.flaw != Some(Flaw::RepeatedToken)),
        always(BEHIND, |model, state| !is_behind(model, state)),
        Property::sometimes(MORE, |model: &Protocol, state: &State| {
            (0..).zip(model.roles).all(|(at, role)| has_more(state, at, *role))
        }),
        Property::sometimes(ALL_DONE, |_, state: &State| {
            state.clients.iter().all(|client| client.phase == Phase::Done)
        }),
    ]
}

/// Only a forced release excuses a violation, because tokens guard against it.
fn is_sure(state: &State, client: &Client) -> bool {
    state.believes(client) && !state.server.forced.contains(&client.id)
}

fn hold_together(model: &Protocol, state: &State) -> bool {
    let sure = state.clients.iter().filter(|client| is_sure(state, client));
    let sure: Vec<_> = sure.map(|client| model.role(client.id)).collect();
    let live: Vec<_> = state.server.live().map(|id| model.role(id)).collect();
    go_together(&sure) && go_together(&live)
}

/// True if a later token was granted, to another or to its own owner, and a holder does not know.
fn is_behind(model: &Protocol, state: &State) -> bool {
    let fenced = state.clients.iter().filter(|client| model.role(client.id).is_fenced());
    fenced.filter(|client| is_sure(state, client)).any(|it| it.token < state.server.granted)
}

fn has_more(state: &State, at: usize, role: Role) -> bool {
    let believes = |at: usize| state.believes(&state.clients[at]);
    match role.bond {
        Bond::Within(other) | Bond::Beyond(other) if !role.waits_to_upgrade() => {
            believes(at) && believes(other)
        }
        _ => true,
    }
}

/// True if a waiter sleeps, all others are done or wait for it, and asking again is in vain.
fn is_stuck(model: &Protocol, state: &State) -> bool {
    let is_still = |client: &Client| client.is_quiet() && !client.awaits_answer();
    let sleeps = state.clients.iter().any(|client| client.phase == Phase::Asleep);
    if !sleeps || !state.clients.iter().all(is_still) {
        return false;
    }
    let calm = State { left: Faults::NONE, ..state.clone() };
    let mut actions = Vec::new();
    model.actions(&calm, &mut actions);
    actions.iter().all(|action| match action {
        Action::Poll(at) => asks_in_vain(model, state, *at),
        _ => false,
    })
}

fn asks_in_vain(model: &Protocol, state: &State, at: usize) -> bool {
    let client = &state.clients[at];
    let mut server = state.server.clone();
    let command = Command::Ask { position: client.position };
    let (answer, hints) = server.run(Sent { id: client.id, command, is_awaited: true }, model);
    matches!(answer, Answer::Queued { .. }) && hints.is_empty()
}

/// True if the server has a lease or a queue entry of a request that its client has finished, and
/// that nobody may adopt. Windows end what dead clients leave.
fn leaves_something(state: &State) -> bool {
    let held = state.server.live().filter(|id| !state.tickets.has(*id));
    let mut ids = held.chain(state.server.waiting());
    ids.any(|id| {
        let client = &state.clients[usize::from(id.client)];
        client.is_quiet() && !client.knows(id)
    })
}
