//! A design of the protocol, within the bounds of a check.

use super::mistake::Mistake;
use crate::checker;
use crate::faults::Faults;

/// How long the work counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    /// For a time from the completion.
    FromSuccess,
    /// Until the tick ends in which the lock was granted.
    ForTick,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Once {
    /// The numbers of acquisitions of each client.
    pub(super) rounds: &'static [u8],
    /// This client does not ask for the work to succeed once.
    pub(super) plain: Option<u8>,
    pub(super) counts: Counts,
    /// How far the clock may go on.
    pub(super) until: u8,
    pub(super) faults: Faults,
    pub(super) mistake: Mistake,
}

/// The first client acquires twice, and the other one once.
pub(super) const FROM_SUCCESS: Once = Once {
    rounds: &[2, 1],
    plain: None,
    counts: Counts::FromSuccess,
    until: 3,
    faults: Faults::NONE,
    mistake: Mistake::None,
};
pub(super) const TICKS: Once = Once { counts: Counts::ForTick, until: 2, ..FROM_SUCCESS };
pub(super) const THREE: Once = Once { rounds: &[1, 1, 1], until: 2, ..FROM_SUCCESS };
pub(super) const THREE_IN_TICKS: Once = Once { rounds: &[1, 1, 1], until: 1, ..TICKS };
/// The third client is plain.
pub(super) const WITH_PLAIN: Once = Once { plain: Some(2), ..THREE };

impl Once {
    pub(super) fn holds(self, faults: Faults) {
        checker::holds(Self { faults, ..self });
    }

    /// Checks that the design holds, and that the mistake breaks the property.
    pub(super) fn breaks(self, property: &'static str, mistake: Mistake, faults: Faults) {
        self.holds(faults);
        checker::breaks(Self { faults, mistake, ..self }, property);
    }
}
