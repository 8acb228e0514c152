//! At most one success in each tick, judged without the rules of the library: mistakes that the rules and the
//! scripts could have in common.

use leasehold_simulation::oracle::Oracle;
use leasehold_simulation::traffic::jobs::judged;

use super::planted::{Mistake, find_all, mistakes};
use super::seeds;

/// Within so many seeds.
const SEEDS: u64 = 100;

const MISTAKES: &[Mistake] = mistakes! {
    "done work runs again":
        "local is_done = until_ms > now_ms" =>
        "local is_done = false",
        "has succeeded";
    "a success leaves no mark":
        "redis.call('SET', done, mark, 'PX', math.max(until_ms - now_ms, tonumber(keep_ms), 1))" =>
        "",
        "has succeeded";
    "a run counts from its tick alone":
        "tick_ms, granted_ms) .. id" =>
        "tick_ms, tick_ms) .. id",
        "has succeeded";
    "a tick has two successes":
        "local granted_ms = is_done and until_ms or now_ms" =>
        "local granted_ms = now_ms",
        "has succeeded", 11;
    "a late grant completes":
        "if not has_it or token ~= '0' and tonumber(token) ~= tonumber(string.sub(rec, 37, 52)) then" =>
        "if not has_it then",
        "has succeeded", 74;
    "a lease that was lost completes":
        "if string.sub(redis.call('GET', done) or '', 53) ~= id then return rec and 2 or 0 end" =>
        "if string.sub(redis.call('GET', done) or '', 53) ~= id then\n\
         local at = to_ms(clock())\n\
         redis.call('SET', done, string.format('%013.0f%013.0f%013.0f%013.0f', once_ms + at, at, tick_ms, at) .. id, 'PX', 60000)\n\
         return 1\nend",
        "marks the work as done";
    "a success counts for the tick that runs":
        "if tonumber(granted_ms) == 0 then granted_ms = now_ms end" =>
        "granted_ms = now_ms",
        "has succeeded";
    "the mark is looked for at the first ask alone":
        "local is_done = until_ms > now_ms" =>
        "local is_done = until_ms > now_ms and not redis.call('ZSCORE', queue, id) and not (rec and holds(rec, id))",
        "has succeeded";
    "the mark is looked for while nobody holds the mutex":
        "local is_done = until_ms > now_ms" =>
        "local is_done = until_ms > now_ms and not (rec and string.find(rec, '^M[HO]'))",
        "has succeeded";
    "an offer has the tick before":
        "local granted_ms = is_done and until_ms or now_ms" =>
        "local granted_ms = is_done and until_ms or rec and string.find(rec, '^MO') and now_ms - once_ms or now_ms",
        "has succeeded", 41;
    "a completion leaves its waiters":
        "if until_ms > now_ms and string.sub(rec, 53, 53) == '1' then" =>
        "if false then",
        "waits, and the work is done";
    "a completion ends the first waiter alone":
        "ipairs(redis.call('ZRANGE', queue, 0, -1)) do\nlocal said = redis.call('HGET', waiters, waiter)" =>
        "ipairs(redis.call('ZRANGE', queue, 0, 0)) do\nlocal said = redis.call('HGET', waiters, waiter)",
        "waits, and the work is done";
    "a repeated completion renews the mark":
        "redis.call('SETRANGE', done, 52, id)" =>
        "local at = to_ms(clock())\n\
         redis.call('SET', done, string.format('%013.0f%013.0f%013.0f%013.0f', once_ms + at, at, tick_ms, at) .. id, 'PX', 60000)",
        "marks the work as done";
    "a mark does not say whose it is":
        "if string.sub(redis.call('GET', done) or '', 53) ~= id then return" =>
        "if true then return",
        "is denied";
};

#[test]
fn each_tick_has_one_success() {
    let mut successes = 0;
    for seed in 0..3 * seeds() {
        let judged = judged(seed, None, Oracle::default());
        assert!(judged.found.is_empty(), "seed {seed}: {:#?}", judged.found);
        successes += judged.successes;
    }
    assert!(successes > 20 * seeds(), "{successes}");
}

#[test]
fn a_second_success_is_found_without_the_rules() {
    find_all(MISTAKES, SEEDS, |seed, mistake| judged(seed, mistake, Oracle::without_rules()).found);
}
