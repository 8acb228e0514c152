//! The takes of which no copy can arrive any more. The next take of their rate says so to the store,
//! which then remembers those alone that it may be asked about.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::core::key::LockKey;
use crate::core::sync::lock;
use crate::store::RequestId;

/// So many are told at once: each take alone would cost the server more than it saves.
const ENOUGH: usize = 4;

/// A rate keeps no more than this; time gives back the rest.
const MOST: usize = 64;

/// No more rates are kept. A store has little to remember of rates that are seldom used.
const MOST_RATES: usize = 1024;

/// The settled takes of each rate.
#[derive(Debug, Default)]
pub(crate) struct SettledTakes(Mutex<HashMap<LockKey, Vec<RequestId>>>);

impl SettledTakes {
    pub(crate) fn add(&self, key: &LockKey, id: RequestId) {
        let mut of = lock(&self.0);
        if let Some(ids) = of.get_mut(key) {
            if ids.len() < MOST {
                ids.push(id);
            }
            return;
        }
        if of.len() >= MOST_RATES {
            of.clear();
        }
        of.insert(key.clone(), vec![id]);
    }

    /// Takes those of a rate, if they are enough.
    pub(crate) fn take(&self, key: &LockKey) -> Vec<RequestId> {
        let mut of = lock(&self.0);
        match of.get_mut(key) {
            Some(ids) if ids.len() >= ENOUGH => std::mem::replace(ids, Vec::with_capacity(ENOUGH)),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::store::ClientId;

    #[test]
    fn they_are_told_once_and_together() {
        let (settled, client, ids) =
            (SettledTakes::default(), ClientId::random(), AtomicU64::new(0));
        let key = |name: &str| LockKey::new(name).unwrap();
        let add = |name: &str| {
            let id = RequestId::next(client, &ids);
            settled.add(&key(name), id);
            id
        };
        let first: Vec<_> = (0..ENOUGH).map(|_| add("a")).collect();
        add("b");
        assert!(settled.take(&key("b")).is_empty(), "too few");
        assert_eq!(settled.take(&key("a")), first);
        assert!(settled.take(&key("a")).is_empty(), "they were told");
        for _ in 0..2 * MOST {
            add("a");
        }
        assert_eq!(settled.take(&key("a")).len(), MOST);
        for nth in 0..3 * MOST_RATES {
            add(&format!("{nth}"));
        }
        assert!(lock(&settled.0).len() <= MOST_RATES);
    }
}
