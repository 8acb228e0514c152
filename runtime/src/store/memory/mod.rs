//! The store of one process: for users' tests, for examples, and for services
//! that run alone.

mod lock;
mod mutex;
mod permits;
mod queue;
mod semaphore;
mod table;

use std::collections::HashMap;
use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use self::table::Table;
use super::{
    Attempt, ClientId, ClientInfo, Ended, Forced, Hint, Listener, LockInfo, Owner, Renewal,
    Request, Store, StoreFuture, Waiting,
};
use crate::LockKey;

/// Keeps leases in memory. Each store is a world of its own.
///
/// Its clock is tokio's: where a test pauses that, leases live by the paused
/// clock. A command is done, and its hints are told, when its future is made.
#[derive(Debug, Default)]
pub struct MemoryStore {
    table: Mutex<Table>,
    listeners: Mutex<HashMap<ClientId, Weak<dyn Listener>>>,
}

impl MemoryStore {
    /// Runs a command, and then tells the waiters what they were offered.
    fn run<T: Send + 'static>(
        &self,
        command: impl FnOnce(&mut Table, Instant) -> T,
    ) -> StoreFuture<T> {
        let (answer, hints) = {
            let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
            // Read in here, so that time does not go back from one command to
            // the next.
            (command(&mut table, self.now()), table.take_hints())
        };
        for (id, hint) in hints {
            self.tell(id, hint);
        }
        Box::pin(ready(Ok(answer)))
    }

    /// With no lock of ours held: a listener may ask at once, and the last of a
    /// client's parts may go with it.
    fn tell(&self, client: ClientId, hint: Hint) {
        let listener = self.listeners().get(&client).and_then(Weak::upgrade);
        if let Some(listener) = listener {
            listener.hear(hint);
        }
    }

    fn listeners(&self) -> MutexGuard<'_, HashMap<ClientId, Weak<dyn Listener>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn acquire(&self, request: &Request, waiting: Option<Waiting>) -> StoreFuture<Attempt> {
        self.run(|table, now| table.acquire(request, waiting, now))
    }

    fn renew(&self, request: &Request) -> StoreFuture<Renewal> {
        self.run(|table, now| table.renew(request, now))
    }

    fn release(&self, request: &Request, keep: Duration) -> StoreFuture<Ended> {
        self.run(|table, now| table.release(request, keep, now))
    }

    fn cancel(&self, request: &Request) -> StoreFuture<bool> {
        self.run(|table, now| table.cancel(request, now))
    }

    fn acquire_all(&self, _: &[Request]) -> Option<StoreFuture<Option<Vec<u64>>>> {
        todo!()
    }

    fn inspect(&self, _: &LockKey) -> StoreFuture<LockInfo> {
        todo!()
    }

    fn is_held_by(&self, _: &LockKey, _: &Owner) -> StoreFuture<bool> {
        todo!()
    }

    fn force_release(&self, _: &LockKey) -> StoreFuture<Forced> {
        todo!()
    }

    fn was_forced(&self, _: &Request) -> StoreFuture<bool> {
        todo!()
    }

    fn introduce(&self, _: &ClientInfo, _: Duration) -> StoreFuture<()> {
        // Nobody else can ask who holds a lock in here.
        Box::pin(ready(Ok(())))
    }

    fn listen(&self, client: ClientId, listener: Weak<dyn Listener>) {
        let mut listeners = self.listeners();
        listeners.retain(|_, listener| listener.strong_count() > 0);
        listeners.insert(client, listener);
    }

    fn gives_hints(&self) -> bool {
        true
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}
