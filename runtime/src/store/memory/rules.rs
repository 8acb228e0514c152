//! When there is room in a lock that several may hold, kind by kind: what the
//! includes `limit`, `owner` and `readers` say in Lua.

use std::time::{Duration, Instant};

use super::context::{Shared, Token};
use super::holders::Holders;
use super::lock::Demand;
use crate::store::{Kind, LockKind, Owner, RequestId};

impl Holders {
    /// Whether one more may come in.
    pub(super) fn fits(&mut self, more: &Demand, now: Instant) -> bool {
        match more.kind {
            // By the limit of whoever asks.
            Kind::Semaphore { limit, weight } => {
                self.has_room(weight, limit) || self.purge(now) > 0 && self.has_room(weight, limit)
            }
            // All who hold it are one owner's.
            Kind::Mutex | Kind::Reentrant => {
                self.ends_at(now).is_none() || self.owns(more.owner.as_ref(), now)
            }
            // A writer alone; a reader with others, or beside a writer of the same owner.
            Kind::Write => self.ends_at(now).is_none(),
            Kind::Read => {
                self.ends_at(now).is_none()
                    || !self.is_written(now)
                    || self.owns(more.owner.as_ref(), now)
            }
        }
    }

    fn has_room(&self, weight: u32, limit: u32) -> bool {
        self.weight + u64::from(weight) <= u64::from(limit)
    }

    /// Whether all who hold it are readers of this owner, so that he may write.
    /// Those who ended and are not forgotten yet count as others: else an owner of
    /// theirs could come in beside the writer.
    pub(super) fn is_sole_reader(&self, owner: Option<&Owner>, now: Instant) -> bool {
        !self.is_written(now) && self.count() == self.count_of(owner)
    }

    /// The fencing token of one who comes in, or is there, and has come to be the
    /// lock's; permits and readers have none. All of a reentrant mutex have the same.
    pub(super) fn fence(
        &mut self,
        id: RequestId,
        how: &Demand,
        token: &mut Token,
        shared: &mut Shared,
    ) -> u64 {
        let is_new = match how.kind {
            Kind::Semaphore { .. } | Kind::Read => return 0,
            Kind::Mutex | Kind::Reentrant => self.ends_at(shared.now).is_none(),
            Kind::Write => !self.has(id),
        };
        if is_new {
            *token = shared.next_token(*token);
        }
        token.number
    }

    /// How long until there may be room: until the first permit ends, or the last of
    /// all others.
    pub(super) fn free_in(&mut self, kind: LockKind, now: Instant) -> Duration {
        let end = match kind {
            LockKind::Semaphore => self.first_ends_at(),
            _ => self.ends_at(now),
        };
        end.map_or(Duration::ZERO, |end| end.saturating_duration_since(now))
    }
}
