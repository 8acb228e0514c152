//! The store of one process: for users' tests, for examples, and for services
//! that run alone.

mod table;

use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use self::table::Table;
use super::{
    Attempt, ClientId, ClientInfo, Ended, Listener, Renewal, Request, Store, StoreFuture, Waiting,
};

/// Keeps leases in memory. Each store is a world of its own.
///
/// Its clock is tokio's: where a test pauses that, leases live by the paused
/// clock. A command is done when its future is made.
#[derive(Debug, Default)]
pub struct MemoryStore {
    table: Mutex<Table>,
}

impl MemoryStore {
    fn table(&self) -> MutexGuard<'_, Table> {
        // Each command leaves the table whole, even if a later one panicked.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer<T: Send + 'static>(answer: T) -> StoreFuture<T> {
    Box::pin(ready(Ok(answer)))
}

impl Store for MemoryStore {
    fn acquire(&self, request: &Request, _: Option<Waiting>) -> StoreFuture<Attempt> {
        answer(self.table().acquire(request, self.now()))
    }

    fn renew(&self, request: &Request) -> StoreFuture<Renewal> {
        answer(self.table().renew(request, self.now()))
    }

    fn release(&self, request: &Request, keep: Duration) -> StoreFuture<Ended> {
        answer(self.table().release(request, keep, self.now()))
    }

    fn cancel(&self, request: &Request) -> StoreFuture<bool> {
        answer(self.table().cancel(request, self.now()))
    }

    fn introduce(&self, _: &ClientInfo, _: Duration) -> StoreFuture<()> {
        // Nobody else can ask who holds a lock in here.
        answer(())
    }

    fn listen(&self, _: ClientId, _: Weak<dyn Listener>) {}

    fn gives_hints(&self) -> bool {
        false
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}
