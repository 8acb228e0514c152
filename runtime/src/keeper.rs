//! One a client: renews its leases, and finishes in the background what its
//! callers left unfinished.
//!
//! Over Redis it runs on a thread of its own, which also drives all
//! connections: renewals go on while the caller's runtime is blocked, and
//! releases are sent when that is gone. In memory each lease is renewed by a
//! task on the runtime it was acquired on, by whose clock it lives.

#[cfg(feature = "redis")]
mod book;
mod jobs;
#[cfg(feature = "redis")]
mod thread;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::runtime::Handle;

use self::jobs::Job;
pub(crate) use self::jobs::why;
#[cfg(feature = "redis")]
pub(crate) use self::thread::Thread;
use crate::store::{Request, Store, StoreFuture};
use crate::term::Term;

/// A handle to the keeper; a clone is the same one.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    store: Arc<dyn Store>,
    place: Place,
}

/// Where a keeper works.
#[derive(Clone, Debug)]
enum Place {
    /// On the runtime of whoever calls.
    Guest,
    /// On a thread of its own.
    #[cfg(feature = "redis")]
    Thread(Arc<book::Shared>),
}

impl Keeper {
    /// A keeper that works on its callers' runtimes.
    pub(crate) fn as_guest(store: Arc<dyn Store>) -> Self {
        Self { store, place: Place::Guest }
    }

    /// A keeper that works on a thread of its own.
    #[cfg(feature = "redis")]
    pub(crate) fn on(
        thread: Thread,
        store: Arc<dyn Store>,
        info: crate::store::ClientInfo,
    ) -> Self {
        let shared = Arc::new(book::Shared::new(store.clone()));
        thread.keep(shared.clone(), info);
        thread::drain_at_exit(&shared);
        Self { store, place: Place::Thread(shared) }
    }

    /// Renews a lease from now on, for the first time then.
    pub(crate) fn watch(&self, term: &Arc<Term>, first: Instant) {
        match &self.place {
            Place::Guest => {
                if let Ok(runtime) = Handle::try_current() {
                    runtime.spawn(jobs::renew_until_over(self.store.clone(), term.clone(), first));
                }
            }
            #[cfg(feature = "redis")]
            Place::Thread(shared) => {
                shared.schedule(term, first);
                thread::drain_at_exit(shared);
            }
        }
    }

    /// Renews a lease no more, since its term is over.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables, reason = "a guest's task sees it"))]
    pub(crate) fn forget(&self, term: &Term) {
        match &self.place {
            // Its task has seen it.
            Place::Guest => {}
            #[cfg(feature = "redis")]
            Place::Thread(shared) => shared.unschedule(term),
        }
    }

    /// Releases a lease in the background; until `keep_until` its lock stays
    /// held without a holder.
    pub(crate) fn release_later(&self, term: &Term, keep_until: Option<Instant>) {
        self.finish(jobs::release(self.store.clone(), term.request.clone(), keep_until));
    }

    /// Takes acquisitions back in the background, once their command that is still
    /// under way was answered.
    pub(crate) fn cancel_later<T: Send + 'static>(
        &self,
        requests: Vec<Request>,
        in_flight: Option<StoreFuture<T>>,
    ) {
        self.finish(jobs::cancel(self.store.clone(), requests, in_flight));
    }

    fn finish(&self, mut job: Job) {
        match &self.place {
            Place::Guest => {
                // What is done in one step needs no runtime, which may be gone.
                let mut context = Context::from_waker(Waker::noop());
                if let Poll::Pending = job.as_mut().poll(&mut context)
                    && let Ok(runtime) = Handle::try_current()
                {
                    runtime.spawn(job);
                }
            }
            #[cfg(feature = "redis")]
            Place::Thread(shared) => {
                shared.push(job);
                thread::drain_at_exit(shared);
            }
        }
    }

    /// No more work comes; what there is, is finished.
    pub(crate) fn end(&self) {
        match &self.place {
            Place::Guest => {}
            #[cfg(feature = "redis")]
            Place::Thread(shared) => shared.end(),
        }
    }
}
