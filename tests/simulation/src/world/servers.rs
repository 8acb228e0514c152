//! The servers of a world, and what binds them: who follows whom, and what a failover has lost.

mod handover;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fastrand::Rng;

use self::handover::Handover;
pub(super) use self::handover::Loss;
use super::plan::{Deployment, Plan};
use crate::group::{Group, Times, acts};
use crate::network::{Host, Micros, Network};
use crate::oracle::Oracle;
use crate::server::cluster::{NodeNumber, View, slot_of};
use crate::server::replication::{Role, Upstream};
use crate::server::sentinel::Sentinel;
use crate::server::{Server, Settings};
use crate::trace::Printed;

/// How far replicas are behind where nothing is wrong.
const LAG: Micros = 1_000;

/// The masters of a cluster; and the servers with data behind sentinels: a master and two replicas.
const MASTERS: u8 = 3;

/// The numbers of the sentinels.
const SENTINELS: [u8; 3] = [11, 12, 13];

/// By how much the clocks of a quorum drift from true time: by less than half of what it allows, in
/// microseconds.
const MOST_DRIFTED: i64 = 40_000;

const NAME: &str = "m";

pub(super) struct Servers {
    group: Group,
    /// Those with data.
    data: Vec<SocketAddr>,
    sentinels: Vec<SocketAddr>,
    /// What a cluster is meant to be; `None` of other deployments.
    view: Option<View>,
    /// Until when replicas are behind by more than usual.
    lags: BTreeMap<SocketAddr, Micros>,
    /// When each replica last had all that its master has.
    complete: BTreeMap<SocketAddr, Micros>,
    handover: Option<Handover>,
}

fn address(nth: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, nth], 6379))
}

fn words(address: SocketAddr) -> (String, u16) {
    (address.ip().to_string(), address.port())
}

impl Servers {
    /// Starts the servers of a world.
    pub(super) fn start(plan: &Plan, network: &mut Network) -> Self {
        let count = match plan.deployment {
            Deployment::Single => 1,
            Deployment::Quorum(servers) => servers,
            Deployment::Cluster => 2 * MASTERS,
            Deployment::Sentinel { .. } => MASTERS,
        };
        let nodes = |from: u8| (from..from + MASTERS).map(|nth| words(address(nth)));
        let view = (plan.deployment == Deployment::Cluster).then(|| {
            let replicas: Vec<_> = nodes(MASTERS + 1).map(|it| vec![it]).collect();
            View::of(&nodes(1).collect::<Vec<_>>(), &replicas)
        });
        let data: Vec<_> = (1..=count).map(address).collect();
        for (nth, address) in data.iter().enumerate() {
            let start = |settings, now_us| match &view {
                Some(view) => Server::start_node(settings, now_us, nth, view.clone()),
                None => Server::new(settings, now_us),
            };
            let number = u32::try_from(nth + 1).expect("a few servers");
            let settings = Settings { may_kill: plan.may_kill, ..Settings::default() };
            let mut host = Host::start_as(number, settings, start);
            let is_told = plan.printed != Printed::Nothing;
            host.server.watch(if is_told { Oracle::that_tells() } else { Oracle::default() });
            if let Some((from, to)) = &plan.altered {
                host.server.alter(from, to);
            }
            network.add(*address, host);
        }
        let mut servers = Self {
            group: Group::default(),
            data,
            sentinels: Vec::new(),
            view,
            lags: BTreeMap::new(),
            complete: BTreeMap::new(),
            handover: None,
        };
        servers.bind(plan.deployment, network);
        servers
    }

    /// Starts sentinels, and lets replicas follow their masters.
    fn bind(&mut self, deployment: Deployment, network: &mut Network) {
        let mut follow = |replica, master| {
            self.group.follow(network, address(replica), address(master), LAG);
        };
        match deployment {
            Deployment::Single | Deployment::Quorum(_) => {}
            Deployment::Cluster => (1..=MASTERS).for_each(|nth| follow(nth + MASTERS, nth)),
            Deployment::Sentinel { .. } => {
                (2..=MASTERS).for_each(|nth| follow(nth, 1));
                for nth in SENTINELS {
                    let sentinel = |settings, now_us| {
                        let knows = Sentinel::of(NAME, words(address(1)));
                        Server::start_sentinel(settings, now_us, knows)
                    };
                    let host = Host::start_as(u32::from(nth), Settings::default(), sentinel);
                    network.add(address(nth), host);
                    self.sentinels.push(address(nth));
                }
            }
        }
    }

    /// Clocks that drift are led back, as NTP does it. Those of a quorum have to agree about the time.
    pub(super) fn slew(&self, network: &mut Network) {
        let now = network.now();
        for address in &self.data {
            let host = network.host(*address);
            let (drifted, drift) = (host.drifted_us(now), host.drift());
            if drifted.abs() > MOST_DRIFTED && drifted.signum() == drift.signum() {
                host.set_drift(now, -drift);
            }
        }
    }

    /// How clients name these servers.
    pub(super) fn urls(&self) -> Vec<String> {
        let all = |of: &[SocketAddr]| of.iter().map(SocketAddr::to_string).collect::<Vec<_>>();
        if self.view.is_some() {
            return vec![format!("redis://{}", all(&self.data).join(","))];
        }
        if !self.sentinels.is_empty() {
            return vec![format!("redis+sentinel://{}/{NAME}", all(&self.sentinels).join(","))];
        }
        all(&self.data).iter().map(|address| format!("redis://{address}")).collect()
    }

    /// Any server, sentinels included.
    pub(super) fn any(&self, rng: &mut Rng) -> SocketAddr {
        let at = rng.usize(..self.data.len() + self.sentinels.len());
        self.data.iter().chain(&self.sentinels).nth(at).copied().expect("there are as many")
    }

    /// Any server with data.
    pub(super) fn any_with_data(&self, rng: &mut Rng) -> SocketAddr {
        self.data[rng.usize(..self.data.len())]
    }

    /// Any server that takes writes.
    pub(super) fn any_master(&self, network: &mut Network, rng: &mut Rng) -> SocketAddr {
        let is_master =
            |it: &SocketAddr| network.host(*it).server.core().borrow().role == Role::Master;
        let masters: Vec<_> = self.data.iter().copied().filter(is_master).collect();
        if masters.is_empty() { self.data[0] } else { masters[rng.usize(..masters.len())] }
    }

    /// Returns true if no failover is under way, and no slot moves.
    pub(super) fn is_settled(&self) -> bool {
        self.group.is_settled() && self.handover.is_none()
    }

    /// Carries on what goes on between servers. Returns what a failover that is over has lost.
    pub(super) fn turn(&mut self, network: &mut Network) -> Option<Loss> {
        let now = network.now();
        if let Some(handover) = &mut self.handover {
            handover.before(network);
        }
        self.group.turn(network);
        self.lags.retain(|replica, until| {
            if *until <= now {
                self.group.set_lag(*replica, LAG);
            }
            *until > now
        });
        for nth in 0..self.data.len() {
            self.follow_on(self.data[nth], network);
        }
        let handover = self.handover.as_mut()?;
        let complete = self.complete.get(&handover.heir).copied().unwrap_or_default();
        let loss = handover.after(network, complete)?;
        self.handover = None;
        Some(loss)
    }

    /// A replica that has lost its master begins again as soon as both are there.
    fn follow_on(&mut self, replica: SocketAddr, network: &mut Network) {
        // Nobody follows a server that does not exist.
        let role = {
            let core = network.host(replica).server.core().borrow();
            if core.condition.is_replica {
                return;
            }
            core.role.clone()
        };
        let Role::Replica(Upstream { host, port, .. }) = role else { return };
        let master = SocketAddr::new(host.parse().expect("an address"), port);
        let is_master = network.host(master).server.role() == Role::Master;
        if !is_master || !acts(network, master) || !acts(network, replica) {
            return;
        }
        if !self.group.has_link(replica) {
            self.group.follow(network, replica, master, LAG);
        }
        if network.host(replica).server.offset() == network.host(master).server.offset() {
            self.complete.insert(replica, network.now());
        }
    }

    /// A replica, and its master.
    pub(super) fn any_pair(
        &self,
        network: &mut Network,
        rng: &mut Rng,
    ) -> Option<(SocketAddr, SocketAddr)> {
        let pair = |it: &SocketAddr| match &network.host(*it).server.core().borrow().role {
            Role::Replica(of) => Some((*it, SocketAddr::new(of.host.parse().ok()?, of.port))),
            Role::Master => None,
        };
        let pairs: Vec<_> = self.data.iter().filter_map(pair).collect();
        rng.choice(pairs)
    }

    /// A replica is behind by this much for a while.
    pub(super) fn lag(&mut self, replica: SocketAddr, lag: Micros, until: Micros) {
        self.group.set_lag(replica, lag);
        self.lags.insert(replica, until);
    }

    /// The heir takes its master's place.
    pub(super) fn fail_over(
        &mut self,
        (former, heir): (SocketAddr, SocketAddr),
        now: Micros,
        times: Times,
    ) {
        self.handover = Some(Handover::new(former, heir));
        if let Some(view) = &mut self.view {
            let heir = self.data.iter().position(|it| *it == heir).expect("it is a node");
            self.group.take_over(view, heir, now, times);
            return;
        }
        self.group.fail_over((former, heir), &self.sentinels, now, times);
        let others = self.data.iter().filter(|it| ![former, heir].contains(*it));
        for (nth, other) in (1..).zip(others) {
            let step = crate::group::Step::Demote { replica: *other, master: heir, lag: times.lag };
            self.group.later(now + times.promoted + nth * times.pause, step);
        }
    }

    /// The slot of a lock moves to another master. Returns the two nodes; `None` if it cannot.
    pub(super) fn move_slot(
        &mut self,
        lock: &str,
        (now, pause): (Micros, Micros),
        rng: &mut Rng,
    ) -> Option<[SocketAddr; 2]> {
        let view = self.view.as_mut()?;
        let slot = slot_of(format!("{{{lock}}}").as_bytes());
        let from = view.owner(slot)?;
        let masters = (0..view.nodes.len()).filter(|nth| view.nodes[*nth].master.is_none());
        let others: Vec<NodeNumber> = masters.filter(|nth| *nth != from).collect();
        let to = rng.choice(others)?;
        self.group.move_slot(view, slot, to, now, pause);
        Some([self.data[from], self.data[to]])
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.view.is_some()
    }

    pub(super) fn data(&self) -> &[SocketAddr] {
        &self.data
    }
}
