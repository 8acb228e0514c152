//! Goes through the locks in use: through so many, and for so long, at most.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::down::Down;
use leasehold::{LockInfo, Locks};

/// How many locks are looked at, and how long it may take.
const LOCKS: usize = 10_000;
const LONGEST: Duration = Duration::from_secs(5);

/// One way through the locks. It gives each of them once, although a list may have one twice.
#[derive(Debug)]
pub(super) struct Scan {
    until: Instant,
    /// The hashes of the names so far: names may be long. That two of 10,000 have the same one
    /// happens once in a hundred billion times.
    seen: HashSet<u64>,
    hasher: RandomState,
    /// There are more locks than were looked at.
    pub(super) is_cut: bool,
}

impl Scan {
    pub(super) fn begin() -> Self {
        let (seen, hasher) = (HashSet::new(), RandomState::new());
        Self { until: Instant::now() + LONGEST, seen, hasher, is_cut: false }
    }

    /// How many locks were looked at.
    pub(super) fn looked(&self) -> usize {
        self.seen.len()
    }

    /// Looks at the locks whose names fit the pattern.
    pub(super) async fn each(
        &mut self,
        locks: &Locks,
        pattern: &str,
        mut see: impl FnMut(LockInfo),
    ) -> Result<(), Down> {
        let mut list = locks.list(pattern);
        while !self.is_cut {
            match timeout_at(self.until, list.next()).await {
                Ok(None) => break,
                Ok(Some(Err(error))) => return Err(Down::of(&error)),
                Ok(Some(Ok(info))) => {
                    let hash = self.hasher.hash_one(&info.name);
                    if self.seen.contains(&hash) {
                        continue;
                    }
                    self.is_cut = self.seen.len() == LOCKS;
                    if !self.is_cut {
                        self.seen.insert(hash);
                        see(info);
                    }
                }
                Err(_) if self.seen.is_empty() => return Err(Down::silent(LONGEST)),
                Err(_) => self.is_cut = true,
            }
        }
        Ok(())
    }
}
