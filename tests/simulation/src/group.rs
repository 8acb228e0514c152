//! Servers that belong together: what goes from masters to replicas, and what happens to all of them
//! in a failover and while a slot moves. The world calls [`Group::turn`] after each of its turns.

mod links;
mod steps;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use self::links::Link;
pub use self::steps::Step;
use crate::network::{Condition, Micros, Network};
use crate::server::cluster::{NodeNumber, View};

/// How long a server that is frozen or down is waited for, until it is tried again.
const RETRY: Micros = 10_000;

/// The links between servers, and the steps to come.
#[derive(Debug, Default)]
pub struct Group {
    links: Vec<Link>,
    steps: BTreeMap<(Micros, u64), Step>,
    next_step: u64,
}

/// The times of a failover, each from its beginning.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// When the replica becomes the master.
    pub promoted: Micros,
    /// After how long each further server learns of it.
    pub pause: Micros,
    /// When the former master learns of it. Until then it grants what nobody else knows of.
    pub demoted: Micros,
    /// How far replicas are behind from then on.
    pub lag: Micros,
}

impl Group {
    /// Does what is due, and carries changes from masters to replicas.
    pub fn turn(&mut self, network: &mut Network) {
        let now = network.now();
        while let Some(entry) = self.steps.first_entry().filter(|entry| entry.key().0 <= now) {
            let step = entry.remove();
            if step.servers().iter().all(|address| acts(network, *address)) {
                network.say(&format!("step: {step:?}"));
                step.happen(self, network);
            } else {
                self.later(now + RETRY, step);
            }
        }
        self.links.retain_mut(|link| link.carry(network));
    }

    /// Returns true if there are no steps to come.
    pub fn is_settled(&self) -> bool {
        self.steps.is_empty()
    }

    /// Plans a step. It waits for servers that are frozen or down.
    pub fn later(&mut self, at: Micros, step: Step) {
        self.next_step += 1;
        self.steps.insert((at, self.next_step), step);
    }

    /// A server becomes a replica of another, with all that one has, and stays behind by `lag`.
    pub fn follow(
        &mut self,
        network: &mut Network,
        replica: SocketAddr,
        master: SocketAddr,
        lag: Micros,
    ) {
        self.links.retain(|link| link.replica != replica);
        self.links.push(Link::open(network, replica, master, lag));
    }

    /// Returns true if a replica follows some master.
    pub fn has_link(&self, replica: SocketAddr) -> bool {
        self.links.iter().any(|link| link.replica == replica)
    }

    /// From now on, changes take so long to a replica.
    pub fn set_lag(&mut self, replica: SocketAddr, lag: Micros) {
        for link in self.links.iter_mut().filter(|link| link.replica == replica) {
            link.lag = lag;
        }
    }

    /// A replica takes its master's place, and lacks what has not arrived. The sentinels name it one
    /// after the other.
    pub fn fail_over(
        &mut self,
        (former, heir): (SocketAddr, SocketAddr),
        sentinels: &[SocketAddr],
        now: Micros,
        times: Times,
    ) {
        let Times { promoted, pause, demoted, lag } = times;
        self.later(now + promoted, Step::Promote(heir));
        for (nth, sentinel) in (1..).zip(sentinels) {
            let at = now + promoted + nth * pause;
            self.later(at, Step::Tell { sentinel: *sentinel, master: heir });
        }
        self.later(now + demoted, Step::Demote { replica: former, master: heir, lag });
    }

    /// The same in a cluster, of which this is the view before: the nodes hear of it one after the
    /// other, the heir first, and the former master when it is demoted.
    pub fn take_over(&mut self, view: &mut View, heir: NodeNumber, now: Micros, times: Times) {
        let Times { promoted, pause, demoted, lag } = times;
        let Some(former) = view.nodes[heir].master else { return };
        view.promote(heir);
        self.later(now + promoted, Step::Hear { node: address(view, heir), view: view.clone() });
        let others = (0..view.nodes.len()).filter(|nth| *nth != heir && *nth != former);
        for (nth, node) in (1..).zip(others) {
            let at = now + promoted + nth * pause;
            self.later(at, Step::Hear { node: address(view, node), view: view.clone() });
        }
        let (node, master) = (address(view, former), address(view, heir));
        self.later(now + demoted, Step::Hear { node, view: view.clone() });
        self.later(now + demoted, Step::Follow { replica: node, master, lag });
    }

    /// A slot moves to another node, a key after each pause; then the nodes hear of its new owner,
    /// one after each pause. The view is the one before, and becomes the one after it.
    pub fn move_slot(
        &mut self,
        view: &mut View,
        slot: u16,
        to: NodeNumber,
        now: Micros,
        pause: Micros,
    ) {
        let Some(from) = view.owner(slot).filter(|from| *from != to) else { return };
        let before = view.clone();
        view.give(slot..=slot, Some(to));
        let (before, after) = (Box::new(before), Box::new(view.clone()));
        self.later(now, Step::Open { slot, from, to, before, after, pause });
    }
}

/// Returns true if a server does anything now.
pub(crate) fn acts(network: &mut Network, address: SocketAddr) -> bool {
    let now = network.now();
    match network.host(address).condition {
        Condition::Up => true,
        Condition::FrozenUntil(until) => until <= now,
        Condition::Down => false,
    }
}

/// Where a node is.
fn address(view: &View, node: NodeNumber) -> SocketAddr {
    let node = &view.nodes[node];
    SocketAddr::new(node.host.parse().expect("an address"), node.port)
}
