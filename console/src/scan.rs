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

/// Ways through the locks. They give each of them once, although a list may have one twice.
#[derive(Debug)]
pub(super) struct Scan {
    /// The hashes of the names so far: names may be long. That two of 10,000 have the same one
    /// happens once in a hundred billion times.
    seen: HashSet<u64>,
    hasher: RandomState,
    /// There are more locks than a way has looked at.
    pub(super) is_cut: bool,
}

impl Scan {
    pub(super) fn begin() -> Self {
        let (seen, hasher) = (HashSet::new(), RandomState::new());
        Self { seen, hasher, is_cut: false }
    }

    /// How many locks were looked at.
    pub(super) fn looked(&self) -> usize {
        self.seen.len()
    }

    /// One way, through the locks whose names fit the pattern.
    pub(super) async fn each(
        &mut self,
        locks: &Locks,
        pattern: &str,
        mut see: impl FnMut(LockInfo),
    ) -> Result<(), Down> {
        let (mut list, until) = (locks.list(pattern), Instant::now() + LONGEST);
        for looked in 0.. {
            match timeout_at(until, list.next()).await {
                Ok(None) => break,
                Ok(Some(Err(error))) => return Err(Down::of(&error)),
                Ok(Some(Ok(info))) if looked < LOCKS => {
                    if self.seen.insert(self.hasher.hash_one(&info.name)) {
                        see(info);
                    }
                }
                Err(_) if self.seen.is_empty() => return Err(Down::silent(LONGEST)),
                _ => {
                    self.is_cut = true;
                    break;
                }
            }
        }
        Ok(())
    }
}
