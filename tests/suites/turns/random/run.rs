//! The clients' actions, and the invariants.

use std::collections::{HashMap, HashSet};
use std::mem::take;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use leasehold::store::TOKENS;
use leasehold::{Faults, Lease, LockError, Locks};
use leasehold_tests::polls::drop_after;
use proptest::test_runner::TestCaseError;
use tokio::runtime::Builder;
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance, sleep};

use super::super::{another, settle};
use super::{Ask, Case, LIMIT, LONG, NAMES, Step, What};

/// The longest time for which a forced holder may believe that it holds.
const BELIEVED: Duration = Duration::from_secs(9);

/// After this time abandoned requests are cancelled, and kept locks are free.
const A_WHILE: Duration = Duration::from_secs(2);

type Acquiring = Pin<Box<dyn Future<Output = Result<Lease, LockError>> + Send>>;

/// A lease that has begun.
struct Begun {
    name: &'static str,
    at: Instant,
    token: Option<u64>,
}

type Log = Arc<Mutex<Vec<Begun>>>;

pub(super) struct Run {
    faults: Faults,
    clients: Vec<Locks>,
    tasks: Vec<(Ask, JoinHandle<Result<Lease, LockError>>)>,
    kept: Vec<(Ask, Acquiring)>,
    held: Vec<(Ask, Lease)>,
    /// All leases that began since the last check, in that order.
    begun: Log,
    tokens: HashMap<&'static str, HashSet<u64>>,
    /// Until when former holders may believe that they hold a lock that was forced or expired.
    stale_until: HashMap<&'static str, Instant>,
}

fn ensure(holds: bool, problem: impl FnOnce() -> String) -> Result<(), TestCaseError> {
    if holds { Ok(()) } else { Err(TestCaseError::fail(problem())) }
}

impl Run {
    /// Runs a case to its end. Returns how many leases were handed off without the store.
    pub(super) fn of(case: Case) -> Result<usize, TestCaseError> {
        fastrand::seed(case.seed);
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let (first, faults) = Locks::in_memory_with_faults();
            let others = (1..case.clients).map(|_| another(faults.store()));
            let mut run = Self {
                clients: std::iter::once(first).chain(others).collect(),
                faults,
                tasks: Vec::new(),
                kept: Vec::new(),
                held: Vec::new(),
                begun: Log::default(),
                tokens: HashMap::new(),
                stale_until: HashMap::new(),
            };
            for step in case.steps {
                run.step(step).await?;
                settle().await;
                run.check().await?;
            }
            run.end().await?;
            let tokens = run.tokens.values().flatten();
            Ok(tokens.filter(|token| !token.is_multiple_of(TOKENS)).count())
        })
    }

    async fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Ask(client, ask) => self.ask(client.index(3), ask).await?,
            Step::Crowd(client, ask, count) => {
                for n in 0..count {
                    let is_kept = ask.is_kept && n % 3 == 1;
                    self.ask(client.index(3), Ask { is_kept, ..ask.clone() }).await?;
                    settle().await;
                }
            }
            Step::Poll(which) if !self.kept.is_empty() => {
                let (ask, future) = self.kept.remove(which.index(self.kept.len()));
                self.poll(ask, future).await?;
            }
            Step::Abort(which) if !self.tasks.is_empty() || !self.kept.is_empty() => {
                let at = which.index(self.tasks.len() + self.kept.len());
                if at < self.tasks.len() {
                    self.tasks.remove(at).1.abort();
                } else {
                    drop(self.kept.remove(at - self.tasks.len()));
                }
            }
            Step::Release(which) if !self.held.is_empty() => {
                let (_, lease) = self.held.remove(which.index(self.held.len()));
                tokio::spawn(lease.release());
            }
            Step::Drop(which) if !self.held.is_empty() => {
                drop(self.held.remove(which.index(self.held.len())));
            }
            Step::Churn(name, times, each) => {
                for time in 0..times {
                    self.collect()?;
                    let of_it = |(ask, _): &(Ask, Lease)| ask.what.name() == name;
                    if let Some(at) = self.held.iter().position(of_it) {
                        let (_, lease) = self.held.remove(at);
                        if time % 2 == 0 {
                            tokio::spawn(lease.release());
                        }
                    }
                    settle().await;
                    sleep(each).await;
                    self.check().await?;
                }
            }
            Step::Sleep(time) => sleep(time).await,
            Step::Stall(time) => advance(time).await,
            Step::Force(name) => {
                let _ = self.clients[0].force_release(name).await;
                self.stale_until.insert(name, Instant::now() + BELIEVED);
            }
            Step::Expire(name) => {
                if self.faults.expire(name) {
                    self.stale_until.insert(name, Instant::now() + BELIEVED);
                }
            }
            Step::Fail(command, fault) => self.faults.on(command).next(fault),
            Step::HoldHints => self.faults.store().hold_hints(),
            Step::DeliverHints => self.faults.store().deliver_hints(),
            // There is none.
            Step::Poll(_) | Step::Abort(_) | Step::Release(_) | Step::Drop(_) => {}
        }
        Ok(())
    }

    async fn ask(&mut self, client: usize, ask: Ask) -> Result<(), TestCaseError> {
        let locks = &self.clients[client % self.clients.len()];
        let future = acquiring(locks, &ask, self.begun.clone());
        if ask.is_kept {
            return self.poll(ask, future).await;
        }
        self.tasks.push((ask, tokio::spawn(future)));
        Ok(())
    }

    /// Polls a kept future. It stays kept if it is still pending.
    async fn poll(&mut self, ask: Ask, mut future: Acquiring) -> Result<(), TestCaseError> {
        match drop_after(1, &mut future).await {
            Some(got) => self.got(ask, got)?,
            None => self.kept.push((ask, future)),
        }
        Ok(())
    }

    fn got(&mut self, ask: Ask, got: Result<Lease, LockError>) -> Result<(), TestCaseError> {
        match got {
            Ok(lease) => self.held.push((ask, lease)),
            Err(error) => ensure(ask.wait < LONG, || format!("{ask:?} has failed: {error}"))?,
        }
        Ok(())
    }

    /// Takes the leases of tasks that are done.
    fn collect(&mut self) -> Result<(), TestCaseError> {
        for (ask, task) in take(&mut self.tasks) {
            if task.is_finished() {
                let got = task.now_or_never().expect("it is done");
                self.got(ask, got.map_err(|error| TestCaseError::fail(error.to_string()))?)?;
            } else {
                self.tasks.push((ask, task));
            }
        }
        Ok(())
    }

    fn may_have_stale_holder(&self, name: &str, at: Instant) -> bool {
        self.stale_until.get(name).is_some_and(|until| at < *until)
    }

    async fn check(&mut self) -> Result<(), TestCaseError> {
        self.collect()?;
        for Begun { name, at, token } in take(&mut *self.begun.lock().unwrap()) {
            let Some(token) = token else { continue };
            let may_be_stale = self.may_have_stale_holder(name, at);
            let before = self.tokens.entry(name).or_default();
            let grows = may_be_stale || before.iter().all(|before| *before < token);
            ensure(before.insert(token) && grows, || {
                format!("{name} has {token} after {before:?}")
            })?;
        }
        self.held.retain(|(_, lease)| lease.is_held());
        for name in NAMES {
            if self.may_have_stale_holder(name, Instant::now()) {
                continue;
            }
            let info = self.clients[0].inspect(name).await.unwrap();
            let (mut weight, mut limit) = (0, LIMIT);
            for (ask, lease) in self.held.iter().filter(|(ask, _)| ask.what.name() == name) {
                match ask.what {
                    What::Mutex(_) => (weight, limit) = (weight + 1, 1),
                    What::Permits(more) => weight += more,
                }
                let Ok(token) = lease.fence() else { continue };
                let first = info.holders.first().and_then(|holder| holder.fence);
                // A lease that lingers has more blocks, and the store knows the last.
                let end = first.map(|first| first.get() + TOKENS);
                let is_in_it = end.is_some_and(|end| token.get() < end);
                ensure(is_in_it, || format!("{token:?} of {name}, reserved up to {end:?}"))?;
            }
            let stored: u32 = info.holders.iter().map(|holder| holder.weight).sum();
            ensure(weight <= limit && weight <= stored, || {
                format!("{weight} of {name} are held, and {stored} as the store knows")
            })?;
        }
        Ok(())
    }

    /// All holders and all waiters finish.
    async fn end(&mut self) -> Result<(), TestCaseError> {
        self.faults.heal();
        self.faults.store().deliver_hints();
        self.kept.clear();
        // Some released locks are kept for a while.
        let latest = Instant::now() + BELIEVED + A_WHILE * u32::try_from(self.tasks.len()).unwrap();
        loop {
            self.check().await?;
            for (_, lease) in take(&mut self.held) {
                tokio::spawn(lease.release());
            }
            settle().await;
            if self.tasks.is_empty() && self.held.is_empty() {
                break;
            }
            ensure(Instant::now() < latest, || format!("{:?} wait for ever", self.tasks))?;
            sleep(Duration::from_millis(10)).await;
        }
        sleep(A_WHILE).await;
        let last = another(self.faults.store());
        for name in NAMES {
            let info = last.inspect(name).await.unwrap();
            ensure(info.held == 0 && info.waiting == 0, || format!("{name} is left: {info:?}"))?;
            let lease = if name == What::Permits(1).name() {
                last.semaphore(name, LIMIT).try_acquire_many(LIMIT).await
            } else {
                last.mutex(name).try_lock().await
            };
            ensure(lease.is_ok(), || format!("{name} is not to be had: {lease:?}"))?;
        }
        Ok(())
    }
}

fn acquiring(locks: &Locks, ask: &Ask, log: Log) -> Acquiring {
    let ask = ask.clone();
    let begins = move |lease: &Lease| {
        let token = lease.fence().ok().map(leasehold::Fence::get);
        log.lock().unwrap().push(Begun { name: ask.what.name(), at: Instant::now(), token });
    };
    let (ttl, wait, renew, most) = (ask.ttl, ask.wait, ask.renew, ask.max_hold);
    match ask.what {
        What::Mutex(name) => {
            let mutex = locks.mutex(name).ttl(ttl).wait(wait).auto_renew(renew).max_hold(most);
            let mutex = mutex.hold_at_least(ask.hold_at_least).linger(ask.linger);
            Box::pin(async move { mutex.lock().await.inspect(begins) })
        }
        What::Permits(weight) => {
            let permits = locks.semaphore(ask.what.name(), LIMIT).ttl(ttl).wait(wait);
            let permits = permits.auto_renew(renew).max_hold(most).linger(ask.linger);
            Box::pin(async move { permits.acquire_many(weight).await.inspect(begins) })
        }
    }
}
