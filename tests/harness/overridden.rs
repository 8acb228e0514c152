//! A store whose commands a test looks at, changes or answers.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use leasehold::store::{
    Answer, ClientId, Command, Listener, Request, Store, StoreFuture, Subscription, renew_each,
};

/// Another store, except for what becomes of its commands. Renewals are sent one by one.
pub struct Overridden<F> {
    inner: Arc<dyn Store>,
    send: F,
}

impl<F: Fn(&dyn Store, Command<'_>) -> StoreFuture<Answer>> Overridden<F> {
    /// Another store; the function gets it with each command.
    pub fn new(inner: Arc<dyn Store>, send: F) -> Arc<Self> {
        Arc::new(Self { inner, send })
    }
}

impl<F> fmt::Debug for Overridden<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<F> Store for Overridden<F>
where
    F: Fn(&dyn Store, Command<'_>) -> StoreFuture<Answer> + Send + Sync + 'static,
{
    fn send(&self, command: Command<'_>) -> StoreFuture<Answer> {
        match command {
            Command::RenewAll(requests) => renew_each(self, &requests),
            _ => (self.send)(&*self.inner, command),
        }
    }

    fn can(&self, command: &Command<'_>) -> bool {
        self.inner.can(command)
    }

    fn listen(&self, client: ClientId, listener: Weak<dyn Listener>) {
        self.inner.listen(client, listener);
    }

    fn gives_hints(&self) -> bool {
        self.inner.gives_hints()
    }

    fn subscribe(&self, request: &Request) -> Option<StoreFuture<Subscription>> {
        self.inner.subscribe(request)
    }

    fn has_queue(&self) -> bool {
        self.inner.has_queue()
    }

    fn longest_ttl(&self) -> Duration {
        self.inner.longest_ttl()
    }

    fn fails_as_one(&self) -> bool {
        self.inner.fails_as_one()
    }

    fn answers_within(&self, ttl: Duration) -> Option<Duration> {
        self.inner.answers_within(ttl)
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }
}
