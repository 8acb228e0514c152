//! Checks all states of a design.

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, HasDiscoveries, Model};

/// Checks that the properties hold in every state.
pub(crate) fn holds<M>(design: M)
where
    M: Model + Debug + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    check(design, HasDiscoveries::AnyFailures).assert_properties();
}

/// Checks that the mistake in this design breaks the property.
pub(crate) fn breaks<M>(design: M, property: &'static str)
where
    M: Model + Debug + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    check(design, HasDiscoveries::AnyOf([property].into())).assert_any_discovery(property);
}

/// Checks that the property holds in every state of a design, whatever becomes of the others.
pub(crate) fn keeps<M>(design: M, property: &'static str)
where
    M: Model + Debug + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    check(design, HasDiscoveries::AnyOf([property].into())).assert_no_discovery(property);
}

/// Goes through the states until something is found.
fn check<M>(design: M, until: HasDiscoveries) -> impl Checker<M>
where
    M: Model + Debug + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let name = format!("{design:?}");
    let checked = design.checker().finish_when(until).spawn_bfs().join();
    println!("{name}: {} states", checked.unique_state_count());
    checked
}
