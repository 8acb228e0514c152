//! The releases and cancels of a client that nobody waits for, until the store has answered them.
//!
//! A dropped lease is released in the background, or the store is asked whether it may linger, and a
//! dropped acquisition is cancelled there. The next ask of the same client may reach the store first, also
//! because the store lets the client send the other command again, whatever the reason. If that ask is
//! refused, it waits for those that began before it, and asks again. An ask that is granted costs nothing.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::core::key::LockKey;
use crate::core::sync::lock;

/// How long an ask waits for them at most. The store may be away.
const LONGEST: Duration = Duration::from_secs(1);

/// What one of them ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// A lease, which the shutdown counts as one.
    Lease,
    /// A request that the store may have granted.
    Request,
}

/// Those that the store has not answered, with their numbers.
type Unanswered = HashMap<LockKey, Vec<(u64, Ends)>>;

/// The releases and cancels in the background of one client.
#[derive(Debug, Default)]
pub(crate) struct PendingReleases {
    /// How many have begun, which is the number of the last one, and how many have ended.
    begun: AtomicU64,
    ended: AtomicU64,
    unanswered: Mutex<Unanswered>,
    answered: Notify,
}

impl PendingReleases {
    /// Notes that one begins. It ends with the guard.
    pub(super) fn begin(self: &Arc<Self>, key: &LockKey, ends: Ends) -> PendingRelease {
        let mut unanswered = self.unanswered();
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        unanswered.entry(key.clone()).or_default().push((number, ends));
        drop(unanswered);
        PendingRelease { all: self.clone(), key: key.clone(), number }
    }

    /// Those of all locks that have begun by now. `None` if the store has answered them all.
    pub(crate) fn earlier(&self) -> Option<Earlier> {
        // In this order: one that begins and ends meanwhile must not hide another.
        let ended = self.ended.load(Ordering::SeqCst);
        let last = self.begun.load(Ordering::SeqCst);
        NonZeroU64::new(last).filter(|last| last.get() != ended).map(|last| Earlier { last })
    }

    /// Waits until the store has answered those of a lock, for at most a second. They may have been
    /// answered already, and still be the reason for a refusal: the two answers may have come
    /// together. Cancel safe.
    pub(crate) async fn answered(&self, key: &LockKey, Earlier { last }: Earlier) {
        let last = last.get();
        let answered = async {
            loop {
                let mut answered = std::pin::pin!(self.answered.notified());
                answered.as_mut().enable();
                if !self.has(key, last) {
                    return;
                }
                answered.await;
            }
        };
        let _ = timeout(LONGEST, answered).await;
    }

    fn has(&self, key: &LockKey, last: u64) -> bool {
        let unanswered = self.unanswered();
        unanswered.get(key).is_some_and(|those| those.iter().any(|(number, _)| *number <= last))
    }

    /// How many requests are to be cancelled, and the labels of all locks that are to be freed.
    pub(super) fn left(&self) -> (usize, BTreeSet<&'static str>) {
        let unanswered = self.unanswered();
        let all = unanswered.values().flatten();
        let requests = all.filter(|(_, ends)| *ends == Ends::Request).count();
        (requests, unanswered.keys().map(LockKey::log_label).collect())
    }

    fn unanswered(&self) -> MutexGuard<'_, Unanswered> {
        lock(&self.unanswered)
    }
}

/// The releases and cancels that began before an acquisition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Earlier {
    last: NonZeroU64,
}

/// One release or cancel in the background, until it is dropped. A command that takes the place of
/// another takes this over.
#[derive(Debug)]
pub(super) struct PendingRelease {
    all: Arc<PendingReleases>,
    key: LockKey,
    number: u64,
}

impl Drop for PendingRelease {
    fn drop(&mut self) {
        let mut unanswered = self.all.unanswered();
        if let Some(those) = unanswered.get_mut(&self.key) {
            let before = those.len();
            those.retain(|(number, _)| *number != self.number);
            debug_assert!(those.len() < before, "a release ends twice");
            if those.is_empty() {
                unanswered.remove(&self.key);
            }
        }
        drop(unanswered);
        self.all.ended.fetch_add(1, Ordering::SeqCst);
        self.all.answered.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_ask_waits_for_those_before_it() {
        let (all, key) = (Arc::<PendingReleases>::default(), LockKey::new("a").unwrap());
        let other = LockKey::new("b").unwrap();
        assert!(all.earlier().is_none());
        let (first, second) = (all.begin(&key, Ends::Lease), all.begin(&key, Ends::Lease));
        let earlier = all.earlier().unwrap();
        let later = all.begin(&key, Ends::Request);
        assert!(all.answered(&other, earlier).now_or_never().is_some());
        let mut asked = Box::pin(all.answered(&key, earlier));
        assert!(asked.as_mut().now_or_never().is_none());
        drop(second);
        assert!(asked.as_mut().now_or_never().is_none());
        drop(first);
        assert!(asked.as_mut().now_or_never().is_some());
        // The later one does not count.
        assert!(all.answered(&key, earlier).now_or_never().is_some());
        // Not for ever.
        all.answered(&key, all.earlier().unwrap()).await;
        drop(later);
        assert!(all.unanswered().is_empty() && all.earlier().is_none());
    }
}
