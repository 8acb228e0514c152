//! The limits as they were read, and what is different from one time to the next.

use std::collections::HashMap;
use std::sync::Arc;

use crate::core::key::LockKey;
use crate::store::{LimitOf, LimitOverride};

/// The limits that are set.
#[derive(Debug, Default)]
pub(super) struct Set {
    pub(super) of_names: HashMap<String, Arc<LimitOverride>>,
    pub(super) of_labels: HashMap<String, Arc<LimitOverride>>,
    /// The moment before they were read: what was read earlier, and arrives later, is out of date.
    pub(super) read: u64,
    /// The moment of the last message that they have changed.
    pub(super) changed: u64,
}

/// A limit that holds from now on, or holds no longer.
pub(super) enum Change {
    Set(Arc<LimitOverride>),
    Unset(LimitOf),
}

impl Set {
    fn get(&self, of: &LimitOf) -> Option<&Arc<LimitOverride>> {
        match of {
            LimitOf::Name(name) => self.of_names.get(name),
            LimitOf::Label(label) => self.of_labels.get(label),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<LimitOverride>> {
        self.of_names.values().chain(self.of_labels.values())
    }

    /// What is different in the next one.
    pub(super) fn changes(&self, next: &Self) -> Vec<Change> {
        let set = next.all().filter(|set| self.get(&set.of) != Some(set));
        let unset = self.all().filter(|before| next.get(&before.of).is_none());
        let unset = unset.map(|before| Change::Unset(before.of.clone()));
        set.cloned().map(Change::Set).chain(unset).collect()
    }
}

impl Change {
    pub(super) fn log(&self) {
        match self {
            Self::Set(set) => {
                let LimitOverride { of, limit, by, why, .. } = &**set;
                let (lock, why) = (label(of), why.as_deref().unwrap_or_default());
                tracing::info!(lock, limit, by, why, "an operator has set a limit");
            }
            Self::Unset(of) => {
                tracing::info!(lock = label(of), "an operator's limit holds no longer");
            }
        }
    }

    pub(super) fn is_for(&self, key: &LockKey) -> bool {
        let of = match self {
            Self::Set(set) => &set.of,
            Self::Unset(of) => of,
        };
        match of {
            LimitOf::Name(name) => name == key.name(),
            LimitOf::Label(label) => Some(&**label) == key.label(),
        }
    }
}

/// What a log calls them. Names may be personal.
fn label(of: &LimitOf) -> &str {
    match of {
        LimitOf::Label(label) => label,
        LimitOf::Name(_) => "(one name)",
    }
}
