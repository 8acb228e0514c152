//! Leases that stay with their client without being used.

use leasehold::store::{Ended, Kind, Lingering, Request, Usage};

use super::super::beliefs::ensure;
use super::super::stored::Lock;
use super::Snapshot;

impl Snapshot {
    /// Checks the change by `linger`. A lease is kept for its whole TTL, with new tokens, if nobody
    /// waits. Nobody else's lease is changed.
    pub(super) fn lingers(
        &self,
        before: &Lock,
        request: &Request,
        usage: Usage,
        answer: Option<Lingering>,
        greatest: u64,
    ) -> Result<(), String> {
        let (lock, now_ms) = (&self.locks[request.key.name()], self.now_ms);
        let id = format!("{:?}", request.id);
        let had_it = before.has(&id, now_ms);
        let may_linger = match request.kind {
            Kind::Reentrant | Kind::Once(_) => false,
            Kind::Read | Kind::Write => request.owner.is_none(),
            _ => true,
        };
        ensure(answer.is_some() == may_linger, || format!("{id}: {answer:?}"))?;
        let others = |lock: &Lock| {
            let others = lock.live(now_ms).filter(|(it, _)| *it != id);
            others.map(|(it, how)| format!("{it} {how:?}")).collect::<Vec<_>>()
        };
        let is_waited_for = before.waiting(now_ms).next().is_some();
        let is_recalled = usage.is_recalled() && before.is_recalled(&id, now_ms);
        match answer {
            None => Ok(()),
            Some(Lingering::Kept { token }) => {
                ensure(had_it && lock.has(&id, now_ms), || format!("{id} has nothing to keep"))?;
                let may_stay = !is_waited_for || before.is_crowded(now_ms);
                ensure(may_stay && !is_recalled, || format!("{id} is kept, and others want it"))?;
                ensure(lock.lingers(now_ms), || format!("{id} can't be recalled"))?;
                ensure(others(lock) == others(before), || format!("{:?}", others(before)))?;
                let ends = lock.end_of(&id);
                let ttl_ms = u64::try_from(request.ttl.as_millis()).expect("a few seconds");
                // The holder of one in use counts on a renewal, or on the offer, that may last longer.
                let counted_on = before.end_of(&id).filter(|_| usage.is_in_use());
                let expected = (now_ms + ttl_ms).max(counted_on.unwrap_or_default());
                ensure(ends == Some(expected), || format!("{id} ends at {ends:?}"))?;
                let last = lock.live(now_ms).filter_map(|(it, _)| lock.end_of(it)).max();
                ensure(last.is_none_or(|last| last <= lock.ends_ms), || {
                    format!("the record ends at {} before {last:?}", lock.ends_ms)
                })?;
                let is_right = if request.kind.is_fenced() {
                    token > greatest && token == lock.token() && token <= self.clock_us
                } else {
                    token == 0 && lock.token() == before.token()
                };
                ensure(is_right, || format!("{id} has {token} after {greatest}"))
            }
            Some(Lingering::Wanted) => {
                let is_wanted = usage.is_in_use() && (is_waited_for || is_recalled);
                ensure(had_it && is_wanted, || format!("nobody wants it of {id}"))?;
                ensure(lock.record_at(now_ms) == before.record_at(now_ms), || {
                    format!("{id} is changed")
                })
            }
            Some(Lingering::Ended(ended)) => {
                ensure(!lock.has(&id, now_ms), || format!("{id} is still there"))?;
                let is_wanted = (is_waited_for || is_recalled) && !usage.is_in_use();
                ensure(!had_it || is_wanted && ended == Ended::Released, || {
                    format!("{id} was ended: {ended:?}")
                })?;
                if had_it { lock.is_served(before, now_ms) } else { Ok(()) }
            }
        }
    }
}
