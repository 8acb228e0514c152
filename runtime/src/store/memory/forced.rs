//! What is taken by force, and from whom.

use std::collections::HashMap;
use std::time::Instant;

use super::context::Shared;
use super::lock::{AT_ONCE, GRACE, Lock, Record, State};
use crate::core::fence::Fence;
use crate::store;
use crate::store::RequestId;

/// Whom the lock was taken from, by when their leases would have ended.
#[derive(Debug, Default)]
pub(super) struct Forced {
    by_id: HashMap<RequestId, Instant>,
    until: Option<Instant>,
}

impl Forced {
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn expire(&mut self, now: Instant) {
        if self.until.is_some_and(|until| until <= now) {
            *self = Self::default();
        }
    }

    pub(super) fn has(&self, id: RequestId) -> bool {
        self.by_id.contains_key(&id)
    }

    fn note(&mut self, who: impl Iterator<Item = (RequestId, Instant)>, now: Instant) {
        self.by_id.extend(who);
        self.by_id.retain(|_, until| *until > now);
        self.until = self.by_id.values().max().copied();
    }
}

pub(super) fn force_release(lock: &mut Lock, shared: &mut Shared) -> store::Forced {
    let now = shared.now;
    let Some(Record { kind, state, ended, until, .. }) = lock.record.clone() else {
        return store::Forced::NotHeld;
    };
    let held = match state {
        State::Free => return store::Forced::NotHeld,
        State::One { id, .. } | State::Kept { id } => {
            lock.forced.note([(id, until)].into_iter(), now);
            shared.tell(id.client(), store::Hint::Forced { id });
            1
        }
        State::Several => {
            let holders = std::mem::take(&mut lock.holders);
            lock.forced.note(holders.live(now).map(|(id, holder)| (id, holder.deadline)), now);
            for (id, _) in holders.live(now).take(AT_ONCE) {
                shared.tell(id.client(), store::Hint::Forced { id });
            }
            holders.live(now).count()
        }
    };
    let (first, token) = (lock.queue.first(now), shared.next_token(lock.token()));
    let (state, is_awaited) = (State::Free, !lock.queue.is_empty());
    lock.record = Some(Record { kind, state, token, is_awaited, ended, until: now + GRACE });
    if let Some((first, _)) = first {
        shared.tell(first.client(), store::Hint::Free { id: first });
    }
    match u64::try_from(held).unwrap_or(u64::MAX) {
        0 => store::Forced::NotHeld,
        held => store::Forced::Released { held, fence: Fence::new(token.number) },
    }
}
