//! Rules of the locks that several may hold, each taken away from the scripts. The rules of the library are
//! not asked, as if they had the same mistake: so this shows that each is needed, and that the oracle sees what
//! follows without it.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use leasehold::LockKey;
use leasehold::store::redis::RedisStore;
use leasehold::store::{
    Ask, Attempt, ClientId, Kind, Owner, QueuePosition, Request, RequestId, Waiting,
};
use leasehold_simulation::oracle::Oracle;
use leasehold_simulation::traffic::{Traffic, Unusual, connect, watched};
use tokio::time::sleep;

use super::planted::{Mistake, find_all, mistakes};

/// Within so many seeds.
const SEEDS: u64 = 100;

const MISTAKES: &[Mistake] = mistakes! {
    "an ask that is repeated is counted again":
        "if is_new then is_noted, why = pcall(note, holders, holder, 1, now_ms) end" => "is_noted, why = pcall(note, holders, holder, 1, now_ms)",
        "holders", 1;
    "a repeated release ends another hold":
        "if not is_live(redis.call('ZSCORE', keys.holders, holder), to_ms(now)) then\nleave(keys.queue, keys.waiters, id)" =>
        "if not is_live(redis.call('ZSCORE', keys.holders, holder), to_ms(now)) then\n\
         local any = redis.call('ZRANGE', keys.holders, 0, '+inf', 'BYSCORE', 'LIMIT', 0, 1)[1]\n\
         if any then take_out(keys.holders, any) move_on(keys, rec, id, now) return true end\n\
         leave(keys.queue, keys.waiters, id)",
        "has lost its lease, and nobody ended it", 1;
    "a release ends all leases of its owner":
        "take_out(keys.holders, holder)\nmove_on(keys, rec, id, now)\nreturn true" =>
        "for _, it in ipairs(redis.call('ZRANGE', keys.holders, 0, '+inf', 'BYSCORE')) do\n\
         if owner_of(it) == owner_of(holder) then take_out(keys.holders, it) end\n\
         end\nmove_on(keys, rec, id, now)\nreturn true",
        "has lost its lease, and nobody ended it", 1;
    "a renewal renews all":
        "redis.call('ZADD', holders, now_ms + ttl_ms, holder)\nif is_writer" =>
        "for _, it in ipairs(redis.call('ZRANGE', holders, 0, '+inf', 'BYSCORE')) do\n\
         redis.call('ZADD', holders, now_ms + ttl_ms, it)\nend\nif is_writer",
        "has another deadline, and has not asked", 2;
    "ended permits count":
        "return purge(holders, now_ms) > 0 and has_room(holders, weight, limit)" => "return false",
        "waits for what is free", 2;
    "one waiter is let in where two fit":
        "for _ = 1, 64 do\nlocal first, said, left_ms = first_waiter(keys.queue" =>
        "for _ = 1, 1 do\nlocal first, said, left_ms = first_waiter(keys.queue",
        "waits for what is free", 7;
    "a permit overtakes the queue":
        "if has_it or nobody and fits(holders, holder, limit, now_ms) then" =>
        "if has_it or fits(holders, holder, limit, now_ms) then",
        "has overtaken", 2;
    "a reader overtakes the queue":
        "elseif has_it or owned or nobody and fits(" => "elseif has_it or owned or fits(",
        "has overtaken", 3;
    "a hold overtakes the queue":
        "if owns(keys.holders, holder, now_ms) or nobody and fits(" =>
        "if owns(keys.holders, holder, now_ms) or fits(",
        "has overtaken", 6;
    "whoever does not fit is skipped":
        "if not fits(keys.holders, holder, limit, now_ms) then break end" =>
        "if not fits(keys.holders, holder, limit, now_ms) then\n\
         first = redis.call('ZRANGE', keys.queue, -1, -1)[1]\n\
         said = redis.call('HGET', keys.waiters, first)\n\
         left_ms = (said and tonumber(string.sub(said, 1, 13)) or 0) - now_ms\n\
         if left_ms <= 0 or kind_in(said) ~= KIND then break end\n\
         limit, how = string.match(demand_in(said), '(%d*)(.*)')\n\
         holder = first .. how\n\
         if not fits(keys.holders, holder, limit, now_ms) then break end\nend",
        "has overtaken", 2;
    "an owner that comes again waits for its hold":
        "if owns(keys.holders, holder, now_ms) or nobody" => "if nobody",
        "waits for its own owner", 1;
    "an owner that reads again waits for itself":
        "elseif has_it or owned or nobody" => "elseif has_it or nobody",
        "waits for its own owner", 13;
    "a reader waits until it may write":
        "if owned and is_writer(holder) and (live_ms > 0 or not is_sole_reader(keys.holders, holder, now_ms)) then" =>
        "if owned and is_writer(holder) and live_ms > 0 then\n\
         return line_up(keys, holder, '', ttl_ms, waits, token, flag, ended, now)\n\
         elseif owned and is_writer(holder) and not is_sole_reader(keys.holders, holder, now_ms) then",
        "waits for its own owner", 15;
    "an owner that comes again stays in the queue":
        "if flag == '1' then leave(keys.queue, keys.waiters, string.sub(holder, 1, 34)) end" => "",
        "a holder waits", 14;
    "a reader may write while others read":
        "(live_ms > 0 or not is_sole_reader(keys.holders, holder, now_ms))" => "(live_ms > 0)",
        "a writer beside readers", 31;
    "an owner that writes may write once more":
        "return not is_written(holders, now_ms) and redis.call('ZCOUNT', holders, 0, '+inf') == own" =>
        "return redis.call('ZCOUNT', holders, 0, '+inf') == own",
        "two writers", 13;
    "an owner that comes again has a new token":
        "if token == NO_TOKEN or not ends_at(holders, to_ms(now)) then token = next_token(token) end" =>
        "token = next_token(token)",
        " after ", 1;
    "a reader that may write has the last token":
        "if token == NO_TOKEN or not redis.call('ZSCORE', holders, holder) then" =>
        "if token == NO_TOKEN or not redis.call('ZSCORE', holders, holder) and not (owner_of(holder) and \
         redis.call('ZSCORE', holders, owner_of(holder))) then",
        " after ", 60;
    "a force leaves the token":
        "local token = next_token(last_token)\nlocal free" => "local token = last_token\nlocal free",
        "was forced, and token";
    "a lease that has ended is adopted":
        "if not is_live(redis.call('ZSCORE', holders, from), now_ms) then\nreturn {ended == from_id and 2 or 0}\nend" => "",
        "has adopted what", 1;
    "the former holder keeps what was adopted":
        "take_out(holders, from)" => "",
        "may still have what was adopted", 1;
    "an adopter beside its owner's holds has a new token":
        "token, own = fence(holders, holder, token, now)\nput_in(" =>
        "token = KIND == 'E' and next_token(token) or token\n\
         token, own = fence(holders, holder, token, now)\nput_in(",
        " after ", 5;
};

#[test]
fn a_rule_that_is_taken_away_is_missed() {
    find_all(MISTAKES, SEEDS, |seed, mistake| {
        let (found, _) = watched(Oracle::without_rules(), mistake, async |bench| {
            let unusual = Unusual { jumps: seed % 2 == 1 };
            Traffic::start(bench, seed).await.run(300, unusual).await;
        });
        found
    });
}

/// A client of readers and writers.
struct Client {
    id: ClientId,
    store: RedisStore,
    counter: AtomicU64,
}

impl Client {
    async fn new() -> Self {
        let id = ClientId::random();
        Self { id, store: connect(id).await, counter: AtomicU64::new(1) }
    }

    fn request(&self, kind: Kind, owner: &str, seconds: u64) -> Request {
        let (key, ttl) = (LockKey::new("a").unwrap(), Duration::from_secs(seconds));
        let (id, owner) =
            (RequestId::next(self.id, &self.counter), Some(Owner::new(owner).unwrap()));
        Request { key, id, kind, owner, note: None, ttl }
    }

    async fn wait(&self, request: &Request) -> Attempt {
        let position = QueuePosition::New { age: Duration::ZERO };
        let waiting = Waiting { live: Duration::from_secs(14), position };
        self.store.acquire(request, Some(waiting)).await.expect("the server answers")
    }

    async fn acquire(&self, request: &Request) -> Attempt {
        self.store.acquire(request, None).await.expect("the server answers")
    }
}

/// What is found where a script says that in place of this, and where it does not.
fn with_and_without<F: Future<Output = ()>>(
    from: &str,
    to: &str,
    test: impl Fn(Client) -> F,
) -> String {
    let judged = |mistake| {
        let test = async |_| test(Client::new().await).await;
        watched(Oracle::without_rules(), mistake, test).0.join("\n")
    };
    assert_eq!(judged(None), "");
    judged(Some((from, to)))
}

/// Its owner waits to read and to write. Once it reads, the other request would wait for itself.
#[test]
fn a_request_that_would_wait_for_itself_leaves_the_queue() {
    let refused = "leave(keys.queue, keys.waiters, id)\nif live_ms == 0 and recall_clients";
    let found = with_and_without(refused, "if live_ms == 0 and recall_clients", async |client| {
        let other = client.request(Kind::Write, "y", 60);
        let [reads, writes] = [Kind::Read, Kind::Write].map(|kind| client.request(kind, "x", 60));
        assert!(matches!(client.acquire(&other).await, Attempt::Granted { .. }));
        for waits in [&reads, &writes] {
            assert!(matches!(client.wait(waits).await, Attempt::Queued { .. }));
        }
        let _ended = client.store.release(&other, Duration::ZERO).await.expect("it answers");
        assert_eq!(client.wait(&writes).await, Attempt::WouldDeadlock);
    });
    assert!(found.contains("is over, and still there"), "{found}");
}

/// An owner that reads again passes a waiting writer, but not once its lease has ended.
#[test]
fn an_ended_lease_is_no_reason_to_pass_a_waiter() {
    let owns = "purge(holders, now_ms)\nreturn redis.call('ZSCORE', holders, owner) ~= false";
    let wrong = "return redis.call('ZSCORE', holders, owner) ~= false";
    let found = with_and_without(owns, wrong, async |client| {
        for (owner, seconds) in [("y", 60), ("x", 5)] {
            let reads = client.request(Kind::Read, owner, seconds);
            assert!(matches!(client.acquire(&reads).await, Attempt::Granted { .. }));
        }
        let writes = client.request(Kind::Write, "z", 60);
        assert!(matches!(client.wait(&writes).await, Attempt::Queued { .. }));
        sleep(Duration::from_secs(6)).await;
        client.acquire(&client.request(Kind::Read, "x", 5)).await;
    });
    assert!(found.contains("has overtaken"), "{found}");
}
