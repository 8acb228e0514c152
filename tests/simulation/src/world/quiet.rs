//! A world without faults, whose processes do what a test says.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use fastrand::Rng;

use super::director::Director;
use super::plan::{Deployment, Plan};
use super::servers::Servers;
use super::shared::Shared;
use crate::network::Network;
use crate::trace::{Printed, Trace};

impl Director {
    /// The director of a world with one server, and no process yet.
    pub(super) fn quiet() -> (Self, Arc<Shared>) {
        let mut plan = Plan::of(1, 1, Some(Deployment::Single));
        // Its clocks would drift.
        plan.faults.clear();
        // What the seed chooses changes with the number of faults.
        plan.may_kill = true;
        let mut network = Network::new(Rng::with_seed(1), Trace::new(Printed::Nothing));
        let servers = Servers::start(&plan, &mut network);
        let shared = Arc::new(Shared::new(Trace::new(Printed::Nothing)));
        let network = Rc::new(RefCell::new(network));
        (Self::new(plan, network, servers, shared.clone(), Rng::with_seed(2)), shared)
    }
}
