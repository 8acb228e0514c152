//! The faults that may happen in a run of the checker.

/// The number of times that each fault may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// Commands and answers that are lost, or late.
    pub(crate) losses: u8,
    pub(crate) hints: u8,
    /// Windows of a live client that end.
    pub(crate) pauses: u8,
    pub(crate) deaths: u8,
    /// Acquisitions that are dropped.
    pub(crate) cancels: u8,
    pub(crate) failovers: u8,
    /// Leases that are detached, for others to adopt.
    pub(crate) detaches: u8,
    /// Leases that go to another task of their client.
    pub(crate) turns: u8,
}

impl Faults {
    pub(crate) const NONE: Self = Self {
        losses: 0,
        hints: 0,
        pauses: 0,
        deaths: 0,
        cancels: 0,
        failovers: 0,
        detaches: 0,
        turns: 0,
    };
    pub(crate) const PAUSE: Self = Self { pauses: 1, ..Self::NONE };
    pub(crate) const LOSS: Self = Self { losses: 1, ..Self::NONE };
    pub(crate) const HINT: Self = Self { hints: 1, ..Self::NONE };
    pub(crate) const DEATH: Self = Self { deaths: 1, ..Self::NONE };
    pub(crate) const CANCEL: Self = Self { cancels: 1, ..Self::NONE };
    pub(crate) const FAILOVER: Self = Self { failovers: 1, ..Self::NONE };
    pub(crate) const DETACH: Self = Self { detaches: 1, ..Self::NONE };
    pub(crate) const TURN: Self = Self { turns: 1, ..Self::NONE };
    pub(crate) const EACH: Self =
        Self { losses: 1, hints: 1, pauses: 1, deaths: 1, cancels: 1, failovers: 1, ..Self::NONE };
}
