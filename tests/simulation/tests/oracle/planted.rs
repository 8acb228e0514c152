//! Mistakes in the scripts that the oracle must find.

use leasehold::store::redis::scripts;

use leasehold_simulation::traffic::{Unusual, judged};

/// Within so many seeds.
const SEEDS: u64 = 60;

pub(super) struct Mistake {
    pub(super) what: &'static str,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    /// A part of what is found.
    pub(super) found: &'static str,
    /// The seed that found it when it was planted. It is tried first.
    pub(super) first: u64,
}

/// Looks for each of them in so many seeds, each of which is judged with the mistake.
pub(super) fn find_all(
    mistakes: &[Mistake],
    seeds: u64,
    judged: impl Fn(u64, Option<(&str, &str)>) -> Vec<String>,
) {
    let mut missed = Vec::new();
    for Mistake { what, from, to, found, first } in mistakes {
        let is_there = scripts().any(|script| script.bodies[0].contains(from));
        assert!(is_there, "{what}: no script says {from:?}");
        let is_found =
            |seed: &u64| judged(*seed, Some((from, to))).iter().any(|text| text.contains(found));
        match [*first].into_iter().chain(0..seeds).find(is_found) {
            Some(seed) => println!("{what}: found by seed {seed}"),
            None => missed.push(what),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:#?}");
}

macro_rules! mistakes {
    ($($what:literal: $from:literal => $to:literal, $found:literal$(, $first:literal)?;)*) => {
        &[$($crate::oracle::planted::Mistake {
            what: $what,
            from: $from,
            to: $to,
            found: $found,
            first: [$($first,)? 0][0],
        }),*]
    };
}

pub(super) use mistakes;

const MISTAKES: &[Mistake] = mistakes! {
    "a release does not look at the holder":
        "if not rec or not holds(rec, id) then\n" => "if not rec then\n",
        "has lost its lease, and nobody ended it";
    "a renewal revives a permit":
        "if not deadline_ms or tonumber(deadline_ms) <= now_ms then return 0 end" => "",
        "has not asked for it";
    "a renewal revives a mutex":
        "if not rec then return 0 end\nlocal holder" =>
        "if not rec then rec = 'MO' .. id .. '17672256000000000' .. string.rep('-', 34) end\nlocal holder",
        "has not asked for it";
    "a free record forgets the request":
        "'0' .. id, 'PX', free_ms(token))" => "'0' .. NOBODY, 'PX', free_ms(token))",
        "forgotten which request ended";
    "an ended request is granted":
        "if ended == id then return {2} end" => "",
        "and had ended";
    "a token is not above the last":
        "if now_us < least then token = string.format('%.0f', least) end" => "",
        "token";
    "a token is not noted":
        "note_token(token)\nreturn token" => "return token",
        "is noted";
    "a release forgets the limit":
        "state, expiry_ms = string.sub(rec, 2, 36), left_ms" => "state, expiry_ms = 'H' .. NOBODY, left_ms",
        "limit";
    "an offer does not say its limit":
        "keys.limit = counted(limit)\nlocal lasts_ms" => "local lasts_ms",
        "limit";
    "weights do not count":
        "'+inf') - more + weight" => "'+inf') + weight",
        "and the limit is";
    "the flag is not set":
        "if flag == '0' and not is_free then redis.call('SETRANGE', lock, 52, '1') end" => "",
        "the record's flag is 0";
    "a queue never ends":
        "if is_queued == 0 then redis.call('PEXPIRE', queue, QUEUE_MS) end" => "",
        "the key queue has no expiry";
    "the holders never end":
        "if is_there == 0 then redis.call('PEXPIRE', holders, expiry_ms) end" => "",
        "the key holders has no expiry";
    "readers come in beside a writer":
        "return not is_written(holders, now_ms) or owns(holders, holder, now_ms)" => "return true",
        "a writer beside readers", 7;
    "anybody comes in to a reentrant mutex":
        "return not ends_at(holders, now_ms) or owns(holders, holder, now_ms)" => "return true",
        "holds of two owners";
    "an owner's holds are not counted":
        "if owner then shift(holders, owner, by) end" => "",
        "are not counted";
    "a mutex lingers without a mark":
        "ended .. LINGERS .. owner_in(rec)" => "ended .. owner_in(rec)",
        "is kept without a mark";
    "a client lingers without a mark":
        "redis.call('ZADD', holders, score, LINGERS .. client)" => "",
        "is kept without a mark";
    "a recall forgets the mark":
        "redis.call('ZADD', keys.holders, marks[each + 1], RECALLED .. client)" => "",
        "is lost";
    "a waiter that is served stays in the queue":
        "leave(queue, waiters, first)\nlocal token" => "local token",
        "a holder waits";
    "the last waiter is served first":
        "redis.call('ZRANGE', queue, 0, 0)[1]\nif not id" =>
        "redis.call('ZRANGE', queue, -1, -1)[1]\nif not id",
        "has overtaken";
    "a forced holder is not noted":
        "redis.call('ZADD', keys.forced, 'GT', now_ms + left_ms, taken[1])" => "",
        "is not noted";
    "a force takes holders that were not named":
        "if kind == 'M' or kind == 'E' or not stays then" => "if true then",
        "was not named", 9;
    "a forced writer leaves its token":
        "if not writes or -writes <= now_ms then" => "if false then",
        "", 9;
    "an offer lasts as long as its waiter lives":
        "next_token(last), math.min(left_ms, OFFER_MS)" => "next_token(last), left_ms",
        "an offer lasts for too long";
    "a dead waiter is offered the lock":
        "if left_ms > 0 and left_ms <= LIVE_MOST_MS then return" => "if true then return",
        "";
    "a new asker overtakes the queue":
        "if is_free then answer = take_turn(lock, queue, waiters, wake, id, owner, ttl_ms, last, ended) end" =>
        "if is_free then return grant(lock, id, owner, last, flag or '1', ended, ttl_ms) end",
        "has overtaken";
    "a recall is not sent":
        "publish(wake, holder, holder .. 'R' .. lock)" => "",
        "the rules publish";
    "clients are not recalled":
        "publish(keys.wake, client, client .. '000000000000R' .. keys.lock)" => "",
        "the rules publish";
    "an offer is not proven":
        "redis.sha1hex(secret_in(said) .. message)" => "redis.sha1hex(message)",
        "without its proof";
    "a client that hears nothing is not doubted":
        "if heard == 0 then doubt(wake, queue, waiters, id, until_ms - early_ms) end" => "",
        "the rules";
    "clients ask all at once":
        "left_ms + SPREAD_MS * before" => "left_ms",
        "the rules answer";
    "a cancel does not serve the others":
        "move_on(keys, rec, id, now)\nreturn held" => "return held",
        "the rules make it";
    "a cancel is not remembered":
        "redis.call('SETRANGE', lock, 53, id)" => "",
        "the rules make it";
    "a kept mutex looks held":
        "state == 'K' and 7 or is_recalled and 8" => "is_recalled and 8",
        "the rules answer", 24;
    "a repeated release is told that it is too late":
        "if string.sub(rec, 54, 87) ~= id then return 2 end" => "if true then return 2 end",
        "the rules answer";
    "an offer is kept for too long":
        "local left_ms = until_ms - now_ms\n" => "local left_ms = until_ms - now_ms + 500\n",
        "the rules make it";
    "work counts as done from its tick alone":
        "offset_ms and tick_at(last_ms) or completed_ms" => "offset_ms and tick_at(last_ms) or 0",
        "the rules answer";
    "work that runs again is still done":
        "redis.call('UNLINK', done)" => "",
        "done: the rules make it";
    "work that runs again keeps its failures":
        "else\nredis.call('UNLINK', runs)\nend" => "end",
        "runs: the rules make it", 17;
    "nobody is noted who let work run again":
        "redis.call('SET', again, times .. said, 'PX', keep_ms)" => "",
        "again: the rules make it";
    "a mutex stays kept although its work may run again":
        "if state == 'MK' then finish(" => "if false then finish(",
        "the rules make it", 24;
    "a repeated ask is another run":
        "if not is_held then note_run(" => "if true then note_run(",
        "runs: the rules make it";
    "runs before the success count":
        "redis.call('UNLINK', runs)\nif until_ms" => "if until_ms",
        "runs: the rules make it", 8;
    "a lingering lease ignores a recall":
        "local is_wanted = usage >= 2 and string.sub(rec, 88, 88) == RECALLED" =>
        "local is_wanted = false",
        "the rules";
    "a heavy waiter starves":
        "if not fits(keys.holders, holder, limit, now_ms) then break end" =>
        "if not fits(keys.holders, holder, limit, now_ms) then leave(keys.queue, keys.waiters, first) break end",
        "the rules";
    "a writer waits for itself":
        "if owned and is_writer(holder) and (live_ms > 0 or" => "if owned and is_writer(holder) and (",
        "the rules", 46;
    "a completion tells no waiter":
        "leave(queue, waiters, waiter)\npublish(wake, waiter, waiter)" => "leave(queue, waiters, waiter)",
        "the rules publish", 40;
};

#[test]
fn planted_mistakes_are_found() {
    find_all(MISTAKES, SEEDS, |seed, mistake| {
        judged(seed, mistake, Unusual { jumps: seed % 2 == 1 })
    });
}
