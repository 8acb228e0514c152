//! A world without faults, whose processes do what a test says.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use fastrand::Rng;

use super::director::Director;
use super::plan::{Deployment, Plan};
use super::shared::Shared;
use crate::network::{Host, Network};
use crate::oracle::Oracle;
use crate::server::Settings;
use crate::trace::{Printed, Trace};

impl Director {
    /// The director of a world with one server, and no process yet.
    pub(super) fn quiet() -> (Self, Arc<Shared>) {
        let mut network = Network::new(Rng::with_seed(1), Trace::new(Printed::Nothing));
        let mut host = Host::start(1, Settings::default());
        host.server.watch(Oracle::default());
        network.add(SocketAddr::from(([10, 0, 0, 1], 6379)), host);
        let shared = Arc::new(Shared::new(Trace::new(Printed::Nothing)));
        let plan = Plan { deployment: Deployment::Single, ..Plan::of(1, 1) };
        let network = Rc::new(RefCell::new(network));
        (Self::new(plan, network, shared.clone(), Rng::with_seed(2)), shared)
    }
}
