//! All locks of a store, and what they share.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use super::clients::Clients;
use super::rates::Rates;
use crate::core::key::LockKey;
use crate::core::name_pattern::NamePattern;
use crate::core::system_time::system_time;
use crate::store::rules::{self, Context, Counters, LockState, Time, Tokens};
use crate::store::{
    All, Answer, ClientId, Command, Diagnosis, Hint, LimitCommand, LimitOf, LimitOverride, ListOf,
    ListPage, Listener, LockCommand, LockInfo, MOST_LIMITS, NotAll, Request, Take,
};

/// All locks, the counters and the clients. A command never finds what expired before it.
#[derive(Debug, Default)]
pub(super) struct Table {
    locks: HashMap<LockKey, LockState>,
    counters: Counters,
    clients: Clients,
    rates: Rates,
    limits: BTreeMap<LimitOf, LimitOverride>,
    /// The hints of the last command.
    hints: Vec<(ClientId, Hint)>,
    /// How many locks there may be before the expired ones are removed.
    sweep_above: usize,
}

impl Table {
    pub(super) fn new(tokens: Tokens) -> Self {
        Self { counters: Counters::new(tokens), ..Self::default() }
    }

    /// Runs a command.
    pub(super) fn run(&mut self, command: &Command<'_>, now: Time) -> Answer {
        debug_assert!(self.hints.is_empty(), "hints that nobody has delivered");
        match command {
            Command::Request(request, command) => self.with(&request.key, now, |lock, context| {
                rules::run(lock, request, *command, context)
            }),
            Command::AcquireAll(locks, takes) => self.acquire_all(locks, takes, now).into(),
            Command::GiveBack(take) => self.rates.give_back(take, now).into(),
            Command::RenewAll(requests) => {
                let renew = |request: &Request| {
                    Ok(self.with(&request.key, now, |lock, _| rules::renew(lock, request, now)))
                };
                requests.iter().map(renew).collect::<Vec<_>>().into()
            }
            Command::Lock(key, LockCommand::Inspect) => self.inspect(key, now).into(),
            Command::Lock(key, LockCommand::IsHeldBy(owner)) => {
                self.with(key, now, |lock, _| rules::is_held_by(lock, owner, now)).into()
            }
            Command::Lock(key, LockCommand::ForceRelease(force)) => {
                let rule = |lock: &mut LockState, context: &mut Context<'_>| {
                    rules::force_release(lock, force, context)
                };
                self.with(key, now, rule).into()
            }
            Command::Lock(key, LockCommand::RunAgain { by, why }) => {
                let rule = |lock: &mut LockState, context: &mut Context<'_>| {
                    rules::run_again(lock, by, why.as_ref(), context)
                };
                let answer = self.with(key, now, rule).into();
                let hint = |client| (client, Hint::RunAgain { key: key.as_ref().clone() });
                self.hints.extend(self.clients.all().map(hint));
                answer
            }
            Command::List(names, of, _) => {
                ListPage { keys: self.list(names, *of, now), next: None, failed: None }.into()
            }
            Command::Limits(command) => {
                self.change_limit(command, now);
                self.limits.values().cloned().collect::<Vec<_>>().into()
            }
            Command::Diagnose => Diagnosis::default().into(),
            Command::Introduce(client, lasts) => {
                self.clients.introduce(client.as_ref().clone(), *lasts, now);
                Answer::Done(())
            }
        }
    }

    fn acquire_all(&mut self, locks: &[Request], takes: &[Take], now: Time) -> All {
        if !locks.iter().all(|it| it.kind.can_join_others()) {
            return Err(NotAll::Unknown);
        }
        for (index, request) in locks.iter().enumerate() {
            if !self.with(&request.key, now, |lock, _| rules::is_available(lock, request, now)) {
                return Err(NotAll::Busy(index));
            }
        }
        self.rates.place(takes, now)?;
        let mut answer = Vec::with_capacity(locks.len() + takes.len());
        for request in locks {
            let token =
                self.with(&request.key, now, |lock, context| rules::take(lock, request, context));
            answer.push(token);
        }
        answer.extend(self.rates.take(takes, now.micros(), now));
        Ok(answer)
    }

    fn inspect(&mut self, key: &LockKey, now: Time) -> LockInfo {
        let Some(lock) = self.locks.get_mut(key) else { return LockInfo::default() };
        lock.expire(now);
        rules::inspect(lock, now, |id| self.clients.info(id, now))
    }

    fn list(&mut self, names: &NamePattern, of: ListOf, now: Time) -> Vec<LockKey> {
        let matching = self.locks.iter_mut().filter(|(key, _)| names.matches(key.name()));
        let listed = matching.filter_map(|(key, lock)| {
            lock.expire(now);
            let is_listed = match of {
                ListOf::Locks => lock.is_busy(),
                ListOf::Waited => lock.is_waited_for(),
                ListOf::Jobs => lock.is_job(),
                // No other store is in there.
                ListOf::Prefixes => false,
            };
            is_listed.then(|| key.clone())
        });
        listed.collect()
    }

    fn change_limit(&mut self, command: &LimitCommand, now: Time) {
        match command {
            LimitCommand::Read => return,
            LimitCommand::Set { of, limit, by, why } => {
                if self.limits.len() >= MOST_LIMITS && !self.limits.contains_key(of) {
                    return;
                }
                let changed = LimitOverride {
                    of: of.clone(),
                    limit: *limit,
                    by: by.text().to_owned(),
                    why: why.as_ref().map(|why| why.text().to_owned()),
                    at: system_time(now.millis()),
                };
                self.limits.insert(of.clone(), changed);
            }
            LimitCommand::Unset(of) => drop(self.limits.remove(of)),
        }
        self.hints.extend(self.clients.all().map(|client| (client, Hint::LimitsChanged)));
    }

    /// Ends all leases of a lock before their time, and says whether it was held.
    pub(super) fn expire(&mut self, key: &LockKey, now: Time) -> bool {
        self.locks.get_mut(key).is_some_and(|lock| {
            lock.expire(now);
            lock.expire_leases()
        })
    }

    /// Takes the hints of the last command, each with its listener.
    pub(super) fn take_hints(&mut self) -> Vec<(Arc<dyn Listener>, Hint)> {
        self.clients.addressed(std::mem::take(&mut self.hints))
    }

    /// From now on the client's hints go to `listener`.
    pub(super) fn listen(&mut self, client: ClientId, listener: Weak<dyn Listener>) {
        self.clients.listen(client, listener);
    }

    /// Runs a command on a lock, as it is now.
    fn with<T>(
        &mut self,
        key: &LockKey,
        now: Time,
        command: impl FnOnce(&mut LockState, &mut Context<'_>) -> T,
    ) -> T {
        let is_listening = |client| self.clients.is_listening(client);
        let mut context = Context {
            now,
            counters: &mut self.counters,
            is_listening: &is_listening,
            hints: std::mem::take(&mut self.hints),
        };
        if let Some(lock) = self.locks.get_mut(key) {
            lock.expire(now);
            let answer = command(lock, &mut context);
            lock.assert_sound();
            self.hints = context.hints;
            if lock.is_blank() {
                self.locks.remove(key);
            }
            return answer;
        }
        let mut lock = LockState::default();
        let answer = command(&mut lock, &mut context);
        lock.assert_sound();
        self.hints = context.hints;
        if !lock.is_blank() {
            self.sweep(now);
            self.locks.insert(key.clone(), lock);
        }
        answer
    }

    /// Removes expired locks, once there are twice as many as were live the last time. That
    /// is constant work a grant, and needs no thread.
    fn sweep(&mut self, now: Time) {
        if self.locks.len() > self.sweep_above {
            self.locks.retain(|_, lock| {
                lock.expire(now);
                !lock.is_blank()
            });
            self.sweep_above = (self.locks.len() * 2).max(64);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    use super::*;
    use crate::store::{
        AnswerOf, Attempt, Ended, Kind, QueuePosition, Renewal, RequestCommand, RequestId, Waiting,
    };

    const SECOND: Duration = Duration::from_secs(1);

    fn request(client: ClientId, name: &str) -> Request {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        Request {
            key: LockKey::new(name).unwrap(),
            id: RequestId::next(client, &COUNTER),
            kind: Kind::Mutex,
            owner: None,
            note: None,
            ttl: SECOND,
        }
    }

    fn run<T: AnswerOf>(
        table: &mut Table,
        request: &Request,
        command: RequestCommand,
        now: Time,
    ) -> T {
        T::of(table.run(&Command::Request(Cow::Borrowed(request), command), now))
    }

    fn acquire(table: &mut Table, request: &Request, now: Time) -> Attempt {
        run(table, request, RequestCommand::Acquire(None), now)
    }

    fn release(table: &mut Table, request: &Request, now: Time) -> Ended {
        run(table, request, RequestCommand::Release(Duration::ZERO), now)
    }

    #[test]
    fn released_locks_are_removed() {
        let (mut table, mut now) = (Table::default(), Time::since_beginning(SECOND));
        let client = ClientId::random();
        for n in 0..10_000 {
            let request = request(client, &format!("lock:{n}"));
            assert!(matches!(acquire(&mut table, &request, now), Attempt::Granted { .. }));
            assert_eq!(release(&mut table, &request, now), Ended::Released);
            now = now + SECOND;
        }
        assert!(table.locks.len() < 200, "{} locks", table.locks.len());
    }

    #[test]
    fn a_lock_whose_request_is_forgotten_takes_no_room() {
        let (mut table, now) = (Table::default(), Time::since_beginning(SECOND));
        let (first, second) = (request(ClientId::random(), "a"), request(ClientId::random(), "a"));
        let Attempt::Granted { token } = acquire(&mut table, &first, now) else { panic!() };
        assert_eq!(
            run::<Ended>(&mut table, &first, RequestCommand::ReleaseAndForget, now),
            Ended::Released
        );
        assert!(table.locks.is_empty());
        let Attempt::Granted { token: next } = acquire(&mut table, &second, now) else { panic!() };
        assert!(next > token, "{next} after {token}");
    }

    #[test]
    fn abandoned_queues_are_removed() {
        let (mut table, mut now) = (Table::default(), Time::since_beginning(SECOND));
        let client = ClientId::random();
        let waiting =
            Some(Waiting { live: SECOND, position: QueuePosition::New { age: Duration::ZERO } });
        for n in 0..10_000 {
            let name = format!("lock:{n}");
            let _ = acquire(&mut table, &request(client, &name), now);
            let waiting = RequestCommand::Acquire(waiting);
            let waiter: Attempt = run(&mut table, &request(client, &name), waiting, now);
            assert!(matches!(waiter, Attempt::Queued { .. }));
            now = now + SECOND;
        }
        assert!(table.locks.len() < 200, "{} locks", table.locks.len());
    }

    #[test]
    fn a_lock_that_was_never_held_takes_no_room() {
        let (mut table, now) = (Table::default(), Time::since_beginning(SECOND));
        let request = request(ClientId::random(), "a");
        let _: Renewal = run(&mut table, &request, RequestCommand::Renew, now);
        let _ = release(&mut table, &request, now);
        assert!(table.locks.is_empty());
    }
}
