//! One of the locks or rates of a set.

use crate::api::lock_options::LockOptions;
use crate::api::lock_spec::Key;
use crate::api::{rate_limit, semaphore};
use crate::core::error::LockError;
use crate::core::key::IntoLockKey;
use crate::core::rate::Rate;
use crate::engine::acquire::SetSpec;
use crate::store::Kind;

/// One of the locks or rates. What can't be acquired is reported when the set is.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(super) key: Key,
    pub(super) kind: PartKind,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum PartKind {
    Mutex,
    Permit { limit: u32, weight: u32 },
    Read,
    Write,
    Rate { rate: Rate, weight: u32 },
}

impl Part {
    pub(crate) fn new(key: impl IntoLockKey, kind: PartKind) -> Self {
        Self { key: Key::new(key), kind }
    }

    /// Adds what the store is asked for.
    pub(super) fn add_to(
        &self,
        (locks, rates): &mut SetSpec,
        given: &LockOptions,
    ) -> Result<(), LockError> {
        let key = self.key.get()?;
        let kind = match self.kind {
            PartKind::Mutex => Kind::Mutex,
            PartKind::Permit { limit, weight } => semaphore::permit(limit, weight)?,
            PartKind::Read => Kind::Read,
            PartKind::Write => Kind::Write,
            PartKind::Rate { rate, weight } => {
                rates.push(rate_limit::take(given.labelled(key), rate, weight)?);
                return Ok(());
            }
        };
        locks.push(given.request(key, kind)?);
        Ok(())
    }
}
