//! A design of the protocol, within the bounds of a check.

use super::mistake::Mistake;
use crate::checker;
use crate::faults::Faults;

/// The numbers of clients, and of acquisitions of each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Protocol {
    pub(super) clients: u8,
    pub(super) rounds: u8,
    pub(super) faults: Faults,
    pub(super) mistake: Mistake,
}

pub(super) const TWO: Protocol =
    Protocol { clients: 2, rounds: 1, faults: Faults::NONE, mistake: Mistake::None };
pub(super) const TWICE: Protocol = Protocol { rounds: 2, ..TWO };
pub(super) const THREE: Protocol = Protocol { clients: 3, ..TWO };

impl Protocol {
    pub(super) fn holds(self, faults: Faults) {
        checker::holds(Self { faults, ..self });
    }

    /// Checks that the property holds in spite of the mistake, which breaks others.
    pub(super) fn keeps(self, property: &'static str, mistake: Mistake, faults: Faults) {
        checker::keeps(Self { faults, mistake, ..self }, property);
    }

    /// Checks that the design holds, and that the mistake breaks the property.
    pub(super) fn breaks(self, property: &'static str, mistake: Mistake, faults: Faults) {
        self.holds(faults);
        checker::breaks(Self { faults, mistake, ..self }, property);
    }
}
