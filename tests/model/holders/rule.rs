//! The request of a client, and the holders that it tolerates: all in which the kinds differ.

pub(super) const LIMIT: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// A permit of a semaphore.
    Permit,
    /// A hold of a reentrant mutex.
    Hold,
    Read,
    Write,
}

/// The relation of a client to another one of the same owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bond {
    None,
    /// It begins while the other one holds. The other goes on only after this one's end: a call
    /// within a call.
    Within(usize),
    /// It begins while the other one holds. Then the other one goes first.
    Beyond(usize),
}

/// The role of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Role {
    pub(super) mode: Mode,
    /// Without an owner, a client has only its own lease.
    owner: Option<char>,
    /// It does not wait.
    pub(super) tries: bool,
    pub(super) bond: Bond,
}

impl Role {
    const fn new(mode: Mode, owner: Option<char>) -> Self {
        Self { mode, owner, tries: false, bond: Bond::None }
    }

    pub(super) const PERMIT: Self = Self::new(Mode::Permit, None);
    pub(super) const READ: Self = Self::new(Mode::Read, None);
    pub(super) const WRITE: Self = Self::new(Mode::Write, None);

    pub(super) const fn hold(owner: char) -> Self {
        Self::new(Mode::Hold, Some(owner))
    }

    pub(super) const fn owned_by(self, owner: char) -> Self {
        Self { owner: Some(owner), ..self }
    }

    pub(super) const fn trying(self) -> Self {
        Self { tries: true, ..self }
    }

    pub(super) const fn within(self, other: usize) -> Self {
        Self { bond: Bond::Within(other), ..self }
    }

    pub(super) const fn beyond(self, other: usize) -> Self {
        Self { bond: Bond::Beyond(other), ..self }
    }

    /// True if it would wait for itself.
    pub(super) fn waits_to_upgrade(self) -> bool {
        self.mode == Mode::Write && !self.tries
    }

    pub(super) const fn is_fenced(self) -> bool {
        matches!(self.mode, Mode::Hold | Mode::Write)
    }

    pub(super) const fn has_owner(self) -> bool {
        self.owner.is_some()
    }

    pub(super) fn has_owner_of(self, other: Self) -> bool {
        self.has_owner() && self.owner == other.owner
    }

    /// True if one may adopt the other's lease.
    pub(super) fn is_like(self, other: Self) -> bool {
        self.mode == other.mode && self.owner == other.owner
    }

    /// True if both may hold at the same time. For permits, two can't tell.
    pub(super) fn goes_with(self, other: Self) -> bool {
        match (self.mode, other.mode) {
            (Mode::Permit, Mode::Permit) | (Mode::Read, Mode::Read) => true,
            (Mode::Write, Mode::Write) => false,
            _ => self.has_owner_of(other),
        }
    }
}

/// True if all of them may hold at the same time.
pub(super) fn go_together(roles: &[Role]) -> bool {
    let permits = roles.iter().filter(|role| role.mode == Mode::Permit).count();
    let pairs = |(at, one): (usize, &Role)| roles[..at].iter().all(|it| it.goes_with(*one));
    permits <= LIMIT && roles.iter().enumerate().all(pairs)
}
