//! The rule of each kind of lock that can have several holders: the includes
//! `rule_semaphore`, `rule_reentrant` and `rule_rw`.

use std::time::Duration;

use super::context::Context;
use super::counters::Token;
use super::demand::Demand;
use super::holders::Holders;
use super::time::Time;
use crate::store::{Kind, Owner, RequestId};

impl Holders {
    /// Returns true if one more holder fits.
    pub(super) fn fits(&mut self, more: &Demand, now: Time) -> bool {
        match more.kind {
            // Each request brings its own limit.
            Kind::Semaphore { limit, weight } => {
                self.has_room(weight, limit) || self.purge(now) > 0 && self.has_room(weight, limit)
            }
            // All holders belong to one owner.
            Kind::Mutex | Kind::Once(_) | Kind::Reentrant => {
                self.ends_at(now).is_none() || self.owns(more.owner.as_ref(), now)
            }
            // A writer is alone. Readers share, and may join a writer of their own owner.
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

    /// Returns true if an owner that holds the lock asks for more of it. Then it need not queue:
    /// all waiters wait for it.
    pub(super) fn is_reentry(&mut self, more: &Demand, now: Time) -> bool {
        more.kind.may_reenter() && self.owns(more.owner.as_ref(), now)
    }

    /// Returns true if all holders are readers of this owner, so that it may write. Expired
    /// holders that are still in the set count as others: their owner could otherwise come back
    /// beside the writer.
    pub(super) fn is_sole_reader(&self, owner: Option<&Owner>, now: Time) -> bool {
        !self.is_written(now) && self.count() == self.count_of(owner)
    }

    /// Returns true if the lock has gone to others, so that a lease that ended counts as taken.
    pub(super) fn is_anothers(&mut self, former: &Demand, now: Time) -> bool {
        let has_others = match former.kind {
            Kind::Semaphore { .. } => false,
            Kind::Mutex | Kind::Once(_) | Kind::Reentrant => self.ends_at(now).is_some(),
            Kind::Read | Kind::Write => self.is_written(now),
        };
        has_others && !self.owns(former.owner.as_ref(), now)
    }

    /// The fencing token of a holder; 0 for a permit or a reader. `token` is the lock's, and
    /// moves on with each new holder. All holds of a reentrant mutex share one.
    pub(super) fn fence(
        &mut self,
        id: RequestId,
        how: &Demand,
        token: &mut Token,
        context: &mut Context<'_>,
    ) -> u64 {
        let is_new = match how.kind {
            Kind::Semaphore { .. } | Kind::Read => return 0,
            Kind::Mutex | Kind::Once(_) | Kind::Reentrant => self.ends_at(context.now).is_none(),
            Kind::Write => !self.has(id),
        };
        // A record that was lost has taken its token along.
        if is_new || token.number == 0 {
            *token = context.next_token(*token);
        }
        token.number
    }

    /// How long until there may be room: until the first permit ends, or the last lease of any
    /// other kind.
    pub(super) fn free_in(&mut self, demand: &Demand, now: Time) -> Duration {
        let end = match demand.kind {
            Kind::Semaphore { .. } => self.first_ends_at(),
            _ => self.ends_at(now),
        };
        end.map_or(Duration::ZERO, |end| end - now)
    }
}
