//! What a layer asks of the locks of a request.

use super::{MultiLock, PartKind};
use crate::core::key::LockKey;
use crate::engine::acquire::{Look, in_order};

impl MultiLock {
    /// Adds a mutex.
    pub(crate) fn mutex(self, key: LockKey) -> Self {
        self.with(key, PartKind::Mutex)
    }

    /// Its locks and rates with valid names, each with the limit of a permit or the burst of a rate.
    pub(crate) fn limits(&self) -> impl Iterator<Item = (&LockKey, Option<u32>)> {
        self.parts.iter().filter_map(|part| {
            let limit = match part.kind {
                PartKind::Permit { limit, .. } => Some(limit),
                PartKind::Rate { rate, .. } => Some(rate.most_at_once()),
                PartKind::Mutex | PartKind::Read | PartKind::Write => None,
            };
            Some((part.key.as_ref()?, limit))
        })
    }

    /// A look whether the store answers, for this lock of the set. `None` if the store is not needed to
    /// refuse the set.
    pub(crate) fn look(&self, key: Option<&LockKey>) -> Option<Look> {
        let (locks, rates) = in_order(self.specs().ok()?).ok()?;
        let keys = locks.iter().map(|it| &it.key).chain(rates.iter().map(|it| &it.key));
        let at = keys.into_iter().position(|it| Some(it) == key).unwrap_or(0);
        let of_lock = |spec| Look::new(&self.shared, spec, &self.given.options);
        let of_rate = |spec| Look::of_rate(&self.shared, spec);
        let all = locks.into_iter().map(of_lock).chain(rates.into_iter().map(of_rate));
        all.collect::<Option<Vec<_>>>()?.into_iter().nth(at)
    }
}
