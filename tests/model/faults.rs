//! How much may go wrong in a run of the checker.

/// How often each may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// Commands and answers that are lost, or late.
    pub(crate) losses: u8,
    pub(crate) messages: u8,
    /// Windows that run out on a client that lives.
    pub(crate) pauses: u8,
    pub(crate) deaths: u8,
    /// Acquisitions that are dropped.
    pub(crate) cancels: u8,
    pub(crate) failovers: u8,
    /// Releases by force: only where several may hold.
    pub(crate) forces: u8,
    /// Leases that are detached, for others to adopt.
    pub(crate) detaches: u8,
    /// Leases that go to another task of their client.
    pub(crate) turns: u8,
}

impl Faults {
    pub(crate) const NONE: Self = Self {
        losses: 0,
        messages: 0,
        pauses: 0,
        deaths: 0,
        cancels: 0,
        failovers: 0,
        forces: 0,
        detaches: 0,
        turns: 0,
    };
    pub(crate) const PAUSE: Self = Self { pauses: 1, ..Self::NONE };
    pub(crate) const LOSS: Self = Self { losses: 1, ..Self::NONE };
    pub(crate) const MESSAGE: Self = Self { messages: 1, ..Self::NONE };
    pub(crate) const DEATH: Self = Self { deaths: 1, ..Self::NONE };
    pub(crate) const CANCEL: Self = Self { cancels: 1, ..Self::NONE };
    pub(crate) const FAILOVER: Self = Self { failovers: 1, ..Self::NONE };
    pub(crate) const FORCE: Self = Self { forces: 1, ..Self::NONE };
    pub(crate) const DETACH: Self = Self { detaches: 1, ..Self::NONE };
    pub(crate) const TURN: Self = Self { turns: 1, ..Self::NONE };
    pub(crate) const EACH: Self = Self {
        losses: 1,
        messages: 1,
        pauses: 1,
        deaths: 1,
        cancels: 1,
        failovers: 1,
        ..Self::NONE
    };
}
