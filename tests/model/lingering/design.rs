//! A design of the protocol, within the bounds of a check.

use super::mistake::Mistake;
use crate::checker;
use crate::faults::Faults;

/// The numbers of acquisitions of two clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lingering {
    pub(super) rounds: [u8; 2],
    /// Some acquisitions do not wait.
    pub(super) tries: bool,
    pub(super) faults: Faults,
    pub(super) mistake: Mistake,
}

/// The first client acquires this often, and the other one once.
const NONE: Lingering =
    Lingering { rounds: [0; 2], tries: true, faults: Faults::NONE, mistake: Mistake::None };
pub(super) const ONCE: Lingering = Lingering { rounds: [1, 1], ..NONE };
pub(super) const TWICE: Lingering = Lingering { rounds: [2, 1], ..NONE };
/// Nobody tries: all acquisitions wait.
pub(super) const WAITING: Lingering = Lingering { tries: false, ..TWICE };
pub(super) const THRICE: Lingering = Lingering { rounds: [3, 1], ..WAITING };
/// Both acquire twice.
pub(super) const BOTH_TWICE: Lingering = Lingering { rounds: [2, 2], ..NONE };

impl Lingering {
    pub(super) fn holds(self, faults: Faults) {
        checker::holds(Self { faults, ..self });
    }

    /// Checks that the design holds, and that the mistake breaks the property.
    pub(super) fn breaks(self, property: &'static str, mistake: Mistake, faults: Faults) {
        self.holds(faults);
        checker::breaks(Self { faults, mistake, ..self }, property);
    }
}
