//! What a client asks for, and which other holders it tolerates: everything in which the kinds
//! differ.

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

/// How a client stands to another one, of the same owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bond {
    None,
    /// Begins while that one holds, which goes on only when this is over: a call
    /// within a call.
    Within(usize),
    /// Begins while that one holds, which then goes first.
    Beyond(usize),
}

/// The role of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Role {
    pub(super) mode: Mode,
    /// If it has none, it has no more than itself.
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

    /// Whether it would wait for itself.
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

    /// Whether one may stand for the other.
    pub(super) fn is_like(self, other: Self) -> bool {
        self.mode == other.mode && self.owner == other.owner
    }

    /// Whether both may hold at a time. Of permits that is not for two to say.
    pub(super) fn goes_with(self, other: Self) -> bool {
        match (self.mode, other.mode) {
            (Mode::Permit, Mode::Permit) | (Mode::Read, Mode::Read) => true,
            (Mode::Write, Mode::Write) => false,
            _ => self.has_owner_of(other),
        }
    }
}

/// Whether all of them may hold at a time.
pub(super) fn go_together(roles: &[Role]) -> bool {
    let permits = roles.iter().filter(|role| role.mode == Mode::Permit).count();
    let pairs = |(at, one): (usize, &Role)| roles[..at].iter().all(|it| it.goes_with(*one));
    permits <= LIMIT && roles.iter().enumerate().all(pairs)
}
