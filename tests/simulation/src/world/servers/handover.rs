//! A failover, watched: a promise is taken back only for what it has really lost.

use std::net::SocketAddr;

use crate::network::{Micros, Network};
use crate::server::replication::Role;

/// What a failover has lost.
#[derive(Clone, Copy, Debug)]
pub(in crate::world) struct Loss {
    /// The changes since then; `None` if nothing is lost.
    pub(in crate::world) since: Option<Micros>,
    /// By how much the heir's clock is ahead of the one before.
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
        let (at, ahead) = (network.now(), network.host(self.heir).ahead_us);
        let heir = &network.host(self.heir).server;
        if self.promoted.is_none() && heir.core().borrow().role == Role::Master {
            self.promoted = Some(Promoted { at, offset: heir.offset(), complete });
        }
        let Promoted { at, offset, complete } = *self.promoted.as_ref()?;
        let former = network.host(self.former);
        if former.server.core().borrow().role == Role::Master {
            return None;
        }
        let since = (self.written != offset).then_some(complete);
        Some(Loss { since, ahead_us: ahead - former.ahead_us, promoted: at })
    }
}
