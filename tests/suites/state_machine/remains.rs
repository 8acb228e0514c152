//! What is stored on the server after each step.

use std::collections::HashMap;

use leasehold::LockKey;
use leasehold::store::{Kind, LIVE_MOST, Request};
use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};

use super::steps::NAMES;

const ROLES: [&str; 4] = ["lock", "holders", "queue", "waiters"];

/// All that is stored, and when it was looked at.
#[derive(Default)]
pub(super) struct Remains {
    now_ms: u64,
    keys: Vec<String>,
    locks: HashMap<String, Lock>,
}

#[derive(Default)]
struct Lock {
    record: Option<String>,
    /// Member and score, in order.
    holders: Vec<(String, i64)>,
    queue: Vec<(String, i64)>,
    waiters: HashMap<String, String>,
    /// For each role.
    left_ms: Vec<i64>,
}

impl Lock {
    /// Who has the lock or a permit, and its weight, `later_ms` after it was looked at.
    fn live(&self, now_ms: u64, later_ms: u64) -> impl Iterator<Item = (&str, u32)> {
        let lasts = move |until: i64, after: u64| u64::try_from(until).is_ok_and(|it| it > after);
        let is_held = |record: &&str| record.starts_with("MH") || record.starts_with("MO");
        let record = self.record.as_deref().filter(|_| lasts(self.left_ms[0], later_ms));
        let holder = record.filter(is_held).map(|record| (&record[2..36], 1));
        let permits = self.holders.iter().filter(move |(_, end)| lasts(*end, now_ms + later_ms));
        permits.map(|(member, _)| weighed(member)).chain(holder)
    }

    /// How many that are known to live are in the queue before a request, or in
    /// all if it is not there, and stay there.
    fn overtaken(&self, after: &Self, id: &str, now_ms: u64) -> usize {
        let most = now_ms + u64::try_from(LIVE_MOST.as_millis()).expect("a few seconds");
        let until = |id: &str| self.waiters[id][..13].parse::<u64>().expect("13 digits");
        let before = self.queue.iter().take_while(|(waiter, _)| waiter != id);
        let live = before.filter(|(waiter, _)| (now_ms + 1..=most).contains(&until(waiter)));
        live.filter(|(waiter, _)| after.waiters.contains_key(waiter)).count()
    }
}

/// A permit's request, and how much it weighs.
fn weighed(member: &str) -> (&str, u32) {
    let (id, weight) = member.split_once(':').unwrap_or((member, "1"));
    (id, weight.parse().expect("a weight"))
}

impl Remains {
    pub(super) async fn look(raw: &mut MultiplexedConnection) -> Result<Self, RedisError> {
        let mut commands = redis::pipe();
        commands.cmd("TIME").cmd("KEYS").arg("*");
        for name in NAMES {
            let key = LockKey::new(name).expect("a name");
            let [lock, holders, queue, waiters] = ROLES.map(|role| key.in_store("leasehold", role));
            commands.cmd("GET").arg(&lock).cmd("HGETALL").arg(&waiters);
            for set in [&holders, &queue] {
                commands.cmd("ZRANGE").arg(set).arg(0).arg(-1).arg("WITHSCORES");
            }
            for key in [&lock, &holders, &queue, &waiters] {
                commands.cmd("PTTL").arg(key);
            }
        }
        let answers: Vec<Value> = commands.query_async(raw).await?;
        let mut answers = answers.into_iter();
        let mut next = move || answers.next().expect("one answer a command");
        let (seconds, micros): (u64, u64) = redis::from_redis_value(next())?;
        let keys = redis::from_redis_value(next())?;
        let mut locks = HashMap::new();
        for name in NAMES {
            let mut lock = Lock {
                record: redis::from_redis_value(next())?,
                waiters: redis::from_redis_value(next())?,
                holders: redis::from_redis_value(next())?,
                queue: redis::from_redis_value(next())?,
                left_ms: Vec::new(),
            };
            for _ in ROLES {
                lock.left_ms.push(redis::from_redis_value(next())?);
            }
            locks.insert(name.to_owned(), lock);
        }
        Ok(Self { now_ms: seconds * 1000 + micros / 1000, keys, locks })
    }

    /// What must be so after each command.
    pub(super) fn check(&self) -> Result<(), String> {
        let known: Vec<_> = NAMES
            .iter()
            .flat_map(|name| ROLES.map(|role| format!("leasehold:{role}:{{{name}}}")))
            .collect();
        for key in &self.keys {
            ensure(known.contains(key), || format!("{key} is nobody's"))?;
        }
        for (name, lock) in &self.locks {
            for (role, left) in ROLES.iter().zip(&lock.left_ms) {
                ensure(*left != -1, || format!("{role} of {name} never ends"))?;
            }
            lock.check(self.now_ms).map_err(|problem| format!("{name}: {problem}"))?;
        }
        Ok(())
    }

    /// Whether a request holds the lock, and was not only offered it.
    pub(super) fn has(&self, request: &Request) -> Result<(), String> {
        let (id, record) = (format!("{:?}", request.id), &self.locks[request.key.name()].record);
        let record = record.as_deref().unwrap_or_default();
        let holder = if request.kind == Kind::Mutex { format!("MH{id}") } else { "SH".into() };
        ensure(record.starts_with(&holder), || format!("{record} is not {id}'s"))
    }

    /// Whether a request neither holds nor waits, after it was released or cancelled.
    pub(super) fn lacks(&self, request: &Request) -> Result<(), String> {
        let id = format!("{:?}", request.id);
        let lock = &self.locks[request.key.name()];
        let has_it = lock.live(self.now_ms, 0).any(|(holder, _)| holder == id);
        ensure(!has_it && !lock.waiters.contains_key(&id), || format!("{id} is still there"))
    }

    /// Whether `after` may follow, where this request was granted: it had it
    /// already, or there was room, and nobody waited before it.
    pub(super) fn allows(
        &self,
        after: &Self,
        request: &Request,
        is_try: bool,
    ) -> Result<(), String> {
        let id = format!("{:?}", request.id);
        let Some(before) = self.locks.get(request.key.name()) else { return Ok(()) };
        let later_ms = after.now_ms - self.now_ms;
        if before.live(self.now_ms, later_ms).any(|(holder, _)| holder == id) {
            return Ok(());
        }
        // One that comes to wait may have been there before, by its ticket.
        let now_here = &after.locks[request.key.name()];
        if is_try || before.waiters.contains_key(&id) {
            let overtaken = before.overtaken(now_here, &id, after.now_ms);
            ensure(overtaken == 0, || format!("{id} overtook {overtaken}"))?;
        }
        // Others may have been served after it, by their own limits.
        let held: Vec<_> = before.live(self.now_ms, later_ms).collect();
        let out: u32 = held.iter().map(|(_, weight)| weight).sum();
        let (limit, weight) = match request.kind {
            Kind::Mutex => (1, 1),
            Kind::Semaphore { limit, weight } => (limit, weight),
            _ => todo!(),
        };
        ensure(out + weight <= limit, || format!("{out} and {weight} of {limit} are out"))
    }
}

impl Lock {
    fn check(&self, now_ms: u64) -> Result<(), String> {
        let mut waiters: Vec<_> = self.waiters.keys().collect();
        let mut queue: Vec<_> = self.queue.iter().map(|(id, _)| id).collect();
        waiters.sort();
        queue.sort();
        ensure(waiters == queue, || format!("{waiters:?} in the hash, {queue:?} in the queue"))?;
        let members = self.holders.iter().filter(|(member, _)| member != "+");
        let excess: u32 = members.map(|(member, _)| weighed(member).1 - 1).sum();
        let written = self.holders.iter().find(|(member, _)| member == "+");
        let written = written.map_or(0, |(_, score)| -score);
        ensure(i64::from(excess) == written, || format!("{excess} more, {written} is written"))?;
        let Some(record) = &self.record else {
            return ensure(self.live(now_ms, 0).next().is_none(), || {
                "permits without record".into()
            });
        };
        ensure(record.len() == 87, || format!("{} bytes", record.len()))?;
        let states = ["MH", "MO", "MK", "MF", "SH", "SF"];
        ensure(states.contains(&&record[..2]), || record.clone())?;
        let flag = &record[52..53];
        ensure(flag == "1" || flag == "0" && queue.is_empty(), || format!("{flag}, {queue:?}"))?;
        let is_out = self.live(now_ms, 0).any(|_| true);
        ensure(!is_out || !["MK", "MF", "SF"].contains(&&record[..2]), || record.clone())
    }
}

fn ensure(is_so: bool, problem: impl FnOnce() -> String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(problem()) }
}
