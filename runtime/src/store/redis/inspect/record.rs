//! Reads the record of a lock.

use crate::store::LockKind;

/// The fields of a lock's record; see `lua/include/record.lua`.
pub(super) struct Record<'a> {
    pub(super) kind: u8,
    pub(super) state: u8,
    pub(super) id: &'a [u8],
    pub(super) token: u64,
    pub(super) owner: &'a [u8],
}

impl<'a> Record<'a> {
    pub(super) fn read(record: &'a [u8]) -> Option<Self> {
        let (fixed, owner) = record.split_at_checked(87)?;
        let token = std::str::from_utf8(&fixed[36..52]).ok()?.parse().ok()?;
        let is_ours = b"MESR".contains(&fixed[0]) && b"HOKF".contains(&fixed[1]);
        let (kind, state, id) = (fixed[0], fixed[1], &fixed[2..36]);
        is_ours.then_some(Self { kind, state, id, token, owner })
    }

    /// Returns true if the holder of the mutex may keep it without using it.
    pub(super) fn lingers(&self) -> bool {
        self.state == b'H' && matches!(self.owner.first(), Some(b'~' | b'!'))
    }

    /// The limit that the last permit of a held semaphore was counted against; behind dashes.
    pub(super) fn limit(&self) -> Option<u32> {
        let digits = std::str::from_utf8(self.id).ok()?.trim_start_matches('-');
        (self.kind == b'S').then(|| digits.parse().ok()).flatten()
    }

    pub(super) fn kind(&self) -> LockKind {
        match self.kind {
            b'M' => LockKind::Mutex,
            b'E' => LockKind::ReentrantMutex,
            b'S' => LockKind::Semaphore,
            _ => LockKind::RwLock,
        }
    }
}
