//! A failover, watched: a promise is taken back only for what it has really lost.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use crate::network::{BEGINNING_US, Host, Micros, Network};
use crate::oracle::{Grants, known_grants, requests};
use crate::server::replication::Role;

/// What a failover has lost.
#[derive(Clone, Debug)]
pub(in crate::world) struct Loss {
    /// The changes since then; `None` if nothing is lost.
    pub(in crate::world) since: Option<Micros>,
    /// The grants of the former master that the heir lacked, or of which it lacked the last renewals:
    /// lock, token, and until when it knew the lease.
    pub(in crate::world) forgotten: Vec<(String, u64, Micros)>,
    /// The requests that the heir has when the former master is none any more. Some may have ended there.
    pub(in crate::world) revived: BTreeSet<Vec<u8>>,
    /// By how much the heir's clock was ahead of the one before when it took over.
    pub(in crate::world) ahead_us: i64,
    /// When the heir took over.
    pub(in crate::world) promoted: Micros,
}

pub(super) struct Handover {
    former: SocketAddr,
    pub(super) heir: SocketAddr,
    /// What the former master has done as long as it was one.
    written: u64,
    promoted: Option<Promoted>,
}

struct Promoted {
    at: Micros,
    /// What the heir had then, and since when it may have lacked something.
    offset: u64,
    complete: Micros,
    /// By how much its clock was ahead of its master's.
    ahead_us: i64,
    /// The leases that it had: their token, and when they end.
    known: BTreeMap<String, (u64, Micros)>,
    /// Those that the former master had, whoever has granted them.
    before: BTreeSet<(String, u64)>,
}

impl Promoted {
    fn look(network: &mut Network, former: SocketAddr, heir: SocketAddr, complete: Micros) -> Self {
        let at = network.now();
        let before = known_grants(&network.host(former).server.core().borrow());
        let before = before.into_iter().map(|(lock, (token, _))| (lock, token)).collect();
        let master_ahead_us = network.host(former).ahead_us(at);
        let host = network.host(heir);
        let ahead_us = host.ahead_us(at) - master_ahead_us;
        let held = known_grants(&host.server.core().borrow());
        let ends = |ms| true_time(host, at, ms).max(at);
        let known = held.into_iter().map(|(lock, (token, ms))| (lock, (token, ends(ms)))).collect();
        Self { at, offset: host.server.offset(), complete, ahead_us, known, before }
    }

    /// Which of these the heir lacked, in full or in part.
    fn forgotten(&self, granted: &Grants) -> Vec<(String, u64, Micros)> {
        let before = self.before.iter().map(|(lock, token)| (lock.as_str(), *token));
        let all: BTreeSet<_> = granted.all().chain(before).collect();
        let until = |(lock, token): (&str, u64)| match self.known.get(lock) {
            Some((known, until)) if *known == token => (lock.to_owned(), token, *until),
            _ => (lock.to_owned(), token, self.at),
        };
        all.into_iter().map(until).collect()
    }
}

/// When a server's clock shows this time, if it goes on as it does now.
fn true_time(host: &Host, now: Micros, ms: i64) -> Micros {
    let time = ms.saturating_mul(1_000).saturating_sub(BEGINNING_US + host.ahead_us(now));
    Micros::try_from(time).unwrap_or_default()
}

impl Handover {
    pub(super) fn new(former: SocketAddr, heir: SocketAddr) -> Self {
        Self { former, heir, written: 0, promoted: None }
    }

    /// Before the servers learn anything in this turn.
    pub(super) fn before(&mut self, network: &mut Network) {
        let former = &network.host(self.former).server;
        if former.core().borrow().role == Role::Master {
            self.written = former.offset();
        }
    }

    /// After that. Returns what is lost, once the former master is none any more.
    pub(super) fn after(&mut self, network: &mut Network, complete: Micros) -> Option<Loss> {
        let is_master = |network: &mut Network, address| {
            network.host(address).server.core().borrow().role == Role::Master
        };
        if self.promoted.is_none() && is_master(network, self.heir) {
            self.promoted = Some(Promoted::look(network, self.former, self.heir, complete));
        }
        let promoted = self.promoted.as_ref()?;
        if is_master(network, self.former) {
            return None;
        }
        let former = network.host(self.former);
        let since = (self.written != promoted.offset).then_some(promoted.complete);
        let granted = former.server.oracle().map(|it| it.grants().clone()).unwrap_or_default();
        let forgotten = since.map(|_| promoted.forgotten(&granted)).unwrap_or_default();
        let heir = requests(&network.host(self.heir).server.core().borrow());
        let revived = heir.into_iter().flat_map(|it| it.1).collect();
        Some(Loss { since, forgotten, revived, ahead_us: promoted.ahead_us, promoted: promoted.at })
    }
}
