//! The keys on the server after each step, and their invariants.

mod lingering;
mod offers;
mod repairs;
mod votes;

use std::collections::{HashMap, HashSet};

use leasehold::LockKey;
use leasehold::store::{Adoption, Attempt, Ended, Forced, Renewal, Request};
use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};

use super::answers::Answer;
use super::beliefs::ensure;
use super::commands::{Command, What};
use super::steps::NAMES;
use super::stored::{How, Lock, ROLES};

/// All that is stored, and when it was looked at.
#[derive(Default)]
pub(super) struct Snapshot {
    now_ms: u64,
    clock_us: u64,
    pub(super) keys: Vec<String>,
    locks: HashMap<String, Lock>,
    /// The key `tokens`.
    tokens: u64,
    /// The greatest token that each lock has had.
    greatest: HashMap<String, u64>,
}

impl Snapshot {
    /// The server's clock, in microseconds.
    pub(super) fn clock(&self) -> u64 {
        self.clock_us
    }

    /// True if a request holds the lock in the way that it asked for.
    pub(super) fn has(&self, request: &Request) -> bool {
        let id = format!("{:?}", request.id);
        self.locks.get(request.key.name()).is_some_and(|lock| lock.has(&id, self.now_ms))
    }

    pub(super) async fn look(raw: &mut MultiplexedConnection) -> Result<Self, RedisError> {
        let mut commands = redis::pipe();
        commands.cmd("TIME").cmd("KEYS").arg("*").cmd("GET").arg("leasehold:tokens");
        for name in NAMES {
            let key = LockKey::new(name).expect("a name");
            let keys = ROLES.map(|role| key.in_store("leasehold", role));
            let [lock, holders, queue, waiters, forced, intent, ..] = &keys;
            commands.cmd("GET").arg(lock).cmd("HGETALL").arg(waiters);
            commands.cmd("GET").arg(intent);
            for set in [holders, queue, forced] {
                commands.cmd("ZRANGE").arg(set).arg(0).arg(-1).arg("WITHSCORES");
            }
            for key in &keys {
                commands.cmd("PTTL").arg(key);
            }
        }
        let answers: Vec<Value> = commands.query_async(raw).await?;
        let mut answers = answers.into_iter();
        let mut next = move || answers.next().expect("one answer a command");
        let (seconds, micros): (u64, u64) = redis::from_redis_value(next())?;
        let clock_us = seconds * 1_000_000 + micros;
        let now_ms = clock_us / 1000;
        let keys = redis::from_redis_value(next())?;
        let tokens = redis::from_redis_value::<Option<u64>>(next())?.unwrap_or(0);
        let (mut locks, mut greatest) = (HashMap::new(), HashMap::new());
        for name in NAMES {
            let mut lock = Lock {
                record: redis::from_redis_value(next())?,
                ends_ms: 0,
                waiters: redis::from_redis_value(next())?,
                intent: redis::from_redis_value(next())?,
                holders: redis::from_redis_value(next())?,
                queue: redis::from_redis_value(next())?,
                forced: redis::from_redis_value(next())?,
                left_ms: Vec::new(),
            };
            for _ in ROLES {
                lock.left_ms.push(redis::from_redis_value(next())?);
            }
            lock.ends_ms = now_ms.saturating_add_signed(lock.left_ms[0]);
            greatest.insert(name.to_owned(), lock.token());
            locks.insert(name.to_owned(), lock);
        }
        Ok(Self { now_ms, clock_us, keys, locks, tokens, greatest })
    }

    /// Takes over what the snapshot before remembered.
    pub(super) fn inherit(&mut self, before: &Self) {
        for (name, token) in &before.greatest {
            let greatest = self.greatest.entry(name.clone()).or_default();
            *greatest = (*greatest).max(*token);
        }
    }

    /// The invariants after each command.
    pub(super) fn check(&self) -> Result<(), String> {
        let known: Vec<_> = NAMES
            .iter()
            .flat_map(|name| ROLES.map(|role| format!("leasehold:{role}:{{{name}}}")))
            .collect();
        for key in &self.keys {
            let is_shared = key == "leasehold:tokens" || key.starts_with("leasehold:client:{");
            let is_known = is_shared || known.contains(key);
            ensure(is_known, || format!("{key} is nobody's"))?;
        }
        for (name, lock) in &self.locks {
            for (role, left) in ROLES.iter().zip(&lock.left_ms) {
                ensure(*left != -1, || format!("{role} of {name} never ends"))?;
            }
            lock.check(self.now_ms).map_err(|problem| format!("{name}: {problem}"))?;
        }
        Ok(())
    }

    /// No token that a server of its own has given is above the key `tokens`.
    pub(super) fn notes_tokens(&self) -> Result<(), String> {
        for (name, token) in &self.greatest {
            ensure(*token <= self.tokens, || format!("{name}: {token} above {}", self.tokens))?;
        }
        Ok(())
    }

    /// Checks the change since the snapshot before, by a command with this answer.
    pub(super) fn follows(
        &self,
        before: &Self,
        command: &Command,
        answer: &Answer,
    ) -> Result<(), String> {
        for (request, token) in command.granted(answer) {
            self.allows(before, request, token, command)?;
        }
        self.is_marked(before, command, answer)?;
        let (request, now_ms) = (&command.request, self.now_ms);
        let id = format!("{:?}", request.id);
        let name = request.key.name();
        let (greatest, before, lock) =
            (before.greatest[name], &before.locks[name], &self.locks[name]);
        let own = |owner| lock.live(now_ms).filter(|(_, how)| how.owner == owner).count();
        let had_it = before.has(&id, now_ms);
        for (holder, how) in lock.live(now_ms) {
            let said = before.said(holder).is_none_or(|said| How { limit: 1, ..said } == how);
            ensure(said, || format!("{holder} asked otherwise than {how:?}"))?;
        }
        match (answer, &command.what) {
            (Answer::Renewal(Renewal::Renewed), _) => {
                let is_held =
                    had_it && lock.has(&id, now_ms) && lock.state_at(now_ms).ends_with('H');
                ensure(is_held, || format!("{id} has nothing to renew"))
            }
            (Answer::Kept, What::KeepOffer([_, until])) => {
                lock.is_kept(before, &id, *until, now_ms)
            }
            (Answer::Adoption(adoption), What::Adopt(from)) => {
                self.adopts(before, (from, request), *adoption, greatest)
            }
            (Answer::Repaired(repaired), What::Repair(repair)) => {
                self.repairs(before, request, *repair, *repaired)
            }
            (Answer::Lingering(lingering), What::Linger(usage)) => {
                self.lingers(before, request, *usage, *lingering, greatest)
            }
            (
                Answer::Attempt(
                    answer @ (Attempt::Queued { .. }
                    | Attempt::Busy { .. }
                    | Attempt::Recalled { .. }),
                ),
                _,
            ) => {
                may_be_refused((before, lock), command, answer, now_ms)?;
                lock.is_served(before, now_ms)
            }
            (Answer::Attempt(Attempt::WrongKind), _) => {
                ensure(!lock.lingers(now_ms), || format!("{id} is refused, and the lock lingers"))
            }
            (Answer::Attempt(Attempt::WouldDeadlock), _) => {
                let how = How::of(request);
                let is_owners = before.is_owners(how.owner, now_ms) && how.is_writer;
                let may_try = before.is_sole_reader(how.owner, now_ms)
                    && matches!(command.what, What::Acquire | What::Vote(_));
                ensure(is_owners && !may_try, || format!("{id} might have waited"))?;
                lock.lacks(&id, now_ms)
            }
            (Answer::Ended(_) | Answer::Cancelled(_), _) => {
                lock.lacks(&id, now_ms)?;
                if had_it {
                    lock.is_served(before, now_ms)?;
                }
                // By then its name may be another kind of lock.
                let is_reentrant = lock.state_at(now_ms).starts_with('E');
                let left = match answer {
                    Answer::Ended(Ended::StillHeld(left)) => usize::try_from(*left).ok(),
                    Answer::Ended(Ended::Released) => Some(0),
                    _ => None,
                };
                let left = left.filter(|_| is_reentrant && How::of(request).kind == 'E');
                let owner = How::of(request).owner;
                ensure(left.is_none_or(|left| left == own(owner)), || {
                    format!("{} of {owner:?} are left", own(owner))
                })
            }
            (Answer::IsHeld(is_held), What::IsHeldBy(owner)) => {
                ensure(*is_held == before.is_owners(Some(owner.name()), now_ms), || {
                    format!("{owner:?}: {is_held}")
                })
            }
            (Answer::Forced(forced), _) => {
                let (left, held) = (lock.live(now_ms).count(), before.live(now_ms).count());
                let held = held + usize::from(before.state_at(now_ms) == "MK");
                let taken = match forced {
                    Forced::Released { held, fence, .. } if fence.get() > greatest => *held,
                    _ => 0,
                };
                let is_right = left == 0 && usize::try_from(taken) == Ok(held);
                ensure(is_right, || format!("{held} held it, {left} are left"))
            }
            _ => Ok(()),
        }
    }

    /// Checks the change by an adoption. A request that got the other's lease got all that belongs
    /// to it, and nothing else is changed.
    fn adopts(
        &self,
        then: &Lock,
        (from, request): (&Request, &Request),
        adoption: Adoption,
        greatest: u64,
    ) -> Result<(), String> {
        let (lock, now_ms, how) = (&self.locks[request.key.name()], self.now_ms, How::of(request));
        let (from, id) = (format!("{:?}", from.id), format!("{:?}", request.id));
        let others = |lock: &Lock| {
            let others = lock.live(now_ms).filter(|(it, _)| *it != from && *it != id);
            others.map(|(it, how)| format!("{it} {how:?}")).collect::<Vec<_>>()
        };
        ensure(others(lock) == others(then), || format!("{:?}", others(then)))?;
        // A key that ends is still there in its last millisecond.
        let is_over = then.left_ms[2] == 0;
        let is_same = lock.queue == then.queue && lock.waiters == then.waiters;
        ensure(is_same || is_over, || "a queue is changed".into())?;
        let had_it = then.has(&id, now_ms);
        let place = then.live(now_ms).find(|(it, _)| *it == if had_it { &id } else { &from });
        // The stored holder does not contain the limit.
        let place = place.filter(|(_, it)| *it == How { limit: 1, ..how });
        let may_have_it = place.is_some() && (had_it || then.ended() != id);
        let Adoption::Adopted { token } = adoption else {
            ensure(!may_have_it, || format!("{from} is there for {id}"))?;
            return ensure(lock.record_at(now_ms) == then.record_at(now_ms), || {
                format!("{from} is changed")
            });
        };
        // A repeat leaves the former holder alone, which may hold the lock again by then.
        let is_given = had_it || !lock.has(&from, now_ms);
        ensure(may_have_it && lock.has(&id, now_ms) && is_given, || format!("{id} has {place:?}"))?;
        let ends = lock.end_of(&id);
        let ttl_ms = u64::try_from(request.ttl.as_millis()).expect("a few seconds");
        ensure(ends == Some(now_ms + ttl_ms), || format!("{id} ends at {ends:?}"))?;
        let last = lock.live(now_ms).filter_map(|(it, _)| lock.end_of(it)).max();
        ensure(last == Some(lock.ends_ms), || format!("{} after {last:?}", lock.ends_ms))?;
        ensure(had_it || lock.ended() == from, || format!("{from} may come again"))?;
        let mut owners = then.live(now_ms).filter(|(it, _)| *it != from);
        let keeps = had_it || how.kind == 'E' && owners.next().is_some();
        let is_right = match (request.kind.is_fenced(), keeps) {
            (false, _) => token == 0 && lock.token() == then.token(),
            (true, true) => token == then.token() && token == lock.token(),
            (true, false) => token > greatest && token == lock.token(),
        };
        ensure(is_right, || format!("{id} has {token} after {greatest}"))
    }

    /// Checks the change by a grant. The request held the lock already, or there was room, and
    /// nobody but its own owner waited before it.
    fn allows(
        &self,
        before: &Self,
        request: &Request,
        token: u64,
        command: &Command,
    ) -> Result<(), String> {
        let (name, now_ms, how) = (request.key.name(), self.now_ms, How::of(request));
        let (then, lock, id) =
            (&before.locks[name], &self.locks[name], format!("{:?}", request.id));
        let is_holder = lock.has(&id, now_ms) && lock.state_at(now_ms).ends_with('H');
        ensure(is_holder, || format!("{id} has nothing"))?;
        let (had_it, was_owners) = (then.has(&id, now_ms), then.is_owners(how.owner, now_ms));
        if request.kind.is_fenced() {
            let keeps = had_it || how.kind == 'E' && was_owners;
            let greatest = before.greatest[name];
            let is_right = match command.what {
                _ if keeps => token == then.token(),
                // A member of a quorum may have given up the token of a wrong clock.
                What::Vote(_) => token == self.next_token(then),
                _ => token > greatest,
            };
            ensure(is_right && token == lock.token(), || {
                format!("{id} has {token} after {greatest}")
            })?;
        } else {
            ensure(token == 0, || format!("{id} has {token}"))?;
        }
        if had_it {
            return Ok(());
        }
        // A request is not granted a lock that is held or waited for as another kind: it overtakes
        // nobody.
        let state = then.state_at(now_ms);
        let is_free = state.is_empty() || state.ends_with('F');
        ensure(is_free || state.starts_with(how.kind), || format!("{id} at {state}"))?;
        let is_try = !matches!(command.what, What::Wait(_));
        let may_write = how.is_writer && is_try && then.is_sole_reader(how.owner, now_ms);
        // A waiter is judged by the limit that it gave when it joined.
        let said = then.said(&id).filter(|_| is_try);
        let has_room = [Some(how), said].into_iter().flatten().any(|it| then.has_room(it, now_ms));
        ensure(has_room || may_write, || format!("no room for {id}"))?;
        // By its position, a new waiter may have been in the queue before.
        let comes_again = was_owners && ['E', 'R'].contains(&how.kind);
        // If too many have ended, an ended request may still count.
        let comes_again = comes_again || how.kind == 'R' && then.is_crowded(now_ms);
        if !comes_again && (command.is_last() || then.waiters.contains_key(&id)) {
            // Others may have been served by the same command.
            let ahead: Vec<_> =
                then.queue.iter().map(|(it, _)| it).take_while(|it| **it != id).collect();
            let is_passed =
                |it: &str| ahead.iter().any(|other| *other == it) && lock.waiters.contains_key(it);
            let overtaken: Vec<_> = then.waiting(now_ms).filter(|(it, _)| is_passed(it)).collect();
            ensure(overtaken.is_empty(), || format!("{id} overtook {overtaken:?}"))?;
        }
        Ok(())
    }
}

impl Lock {
    fn check(&self, now_ms: u64) -> Result<(), String> {
        let mut waiters: Vec<_> = self.waiters.keys().collect();
        let mut queue: Vec<_> = self.queue.iter().map(|(id, _)| id).collect();
        waiters.sort();
        queue.sort();
        ensure(waiters == queue, || format!("{waiters:?} in the hash, {queue:?} in the queue"))?;
        self.check_counts(now_ms)?;
        // What has another score was no holder, and means nothing.
        for (member, _) in self.forced.iter().filter(|(_, end)| *end > 0) {
            ensure(member.len() >= 34, || format!("{member} was forced"))?;
        }
        let Some(record) = &self.record else {
            return ensure(self.holders.is_empty(), || "holders without record".into());
        };
        let owner = record.get(87..).unwrap_or("short");
        let may_linger = record.starts_with("MH");
        let owner = owner.strip_prefix(['~', '!']).filter(|_| may_linger).unwrap_or(owner);
        let may_be_owned = ["MH", "MO"].contains(&&record[..2]) && owner.starts_with(['@', '\n']);
        ensure(owner.is_empty() || may_be_owned, || format!("{record} has an end"))?;
        let states = ["MH", "MO", "MK", "MF", "EH", "EF", "SH", "SF", "RH", "RF"];
        ensure(states.contains(&&record[..2]), || record.clone())?;
        let flag = &record[52..53];
        ensure(flag == "1" || flag == "0" && queue.is_empty(), || format!("{flag}, {queue:?}"))?;
        let live: Vec<_> = self.live(now_ms).collect();
        let is_held = matches!(&record[1..2], "H" | "O");
        ensure(live.is_empty() || is_held, || format!("{record} and {live:?}"))?;
        let both = live.iter().find(|(id, _)| self.waiters.contains_key(*id));
        ensure(both.is_none(), || format!("{both:?} has it, and waits"))?;
        let may_be = live.iter().enumerate().all(|(nth, (_, first))| {
            live[nth + 1..].iter().all(|(_, second)| {
                let is_one_owner = first.owner.is_some() && first.owner == second.owner;
                match first.kind {
                    'S' => true,
                    'R' if first.is_writer == second.is_writer => !first.is_writer,
                    'E' | 'R' => is_one_owner,
                    _ => false,
                }
            })
        });
        ensure(may_be, || format!("together: {live:?}"))
    }

    /// The counts beside the holders must be exact.
    fn check_counts(&self, now_ms: u64) -> Result<(), String> {
        let mut counts = HashMap::<String, i64>::new();
        for (_, how, _) in self.members() {
            *counts.entry("+".into()).or_default() -= i64::from(how.weight) - 1;
            if let Some(owner) = how.owner {
                *counts.entry(format!("@{owner}")).or_default() -= 1;
            }
        }
        let writer = self.members().filter(|(_, how, _)| how.is_writer).last();
        let writer = writer.map_or(0, |(.., end)| -end);
        // The end of the last writer's lease may be forgotten with it, or stay.
        let live = -i64::try_from(now_ms).expect("a date");
        counts.insert("!".into(), if writer < live { writer } else { 0 });
        counts.retain(|_, count| *count != 0);
        let noted = self.counts().filter(|(member, end)| member != "!" || *end < live);
        let noted: HashMap<_, _> = noted.cloned().collect();
        ensure(counts == noted, || format!("{counts:?} are there, {noted:?} is noted"))?;
        // Since when each permit and reader is held, and nobody else.
        let unfenced = self.members().filter(|(_, how, _)| how.kind != 'E' && !how.is_writer);
        let unfenced: HashSet<_> = unfenced.map(|(id, ..)| id).collect();
        let since: HashSet<_> =
            self.holders.iter().filter_map(|(member, _)| member.strip_prefix('^')).collect();
        ensure(unfenced == since, || format!("{unfenced:?} are there, {since:?} say since when"))
    }

    /// Checks that the first waiter has to wait.
    fn is_served(&self, before: &Self, now_ms: u64) -> Result<(), String> {
        // A command that stops at its limit leaves the rest to the next.
        if before.is_crowded(now_ms) {
            return Ok(());
        }
        let first = self
            .waiting(now_ms)
            .next()
            .filter(|(_, how)| self.state_at(now_ms).starts_with(how.kind));
        let could = first.filter(|(_, how)| self.has_room(*how, now_ms));
        ensure(could.is_none(), || format!("{could:?} waits for what is free"))
    }

    /// Checks that a request neither holds nor waits.
    fn lacks(&self, id: &str, now_ms: u64) -> Result<(), String> {
        let is_there = self.has(id, now_ms) || self.waiters.contains_key(id);
        ensure(!is_there, || format!("{id} is still there"))
    }
}

/// Checks that a request which was not granted may have been refused, and so answered.
fn may_be_refused(
    (before, lock): (&Lock, &Lock),
    command: &Command,
    answer: &Attempt,
    now_ms: u64,
) -> Result<(), String> {
    let request = &command.request;
    let id = format!("{:?}", request.id);
    let had_it = before.has(&id, now_ms);
    let is_recalled = matches!(answer, Attempt::Recalled { .. });
    let lingers = [before, lock].map(|lock| lock.lingers(now_ms));
    // A waiter for another kind is not in the queue, and repeats it.
    let is_repeated = matches!(command.what, What::Wait(_))
        && lingers == [false, false]
        && before.has_recalled(now_ms);
    let is_told = !is_recalled || lingers == [true, false] || is_repeated;
    ensure(is_told, || format!("{id} recalls, and the lock lingers: {lingers:?}"))?;
    let is_try = matches!(command.what, What::Acquire);
    ensure(is_recalled || !is_try || lingers != [true, true], || {
        format!("{id} is refused, and the lock lingers")
    })?;
    let how = How::of(request);
    let is_owners = how.is_writer && before.is_owners(how.owner, now_ms);
    // A recall may be of another kind, which the owner can't enter again.
    let may_wait = is_recalled || !is_owners || had_it || before.is_crowded(now_ms);
    ensure(may_wait, || format!("{id} waits for its own owner"))
}
