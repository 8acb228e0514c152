//! One a client: renews its leases, and finishes in the background what its
//! callers left unfinished.
//!
//! Over Redis it runs on a thread of its own, which also drives all
//! connections: renewals go on while the caller's runtime is blocked, and
//! releases are sent when that is gone. In memory it runs on the caller's
//! runtime, by whose clock the leases live.

mod book;
mod jobs;
#[cfg(feature = "redis")]
mod thread;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::task::JoinSet;

use self::book::{Book, Shared};
use self::jobs::Job;
#[cfg(feature = "redis")]
pub(crate) use self::thread::Thread;
use crate::store::{Attempt, Request, Store, StoreFuture};
use crate::term::Term;

/// A handle to the keeper; a clone is the same one.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    /// Whether it lives on the runtime of whoever calls.
    is_guest: bool,
}

impl Keeper {
    /// A keeper that runs on its callers' runtime, while there is work.
    pub(crate) fn as_guest(store: Arc<dyn Store>) -> Self {
        Self { shared: Arc::new(Shared::new(store)), is_guest: true }
    }

    /// A keeper that runs on a thread of its own.
    #[cfg(feature = "redis")]
    pub(crate) fn on(
        thread: Thread,
        store: Arc<dyn Store>,
        info: crate::store::ClientInfo,
    ) -> Self {
        let shared = Arc::new(Shared::new(store));
        thread.keep(shared.clone(), info);
        Self { shared, is_guest: false }
    }

    /// Renews a lease from now on.
    pub(crate) fn watch(&self, term: &Arc<Term>, granted: Instant) {
        self.shared.schedule(term, granted + term.request.ttl / 3);
        self.wake_guest();
    }

    /// Renews a lease no more.
    pub(crate) fn forget(&self, term: &Term) {
        self.shared.unschedule(term);
    }

    /// Releases a lease in the background; until `keep_until` its lock stays
    /// held without a holder.
    pub(crate) fn release_later(&self, term: &Term, keep_until: Option<Instant>) {
        let store = self.shared.store.clone();
        self.finish(jobs::release(store, term.request.clone(), keep_until));
    }

    /// Takes an acquisition back in the background, once its command that is
    /// still under way was answered.
    pub(crate) fn cancel_later(&self, request: Request, in_flight: Option<StoreFuture<Attempt>>) {
        self.finish(jobs::cancel(self.shared.store.clone(), request, in_flight));
    }

    fn finish(&self, mut job: Job) {
        if self.is_guest {
            // What is done in one step needs no runtime, which may be gone.
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(()) = job.as_mut().poll(&mut context) {
                return;
            }
        } else {
            #[cfg(feature = "redis")]
            thread::drain_at_exit(&self.shared);
        }
        self.shared.push(job);
        self.wake_guest();
    }

    /// No more work comes; what there is, is finished.
    pub(crate) fn end(&self) {
        self.shared.end();
        self.wake_guest();
    }

    fn wake_guest(&self) {
        if !self.is_guest {
            return;
        }
        if let Ok(runtime) = Handle::try_current()
            && let Some(at_work) = book::AtWork::begin(&self.shared)
        {
            runtime.spawn(async move { work(&at_work, Book::is_idle).await });
        }
    }
}

/// Does what is due, until `is_done`.
async fn work(shared: &Arc<Shared>, is_done: impl Fn(&Book) -> bool) {
    let mut tasks = JoinSet::new();
    loop {
        let next = {
            let mut book = shared.book();
            for term in book.due(shared.store.now()) {
                tasks.spawn(jobs::renew(shared.clone(), term));
            }
            for job in book.take_jobs() {
                let done = book::Done(shared.clone());
                tasks.spawn(async move {
                    let _done = done;
                    job.await;
                });
            }
            if tasks.is_empty() && is_done(&book) {
                book.leave();
                return;
            }
            book.next()
        };
        let timer = async {
            match next {
                Some(next) => tokio::time::sleep_until(next.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shared.changed.notified() => {}
            () = timer => {}
            Some(_) = tasks.join_next() => {}
        }
    }
}
