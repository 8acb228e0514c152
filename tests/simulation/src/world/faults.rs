//! What goes wrong, and what that takes back from the promises.

use fastrand::Rng;
use leasehold_history::Effect;

use super::director::Director;
use super::forgeries::forge;
use super::{group_faults, odd_servers};
use crate::network::{Condition, LinkFaults, Micros, Network};
use crate::server::core::Work;
use crate::server::messages::MessageFaults;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Connections are lost before, amid and after commands.
    Cuts,
    /// Bytes are late, also those of a connection that its client has left.
    Stalls,
    /// Nothing arrives for a while, either way.
    Blocks,
    /// A server does nothing for a while.
    Freezes,
    /// A server starts again, with its data.
    Restarts,
    /// A server starts again, without its data.
    RestartsEmpty,
    /// All data is deleted.
    Flushes,
    /// A key is deleted by hand.
    Deletes,
    /// All scripts are forgotten.
    ScriptFlushes,
    /// A server's memory is full.
    Full,
    /// A server takes no writes.
    ReadOnly,
    /// A server loads its data.
    Loads,
    /// A server ends all connections.
    Kills,
    /// A server's clock jumps ahead.
    JumpsAhead,
    /// A server's clock is set back.
    JumpsBack,
    /// A process is stopped for a while.
    Stops,
    /// A process is suspended for a while, with its machine's timers.
    Suspensions,
    /// A process is killed, and another takes its place.
    Deaths,
    /// A process ends in order, and another takes its place.
    Deploys,
    /// Somebody frees a lock by force.
    Forces,
    /// Messages are lost, doubled, or late.
    Messages,
    /// Somebody who may only publish forges messages.
    Forgeries,
    /// The user may not call a command.
    Rights,
    /// A replica takes its master's place, and lacks what has not arrived.
    Failovers,
    /// A replica is far behind.
    Lags,
    /// The slot of a lock moves to another node.
    Moves,
    /// A node of a cluster takes no commands.
    CutOffs,
    /// Clocks are faster or slower than true time. Each has another rate now and then.
    Drifts,
    /// Somebody's script runs for too long on a server.
    Busy,
    /// Connections lose all that takes one way, and neither end is told.
    HalfOpen,
    /// A provider's quota is used up, or a server takes no more clients.
    Quotas,
    /// The first answers on new connections are not those of a server that is well.
    FirstWords,
    /// A proxy ends connections.
    Proxies,
    /// A server knows no script, whatever was sent to it.
    NoScripts,
    /// A node of a cluster sends clients to the wrong place.
    Redirects,
}

/// A waiter asks again this much later at most, whatever it misses.
pub(super) const NEXT_ASK: Micros = 3_000_000;

/// An idle lease that the server has forgotten is taken up for this much longer at most.
pub(super) const IDLE: Micros = 1_100_000;

impl Fault {
    pub const ALL: [Self; 35] = [
        Self::Cuts,
        Self::Stalls,
        Self::Blocks,
        Self::Freezes,
        Self::Restarts,
        Self::RestartsEmpty,
        Self::Flushes,
        Self::Deletes,
        Self::ScriptFlushes,
        Self::Full,
        Self::ReadOnly,
        Self::Loads,
        Self::Kills,
        Self::JumpsAhead,
        Self::JumpsBack,
        Self::Stops,
        Self::Suspensions,
        Self::Deaths,
        Self::Deploys,
        Self::Forces,
        Self::Messages,
        Self::Forgeries,
        Self::Rights,
        Self::Failovers,
        Self::Lags,
        Self::Moves,
        Self::CutOffs,
        Self::Drifts,
        Self::Busy,
        Self::HalfOpen,
        Self::Quotas,
        Self::FirstWords,
        Self::Proxies,
        Self::NoScripts,
        Self::Redirects,
    ];

    /// Returns true if it is one of servers that belong together.
    pub(super) fn is_of_group(self) -> bool {
        matches!(self, Self::Failovers | Self::Lags | Self::Moves | Self::CutOffs | Self::Redirects)
    }

    /// Its name, one word.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// The fault of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }

    /// What it takes back from the promises, and for how long after it is over: tests/history/troubles.rs has
    /// what each rule makes of that. What depends on how it goes is noted where that is known.
    pub(super) fn takes(self) -> &'static [(Effect, Micros)] {
        match self {
            Self::Flushes | Self::Deletes | Self::JumpsAhead | Self::Forces => {
                &[(Effect::Forgets, IDLE)]
            }
            Self::RestartsEmpty => &[(Effect::Forgets, 0)],
            Self::Moves => &[(Effect::Moves, NEXT_ASK)],
            Self::Kills => &[(Effect::Away, 100_000)],
            Self::Messages | Self::Failovers | Self::Lags | Self::CutOffs => {
                &[(Effect::Away, NEXT_ASK)]
            }
            Self::Rights | Self::Quotas | Self::FirstWords | Self::Proxies | Self::Redirects => {
                &[(Effect::Away, NEXT_ASK), (Effect::Refuses, 0)]
            }
            Self::Freezes
            | Self::Restarts
            | Self::ScriptFlushes
            | Self::Full
            | Self::ReadOnly
            | Self::Loads
            | Self::Busy => &[(Effect::Away, 0)],
            // They are a process's, or nobody's.
            Self::Cuts
            | Self::Stalls
            | Self::Blocks
            | Self::HalfOpen
            | Self::JumpsBack
            | Self::Stops
            | Self::Suspensions
            | Self::Deaths
            | Self::Deploys
            | Self::Drifts
            | Self::NoScripts
            | Self::Forgeries => &[],
        }
    }

    /// Lets it happen now. Returns when it is over.
    pub(super) fn happen(self, director: &mut Director, rng: &mut Rng) -> Micros {
        let now = director.now();
        let short = rng.u64(10_000..1_000_000);
        let time = if rng.u8(..4) == 0 { rng.u64(10_000..8_000_000) } else { short };
        match self {
            Self::Cuts | Self::Stalls | Self::Blocks => self.disturb_links(director, time, rng),
            Self::Freezes => {
                let host = director.any_host(rng);
                director.network().host(host).condition = Condition::FrozenUntil(now + time);
                director.took(self, now + time);
            }
            Self::Restarts | Self::RestartsEmpty => {
                let keeps = self == Self::Restarts;
                let host = director.any_host(rng);
                director.network().stop(host);
                director.later(now + time, move |network| {
                    // The restart that is over first starts the server.
                    if network.host(host).condition == Condition::Down {
                        network.restart(host, keeps);
                    }
                });
                director.took(self, now + time);
            }
            Self::Flushes => {
                let host = director.any_master(rng);
                director.network().host(host).server.flush();
                director.took(self, now);
            }
            Self::Deletes => {
                let host = director.any_master(rng);
                let deleted = director.network().host(host).delete_any(rng);
                if let Some(key) = deleted {
                    director.say(&format!("{key} is deleted by hand"));
                    director.took(self, now);
                }
            }
            Self::ScriptFlushes => {
                let host = director.any_with_data(rng);
                director.network().host(host).server.forget_scripts();
                director.took(self, now);
            }
            Self::Full | Self::ReadOnly | Self::Loads | Self::Busy => {
                let host = director.any_with_data(rng);
                let set = move |network: &mut Network, is: bool| {
                    let core = network.host(host).server.core();
                    let condition = &mut core.borrow_mut().condition;
                    match self {
                        Self::Full => condition.is_full = is,
                        Self::ReadOnly => condition.is_replica = is,
                        _ if !is => condition.work = Work::None,
                        Self::Busy => condition.work = Work::Busy,
                        _ => condition.work = Work::Loads,
                    }
                };
                set(&mut director.network(), true);
                director.later(now + time, move |network| set(network, false));
                director.took(self, now + time);
            }
            Self::Kills => {
                let host = director.any_host(rng);
                director.network().host(host).server.end_connections();
                director.took(self, now);
            }
            Self::JumpsAhead | Self::JumpsBack => self.set_clock(director, rng),
            Self::Stops | Self::Suspensions => {
                director.stop_one(time, self == Self::Suspensions, rng);
            }
            Self::Deaths => director.kill_one(rng),
            Self::Deploys => director.replace_one(rng),
            Self::Messages => self.disturb_messages(director, time, rng),
            Self::Rights
            | Self::Quotas
            | Self::FirstWords
            | Self::Proxies
            | Self::NoScripts
            | Self::Redirects => return odd_servers::happen(self, director, time, rng),
            Self::Forgeries => {
                let host = director.any_with_data(rng);
                for _ in 0..rng.u8(1..10) {
                    forge(&mut director.network().host(host).server, rng);
                }
            }
            Self::Failovers => return group_faults::fail_over(director, rng),
            Self::Lags => return group_faults::lag(director, time, rng),
            Self::Moves => return group_faults::move_slot(director, rng),
            Self::CutOffs => return group_faults::cut_off(director, time, rng),
            Self::HalfOpen => director.half_open_one(rng),
            Self::Drifts => director.change_a_rate(rng),
            Self::Forces => {
                director.force_one(rng);
                director.took(self, now);
            }
        }
        now + time
    }

    /// A server's clock is changed.
    fn set_clock(self, director: &mut Director, rng: &mut Rng) {
        let (host, now) = (director.any_with_data(rng), director.now());
        // Seldom by more than any heartbeat lasts. Servers that follow one another never are hours apart:
        // after a failover leases would last for as long.
        let by = if rng.u8(..6) == 0 && !director.is_group() {
            rng.u64(10_000_000..7_200_000_000)
        } else {
            rng.u64(50_000..1_500_000)
        };
        let amount = i64::try_from(by).expect("hours at most");
        let ahead = director.network().host(host).ahead_us(now);
        if self == Self::JumpsAhead {
            director.network().host(host).set_ahead_us(now, ahead + amount);
            // Leases end early.
            director.took(self, now);
        } else {
            director.network().host(host).set_ahead_us(now, ahead - amount);
            director.note(&self.name(), Effect::Behind, now, now, by);
        }
        if director.is_quorum() {
            director.set_right_later(host, rng);
        }
    }

    /// Messages do not arrive as they were sent.
    fn disturb_messages(self, director: &mut Director, time: Micros, rng: &mut Rng) {
        let (host, now) = (director.any_with_data(rng), director.now());
        let faults = MessageFaults::new([20, 300][rng.usize(..2)], rng.fork());
        director.network().host(host).server.disturb_messages(Some(faults));
        director.later(now + time, move |network| {
            network.host(host).server.disturb_messages(None);
        });
        director.took(self, now + time);
    }

    /// The way to the servers is bad for a while.
    fn disturb_links(self, director: &mut Director, time: Micros, rng: &mut Rng) {
        let now = director.now();
        let often = [2, 20, 100][rng.usize(..3)];
        let none = LinkFaults::default();
        let faults = match self {
            Self::Stalls => {
                let longest_stall = director.longest_stall();
                LinkFaults { stall: often, longest_stall, ..none }
            }
            Self::Blocks => LinkFaults { blocked_until: Some(now + time), ..none },
            _ => LinkFaults { cut_before: often, cut_halfway: often, cut_after: often, ..none },
        };
        director.disturb_links(&self.name(), faults, time, rng);
    }
}
