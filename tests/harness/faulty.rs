//! A store whose commands can be made to fail.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::store::memory::MemoryStore;
use leasehold::store::{
    Adoption, All, Attempt, ClientId, ClientInfo, Ended, Forced, Hint, Listener, LockInfo, Owner,
    Renewal, Renewals, Request, RequestId, Store, StoreError, StoreFuture, Waiting,
};
use leasehold::{LockKey, Locks, Outcome};

/// What happens to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: it is done.
    None,
    /// It never arrives, and nobody knows.
    LoseCommand,
    /// It is done, and its answer never arrives.
    LoseReply,
    /// It is done at once, and after this long it is known that its answer
    /// never arrives.
    LoseReplyAfter(Duration),
    /// The store refuses for now, without doing it.
    Refuse,
    /// The store refuses for good.
    Forbid,
    /// It is done at once, and its answer takes this long.
    Delay(Duration),
    /// It is done at once, and its answer never comes, nor an error.
    Hang,
}

/// Another store, with faults for the commands to come.
#[derive(Debug)]
pub struct Faulty {
    inner: Arc<dyn Store>,
    plan: Mutex<Plan>,
    ears: Mutex<Vec<Arc<Ear>>>,
}

/// What a client hears, and may hear later.
#[derive(Debug)]
struct Ear {
    listener: Weak<dyn Listener>,
    /// Hints that are held back, if they are.
    held: Mutex<Option<Vec<Hint>>>,
}

impl Listener for Ear {
    fn hear(&self, hint: Hint) {
        if let Some(held) = self.held.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            held.push(hint);
        } else if let Some(listener) = self.listener.upgrade() {
            listener.hear(hint);
        }
    }
}

#[derive(Debug, Default)]
struct Plan {
    next: VecDeque<Fault>,
    always: Option<Fault>,
    log: Vec<&'static str>,
}

impl Faulty {
    /// A store in memory without faults, and a client of it.
    #[must_use]
    pub fn start() -> (Arc<Self>, Locks) {
        let store = Arc::new(Self::over(Arc::new(MemoryStore::default())));
        (store.clone(), Locks::over(store))
    }

    /// Faults for another store, of which there are none yet.
    #[must_use]
    pub fn over(inner: Arc<dyn Store>) -> Self {
        Self { inner, plan: Mutex::default(), ears: Mutex::default() }
    }

    /// What happens to the next commands, in order; those after them work.
    pub fn next(&self, faults: &[Fault]) {
        self.plan().next.extend(faults);
    }

    /// What happens to all commands from now on.
    pub fn always(&self, fault: Fault) {
        self.plan().always = (fault != Fault::None).then_some(fault);
    }

    /// Holds all hints back from now on.
    pub fn hold_hints(&self) {
        for ear in &*self.ears() {
            *ear.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
        }
    }

    /// Lets go of the hints that were held back, and holds no more.
    pub fn deliver_hints(&self) {
        for ear in &*self.ears() {
            let held = ear.held.lock().unwrap_or_else(PoisonError::into_inner).take();
            for hint in held.unwrap_or_default() {
                ear.hear(hint);
            }
        }
    }

    fn ears(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Ear>>> {
        self.ears.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The commands that were sent since the last call, by name.
    pub fn log(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.plan().log)
    }

    fn plan(&self) -> std::sync::MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer<T: Send + 'static>(
        &self,
        name: &'static str,
        command: impl FnOnce() -> StoreFuture<T>,
    ) -> StoreFuture<T> {
        let fault = {
            let mut plan = self.plan();
            plan.log.push(name);
            plan.next.pop_front().or(plan.always).unwrap_or(Fault::None)
        };
        let failed = move |outcome, is_passing| StoreError {
            outcome,
            is_passing,
            is_shut_down: false,
            source: format!("{fault:?}").into(),
        };
        match fault {
            Fault::None => command(),
            Fault::LoseCommand => Box::pin(async move { Err(failed(Outcome::Unknown, true)) }),
            Fault::Refuse => Box::pin(async move { Err(failed(Outcome::NotRun, true)) }),
            Fault::Forbid => Box::pin(async move { Err(failed(Outcome::NotRun, false)) }),
            Fault::LoseReply => {
                let done = command();
                Box::pin(async move {
                    done.await?;
                    Err(failed(Outcome::Unknown, true))
                })
            }
            Fault::LoseReplyAfter(time) => {
                drop(command());
                Box::pin(async move {
                    tokio::time::sleep(time).await;
                    Err(failed(Outcome::Unknown, true))
                })
            }
            Fault::Delay(time) => {
                let done = command();
                Box::pin(async move {
                    tokio::time::sleep(time).await;
                    done.await
                })
            }
            Fault::Hang => {
                drop(command());
                Box::pin(pending())
            }
        }
    }
}

impl Store for Faulty {
    fn acquire(&self, request: &Request, waiting: Option<Waiting>) -> StoreFuture<Attempt> {
        self.answer("acquire", || self.inner.acquire(request, waiting))
    }

    fn renew(&self, request: &Request) -> StoreFuture<Renewal> {
        self.answer("renew", || self.inner.renew(request))
    }

    /// Each by itself.
    fn renew_all(&self, requests: &[Request]) -> Renewals {
        let renewals: Vec<_> = requests.iter().map(|request| self.renew(request)).collect();
        Box::pin(join_all(renewals))
    }

    fn adopt(&self, from: RequestId, request: &Request) -> StoreFuture<Adoption> {
        self.answer("adopt", || self.inner.adopt(from, request))
    }

    fn release(&self, request: &Request, keep: Duration) -> StoreFuture<Ended> {
        self.answer("release", || self.inner.release(request, keep))
    }

    fn cancel(&self, request: &Request) -> StoreFuture<bool> {
        self.answer("cancel", || self.inner.cancel(request))
    }

    fn acquire_all(&self, requests: &[Request]) -> Option<StoreFuture<All>> {
        let nothing = || -> StoreFuture<_> { Box::pin(async { Ok(Err(None)) }) };
        let command = || self.inner.acquire_all(requests).unwrap_or_else(nothing);
        Some(self.answer("acquire_all", command))
    }

    fn inspect(&self, key: &LockKey) -> StoreFuture<LockInfo> {
        self.answer("inspect", || self.inner.inspect(key))
    }

    fn is_held_by(&self, key: &LockKey, owner: &Owner) -> StoreFuture<bool> {
        self.answer("is_held_by", || self.inner.is_held_by(key, owner))
    }

    fn force_release(&self, key: &LockKey) -> StoreFuture<Forced> {
        self.answer("force_release", || self.inner.force_release(key))
    }

    fn was_forced(&self, request: &Request) -> StoreFuture<bool> {
        self.answer("was_forced", || self.inner.was_forced(request))
    }

    /// Never fails: it comes before what a test plans.
    fn introduce(&self, client: &ClientInfo, lasts: Duration) -> StoreFuture<()> {
        self.inner.introduce(client, lasts)
    }

    fn listen(&self, client: ClientId, listener: Weak<dyn Listener>) {
        let ear = Arc::new(Ear { listener, held: Mutex::default() });
        let heard: Weak<Ear> = Arc::downgrade(&ear);
        self.inner.listen(client, heard);
        self.ears().push(ear);
    }

    fn gives_hints(&self) -> bool {
        self.inner.gives_hints()
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }
}
