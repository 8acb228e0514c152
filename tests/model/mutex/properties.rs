//! The properties that hold in every state.

use stateright::Property;

use super::design::Protocol;
use super::server::Flaw;
use super::state::State;
use crate::client::Phase;
use crate::messages::RequestId;

pub(super) const TWO_HOLDERS: &str = "one holder at a time";
pub(super) const BEHIND: &str = "a lease is unbroken";
pub(super) const STALE_WRITE: &str = "no write upon an old read";
pub(super) const REPEATED_TOKEN: &str = "tokens grow";
pub(super) const FREED_ANOTHERS: &str = "only the holder releases";
pub(super) const OVERTAKEN: &str = "first come, first served";
pub(super) const ADOPTED_TWICE: &str = "a lease is adopted once";
pub(super) const LOST_WAKE_UP: &str = "nobody sleeps for ever";
pub(super) const LEFT_BEHIND: &str = "nothing is left behind";
const ALL_DONE: &str = "every client can finish";

pub(super) fn all() -> Vec<Property<Protocol>> {
    let flawless = |name, flawless: fn(&Protocol, &State) -> bool| Property::always(name, flawless);
    vec![
        flawless(TWO_HOLDERS, |_, state| !has_two_holders(state)),
        flawless(BEHIND, |_, state| !is_behind(state)),
        flawless(STALE_WRITE, |_, state| state.store.flaw != Some(Flaw::StaleWrite)),
        flawless(REPEATED_TOKEN, |_, state| state.store.flaw != Some(Flaw::RepeatedToken)),
        flawless(FREED_ANOTHERS, |_, state| state.store.flaw != Some(Flaw::FreedAnothers)),
        flawless(OVERTAKEN, |_, state| state.store.flaw != Some(Flaw::Overtaken)),
        flawless(ADOPTED_TWICE, |_, state| {
            state.store.flaw != Some(Flaw::AdoptedTwice) || state.has_failed_over
        }),
        flawless(LOST_WAKE_UP, |model, state| !is_stuck(model, state)),
        flawless(LEFT_BEHIND, |_, state| !leaves_something(state)),
        Property::sometimes(ALL_DONE, |_, state: &State| {
            state.clients.iter().all(|client| client.phase == Phase::Done)
        }),
    ]
}

/// True if a holder has an older token than the last one: another was granted since, and the holder
/// does not know.
fn is_behind(state: &State) -> bool {
    let is_old = |token| token < state.store.granted;
    state.clients.iter().any(|client| state.believes(client) && is_old(client.token))
        && !state.has_failed_over
}

/// Only a failover that lost a grant excuses two holders, because tokens guard against them.
fn has_two_holders(state: &State) -> bool {
    let holders = state.clients.iter().filter(|client| state.believes(client));
    holders.count() > 1 && !state.has_failed_over
}

/// True if a waiter sleeps and nothing will wake it: no client does anything, and the waiter does
/// not poll, or polls in vain.
fn is_stuck(model: &Protocol, state: &State) -> bool {
    let is_idle = |phase| matches!(phase, Phase::Asleep | Phase::Done | Phase::Dead);
    let is_still = state.clients.iter().all(|client| client.is_quiet() && is_idle(client.phase));
    let sleeps = state.clients.iter().any(|client| client.phase == Phase::Asleep);
    let holder = state.store.server.lock.id();
    let is_in_vain =
        holder.is_some_and(|id| !state.keeps_alive(id) && !model.can_expire(state, id));
    is_still && sleeps && (!model.mistake.polls() || is_in_vain)
}

/// True if the server has a lease or a queue entry of a request that its client has finished, and
/// that nobody may adopt. Windows end what dead clients leave.
fn leaves_something(state: &State) -> bool {
    let is_left = |id: RequestId| {
        let client = &state.clients[usize::from(id.client)];
        client.is_quiet() && !client.knows(id)
    };
    let server = &state.store.server;
    let is_lock_left = server.lock.id().is_some_and(|id| is_left(id) && !state.tickets.has(id));
    let is_place_left = server.queue.iter().any(|waiter| waiter.is_live && is_left(waiter.id));
    (is_lock_left || is_place_left) && !state.has_failed_over
}
