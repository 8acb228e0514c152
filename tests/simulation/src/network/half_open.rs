//! Connections of which one way loses everything: each end takes it for open, and one of them never
//! hears of the other again.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::{Connection, Network, ProcessId};

/// A way of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the server, which keeps the connection although its client has closed it.
    There,
    /// To the client, which does not hear that the server has closed it.
    Back,
}

impl Network {
    /// From now on, some of a process's connections lose all that takes one way. Those that it opens
    /// later do not. Returns how many.
    pub fn lose_a_way(&mut self, process: ProcessId, rng: &mut Rng) -> usize {
        let way = if rng.bool() { Way::There } else { Way::Back };
        let own = self.connections.values_mut().filter(|it| it.process == process);
        let mut count = 0;
        for connection in own.filter(|it| it.lost.is_none()) {
            if rng.u8(..3) > 0 {
                connection.lost = Some(way);
                count += 1;
            }
        }
        count
    }

    /// The processes that have tried such a connection for the first time since the last call.
    pub fn take_tried(&mut self) -> BTreeSet<ProcessId> {
        std::mem::take(&mut self.tried)
    }

    /// The processes that have a connection of which a way is lost, and have not tried it since.
    pub fn unaware(&self) -> BTreeSet<ProcessId> {
        let is = |it: &&Connection| it.lost.is_some() && !it.is_tried;
        self.connections.values().filter(is).map(|it| it.process).collect()
    }
}
