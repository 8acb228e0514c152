//! The results that a repair may have.

use leasehold::store::{Repaired, Request};

use super::super::beliefs::ensure;
use super::super::commands::Repair;
use super::super::stored::{How, Lock};
use super::Snapshot;

/// The most that a server's clock may be behind another's token, in microseconds, and behind its
/// own token.
const BEHIND: u64 = 100_000;
const OWN_BEHIND: u64 = 200_000;

/// The number of tokens of a grant.
const BLOCK: u64 = 64;

impl Snapshot {
    /// Checks that the contract gives this answer, and that only this request's lease and token are
    /// changed.
    pub(super) fn repairs(
        &self,
        then: &Lock,
        request: &Request,
        repair: Repair,
        repaired: Repaired,
    ) -> Result<(), String> {
        let (lock, now_ms) = (&self.locks[request.key.name()], self.now_ms);
        let id = format!("{:?}", request.id);
        let token = |lock: &Lock| lock.record_at(now_ms).map_or(0, |_| lock.token());
        let (had_it, last) = (then.has(&id, now_ms), token(then));
        let lasts_ms = u64::try_from(repair.lasts.as_millis()).expect("less than a minute");
        let sought = repair.tokens[1];
        let answer = if had_it {
            self.raised(then.ends_ms - now_ms, last, sought)
        } else if lasts_ms > 0 && then.is_to_be_had(request, now_ms) {
            self.raised(lasts_ms, last, sought)
        } else {
            Repaired::NotHeld
        };
        ensure(answer == repaired, || format!("{id} was to be told {answer:?}"))?;

        let others = |lock: &Lock| {
            let others = lock.live(now_ms).filter(|(it, _)| *it != id);
            others.map(|(it, how)| format!("{it} {how:?}")).collect::<Vec<_>>()
        };
        ensure(others(lock) == others(then), || format!("{:?} were there", others(then)))?;
        let Repaired::Held { token: told } = repaired else {
            let is_same = lock.record_at(now_ms) == then.record_at(now_ms);
            return ensure(is_same, || format!("{:?} was there", then.record));
        };
        let end = if had_it { then.end_of(&id) } else { Some(now_ms + lasts_ms) };
        let is_right = lock.end_of(&id) == end && token(lock) == told;
        ensure(is_right, || format!("{id} was to end at {end:?}"))?;
        let last = lock.live(now_ms).filter_map(|(it, _)| lock.end_of(it)).max();
        // The record may last longer: a request may ask again with a shorter TTL.
        ensure(last <= Some(lock.ends_ms), || format!("{} before {last:?}", lock.ends_ms))?;
        let is_same = then.record_at(now_ms).is_none_or(|_| then.ended() == lock.ended());
        ensure(is_same, || format!("{} had ended", then.ended()))
    }

    /// The answer to a holder or a restored one. The token ends with the record, and by then
    /// the clock must have reached it. If the clock is far behind the current token, that
    /// token stays, or is given up for a smaller one.
    /// Where none is given, it stays as it is.
    fn raised(&self, lasts_ms: u64, last: u64, token: u64) -> Repaired {
        if token == 0 {
            return Repaired::Held { token: last };
        }
        let (mut last, mut from) = (last, self.clock_us);
        if last + BLOCK > from + OWN_BEHIND {
            if token < last { last = from.max(token) } else { from = last }
        }
        let behind = (token + BLOCK).saturating_sub(from + (lasts_ms * 1000).min(BEHIND));
        if token <= last || behind == 0 {
            return Repaired::Held { token: token.max(last) };
        }
        Repaired::Behind(std::time::Duration::from_millis(behind.div_ceil(1000)))
    }

    /// The next token.
    pub(super) fn next_token(&self, then: &Lock) -> u64 {
        let least = then.record_at(self.now_ms).map_or(0, |_| then.token() + BLOCK);
        least.max(self.clock_us)
    }
}

impl Lock {
    /// True if a former holder may be restored: nobody else holds, or only compatible requests, and
    /// it did not end here.
    fn is_to_be_had(&self, request: &Request, now_ms: u64) -> bool {
        let (how, state) = (How::of(request), self.state_at(now_ms));
        let is_ended = !state.is_empty() && self.ended() == format!("{:?}", request.id);
        let is_like = state.is_empty() || state.ends_with('F') || state.starts_with(how.kind);
        !is_ended && is_like && self.has_room(how, now_ms)
    }
}
