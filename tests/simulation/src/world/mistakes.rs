//! Mistakes that can be planted in the scripts: the simulation must find each of them. Most were real
//! mistakes of this project, or of others.

use super::faults::Fault;
use super::plan::{Deployment, Only};

/// A mistake in the scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mistake {
    pub name: &'static str,
    /// A text of the scripts as they are sent, without comments and indents; and what runs instead.
    pub from: &'static str,
    pub to: &'static str,
    /// Within so many seeds of 30 s it is found; 0: not by the worlds, for the reason at its row.
    pub within: u64,
    /// Where it is looked for.
    pub only: Only,
}

const fn mistake(name: &'static str, within: u64, from: &'static str, to: &'static str) -> Mistake {
    Mistake { name, from, to, within, only: Only::ANY }
}

/// All of them.
pub const MISTAKES: &[Mistake] = &[
    mistake(
        "any-request-releases",
        20,
        "if not rec or not holds(rec, id) then\nleave(queue, waiters, id)\nif not rec then return 0 end",
        "if not rec then\nleave(queue, waiters, id)\nif not rec then return 0 end",
    ),
    mistake(
        "a-renewal-revives",
        20,
        "if not rec then return 0 end\nlocal holder",
        "if not rec then redis.call('SET', lock, 'MH' .. id .. '00000000000000000' .. id, 'PX', ttl_ms) \
         return 1 end\nlocal holder",
    ),
    mistake(
        "a-free-record-forgets-the-ended",
        20,
        ".. token .. '0' .. id, 'PX', free_ms(token))",
        ".. token .. '0' .. NOBODY, 'PX', free_ms(token))",
    ),
    mistake(
        "marks-pile-up",
        200,
        "redis.call('ZREMRANGEBYSCORE', holders, -(MARKS + now_ms), -MARKS)",
        "",
    ),
    mistake(
        "a-member-forgets-what-a-majority-is-ahead-by",
        200,
        "else last = string.format('%016.0f', token) end",
        "else last = now end",
    )
    .on(Deployment::Quorum(5))
    .among(&[Fault::JumpsAhead, Fault::JumpsBack]),
    mistake(
        "a-copy-takes-again-from-a-rate",
        60,
        "if rate.until_us then\nkeep_rate",
        "if false then\nkeep_rate",
    ),
    mistake(
        "a-repeated-take-is-confirmed-by-nobody",
        60,
        "keep_rate(rate, rate.until_us)\nelse",
        "else",
    ),
    mistake(
        "a-repeated-completion-is-confirmed-by-nobody",
        200,
        "redis.call('SETRANGE', done, 52, id)\n",
        "",
    ),
    mistake(
        "what-was-given-back-is-taken-again",
        200,
        "if rate.was_given_back then return nil end\n",
        "",
    )
    .on(Deployment::Sentinel { syncs: true }),
    mistake(
        "a-rate-gives-everything-back",
        60,
        "math.max(until_us - rate.weight_us, rate.now_us), 0, {}",
        "until_us - rate.weight_us, 0, {}",
    ),
    mistake(
        "what-is-given-back-lets-the-next-one-begin-with-the-last",
        60,
        "if rate.begins_us <= rate.now_us then",
        "if true then",
    ),
    mistake(
        "a-rate-closes-when-the-clock-goes-back",
        60,
        "now_us < seen_us, tonumber",
        "false, tonumber",
    ),
    mistake(
        "a-set-is-answered-as-the-first-of-its-call",
        60,
        "function(each) return take_all(unpack(requests[each])) end",
        "function(each) return take_all(unpack(requests[1])) end",
    ),
    mistake("an-ended-request-is-granted", 40, "if ended == id then return {2} end", ""),
    mistake("a-cancel-is-not-remembered", 40, "redis.call('SETRANGE', lock, 53, id)", ""),
    mistake(
        "tokens-go-back-with-the-clock",
        40,
        "if now_us < least then token",
        "if false then token",
    ),
    mistake("tokens-are-not-noted", 40, "if token <= greatest or", "if true or"),
    mistake(
        "tokens-come-twice",
        40,
        "is_behind and tonumber(greatest) or 0) + BLOCK",
        "0) + BLOCK",
    ),
    mistake("the-fast-way-notes-no-token", 40, "call('SETRANGE', tokens, '0', now)", ""),
    mistake(
        "a-newcomer-passes-the-queue",
        40,
        "if first and first ~= id and kind_in(said) == 'M' then",
        "if false then",
    ),
    mistake("offers-last-for-ever", 40, "local OFFER_MS = 1000", "local OFFER_MS = 100000"),
    mistake(
        "dead-waiters-stay",
        20,
        "if left_ms > 0 and left_ms <= LIVE_MOST_MS then return id, said, left_ms end",
        "if true then return id, said, math.max(left_ms, 1000) end",
    ),
    mistake("a-heartbeat-from-the-future", 200, " and left_ms <= LIVE_MOST_MS", ""),
    mistake("a-waiter-leaves-half", 20, "redis.call('HDEL', waiters, id)", ""),
    mistake(
        "the-flag-is-not-set",
        20,
        "if flag == '0' and not is_free then redis.call('SETRANGE', lock, 52, '1') end",
        "",
    ),
    mistake("an-idle-lease-stays-though-wanted", 40, "if is_wanted then\n", "if false then\n"),
    mistake("a-recall-is-silent", 40, "publish(wake, holder, holder .. 'R' .. lock)", ""),
    mistake(
        "a-recall-is-not-remembered",
        200,
        "if mark == LINGERS then redis.call('SETRANGE', lock, 87, RECALLED) end",
        "",
    ),
    mistake("another-kind-is-not-told-apart", 100, "is_told and {10,", "is_told and {8,"),
    mistake("weights-are-not-counted", 20, "shift(holders, '+', by * excess(holder))", ""),
    mistake(
        "a-permit-too-many",
        20,
        "- more + weight <= tonumber(limit)",
        "- more + weight <= tonumber(limit) + 1",
    ),
    mistake(
        "the-fast-way-ignores-weights",
        20,
        "if redis.call('ZSCORE', holders, '+') then return nil end",
        "",
    ),
    mistake("a-writer-joins-readers", 20, "if is_writer(holder) then return false end", ""),
    mistake(
        "readers-join-any-writer",
        20,
        "return not is_written(holders, now_ms) or owns(holders, holder, now_ms)",
        "return true",
    ),
    // No world has set the clock back just then: the traffic in `tests/oracle` does.
    mistake(
        "an-ended-writer-stays",
        0,
        "if ends and -ends <= now_ms then redis.call('ZREM', holders, '!') end",
        "",
    ),
    mistake(
        "a-set-without-an-expiry",
        20,
        "if is_there == 0 then redis.call('PEXPIRE', holders, expiry_ms) end",
        "",
    ),
    mistake(
        "a-lost-record-frees-its-holders",
        200,
        "if rec then redis.call('SET', lock, rec, 'PX', left_ms) end\nreturn rec",
        "return nil",
    )
    .among(&[Fault::Deletes]),
    // A world of an earlier make found it; none of 260 does now.
    mistake(
        "a-lost-record-leaves-no-tokens",
        0,
        "rec = rec or restored(keys.lock, keys.holders)\nlocal flag",
        "local flag",
    ),
    mistake(
        "a-ticket-is-adopted-twice",
        40,
        "elseif ended ~= id and holds(rec, from) and",
        "elseif ended ~= id and",
    ),
    // No world has had a copy of an ask that came so late: `conformance::*::adopt` has one.
    mistake("a-lease-granted-anew-is-adopted", 0, " and tonumber(last) <= most then", " then"),
    // No world has had such a copy: `conformance::*::once` has one, and `tests/oracle/successes.rs`.
    mistake(
        "a-late-grant-completes",
        0,
        "if not has_it or token ~= '0' and tonumber(token) ~= tonumber(string.sub(rec, 37, 52)) then",
        "if not has_it then",
    ),
    // A world of an earlier make found it; none does now: `tests/oracle/successes.rs` does.
    mistake(
        "a-tick-has-two-successes",
        0,
        "local granted_ms = is_done and until_ms or now_ms",
        "local granted_ms = now_ms",
    ),
    mistake(
        "done-work-runs-again",
        20,
        "local is_done = until_ms > now_ms",
        "local is_done = false",
    ),
    mistake(
        "a-job-that-may-run-again-is-still-done",
        20,
        "redis.call('UNLINK', done)",
        "redis.call('UNLINK', runs)",
    ),
    mistake(
        "nobody-tells-a-job-that-it-may-run-again",
        20,
        "redis.pcall(command, channel, message)\nreturn 1",
        "return 1",
    ),
    mistake(
        "a-repeated-ask-of-a-job-is-a-run",
        100,
        "if not is_held then note_run(",
        "if true then note_run(",
    ),
    mistake(
        "a-release-hands-nothing-over",
        20,
        "if string.sub(rec, 53, 53) == '1' then\nhand_over(lock, queue, waiters, wake, rec, id)",
        "if false then\nhand_over(lock, queue, waiters, wake, rec, id)",
    ),
    mistake(
        "a-kept-lock-is-free-at-once",
        40,
        "if keep_ms ~= '' and keep_ms ~= '0' then",
        "if false then",
    ),
    mistake(
        "a-set-takes-what-is-held",
        20,
        "if ended == id or not is_held and (flag ~= '0' or string.sub(rec, 2, 2) ~= 'F') then return nil end",
        "",
    ),
];

impl Mistake {
    /// The same, where these faults happen and no others.
    const fn among(self, faults: &'static [Fault]) -> Self {
        Self { only: Only { faults: Some(faults), ..self.only }, ..self }
    }

    /// The same, on these servers.
    const fn on(self, deployment: Deployment) -> Self {
        Self { only: Only { deployment: Some(deployment), ..self.only }, ..self }
    }

    /// The mistake of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        MISTAKES.iter().find(|mistake| mistake.name == name)
    }
}

#[cfg(test)]
mod tests {
    use leasehold::store::redis::scripts;

    use super::*;

    #[test]
    fn each_text_is_in_a_script() {
        let scripts: Vec<_> = scripts().flat_map(|script| script.bodies).collect();
        for Mistake { name, from, to, .. } in MISTAKES {
            assert!(from != to && scripts.iter().any(|script| script.contains(from)), "{name}");
        }
    }
}
