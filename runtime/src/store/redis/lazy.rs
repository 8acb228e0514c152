//! A store that connects in the background. Until then, a command waits for as long as it may
//! take, and then fails as in an outage.

mod connecting;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use self::connecting::Connecting;
use super::diagnosis;
use super::limits::limit;
use crate::core::error::LockError;
use crate::core::key::LockKey;
use crate::core::name_pattern::NamePattern;
use crate::store::{
    Adoption, All, Attempt, ClientId, ClientInfo, Detached, Diagnosis, Ended, Forced, Lingering,
    ListCursor, ListPage, Listener, LockInfo, Owner, Renewal, Renewals, Request, Stamp, Store,
    StoreFuture, Subscription, Success, Usage, Waiting, at_once,
};
use crate::system;

/// A store that connects in the background.
pub struct LazyStore {
    connecting: Arc<Connecting>,
    task: AbortHandle,
}

impl LazyStore {
    /// Connects on `runtime`, and retries until it succeeds. With a longest TTL the store is a
    /// quorum.
    pub(crate) fn start<F>(
        server: String,
        command_timeout: Duration,
        longest_ttl: Option<Duration>,
        runtime: Handle,
        connect: impl Fn() -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Arc<dyn Store>, LockError>> + Send + 'static,
    {
        let connecting = Connecting::new(server, command_timeout, longest_ttl, runtime);
        let task = connecting
            .runtime
            .spawn(connecting::run(connecting.clone(), connect).boxed())
            .abort_handle();
        Self { connecting, task }
    }

    fn limit(&self, request: &Request) -> Duration {
        limit(request.ttl, self.connecting.command_timeout)
    }

    fn ask<T: Send + 'static>(
        &self,
        request: &Request,
        command: impl FnOnce(&dyn Store, &Request) -> StoreFuture<T> + Send + 'static,
    ) -> StoreFuture<T> {
        let (limit, request) = (self.limit(request), request.clone());
        self.connecting.send(Some(limit), move |store| command(store, &request))
    }

    fn look<T: Send + 'static>(
        &self,
        command: impl FnOnce(&dyn Store) -> StoreFuture<T> + Send + 'static,
    ) -> StoreFuture<T> {
        self.connecting.send(Some(self.connecting.command_timeout), command)
    }
}

impl Drop for LazyStore {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for LazyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.connecting.store.get() {
            Some(store) => store.fmt(f),
            None => f
                .debug_struct("LazyStore")
                .field("server", &self.connecting.server)
                .finish_non_exhaustive(),
        }
    }
}

impl Store for LazyStore {
    fn acquire(&self, request: &Request, waiting: Option<Waiting>) -> StoreFuture<Attempt> {
        self.ask(request, move |store, request| store.acquire(request, waiting))
    }

    fn acquire_all(&self, requests: &[Request]) -> Option<StoreFuture<All>> {
        if let Some(store) = self.connecting.store.get() {
            return store.acquire_all(requests);
        }
        let first = requests.first().filter(|_| self.has_queue())?;
        let (limit, requests) = (self.limit(first), requests.to_vec());
        Some(self.connecting.send(Some(limit), move |store| {
            // The caller then asks for one after the other.
            store.acquire_all(&requests).unwrap_or_else(|| at_once(Ok(Err(None))))
        }))
    }

    fn renew(&self, request: &Request) -> StoreFuture<Renewal> {
        self.ask(request, |store, request| store.renew(request))
    }

    fn renew_all(&self, requests: &[Request]) -> Renewals {
        if let Some(store) = self.connecting.store.get() {
            return store.renew_all(requests);
        }
        let renewals: Vec<_> = requests.iter().map(|it| self.renew(it)).collect();
        Box::pin(join_all(renewals))
    }

    fn keep_offer(&self, request: &Request, until: Stamp) -> StoreFuture<()> {
        self.ask(request, move |store, request| store.keep_offer(request, until))
    }

    fn adopt(&self, from: Detached, request: &Request) -> StoreFuture<Adoption> {
        self.ask(request, move |store, request| store.adopt(from, request))
    }

    fn release(&self, request: &Request, keep: Duration) -> StoreFuture<Ended> {
        self.ask(request, move |store, request| store.release(request, keep))
    }

    fn release_and_forget(&self, request: &Request) -> StoreFuture<Ended> {
        self.ask(request, |store, request| store.release_and_forget(request))
    }

    fn complete(&self, request: &Request, success: Success) -> Option<StoreFuture<Ended>> {
        // Without a connection there is no lease to complete.
        self.connecting.store.get()?.complete(request, success)
    }

    fn can_linger(&self, request: &Request) -> bool {
        self.connecting.store.get().is_some_and(|store| store.can_linger(request))
    }

    fn linger(&self, request: &Request, usage: Usage) -> Option<StoreFuture<Lingering>> {
        // Without a connection there is no lease to keep.
        self.connecting.store.get()?.linger(request, usage)
    }

    fn cancel(&self, request: &Request) -> StoreFuture<bool> {
        self.ask(request, |store, request| store.cancel(request))
    }

    fn inspect(&self, key: &LockKey) -> StoreFuture<LockInfo> {
        let key = key.clone();
        self.look(move |store| store.inspect(&key))
    }

    fn list(&self, names: &NamePattern, from: ListCursor) -> Option<StoreFuture<ListPage>> {
        if self.connecting.longest_ttl.is_some() {
            return None;
        }
        let names = names.clone();
        Some(self.look(move |store| {
            let nothing = || at_once(Ok(ListPage::default()));
            store.list(&names, from).unwrap_or_else(nothing)
        }))
    }

    /// Waits a little longer than a command does, so that it can say why there is no connection.
    fn diagnose(&self) -> StoreFuture<Diagnosis> {
        let (limit, server) = (self.connecting.command_timeout * 3, self.connecting.server.clone());
        let looked = self.connecting.send(Some(limit), |store| store.diagnose());
        Box::pin(async move {
            Ok(looked.await.unwrap_or_else(|error| diagnosis::unreachable(&server, &error)))
        })
    }

    fn is_held_by(&self, key: &LockKey, owner: &Owner) -> StoreFuture<bool> {
        let (key, owner) = (key.clone(), owner.clone());
        self.look(move |store| store.is_held_by(&key, &owner))
    }

    fn force_release(&self, key: &LockKey) -> StoreFuture<Forced> {
        let key = key.clone();
        self.look(move |store| store.force_release(&key))
    }

    fn was_forced(&self, request: &Request) -> StoreFuture<bool> {
        self.ask(request, |store, request| store.was_forced(request))
    }

    /// Waits without a limit: no caller waits for the answer.
    fn introduce(&self, client: &ClientInfo, lasts: Duration) -> StoreFuture<()> {
        let client = client.clone();
        self.connecting.send(None, move |store| store.introduce(&client, lasts))
    }

    fn listen(&self, client: ClientId, listener: Weak<dyn Listener>) {
        self.connecting.listen(client, listener);
    }

    fn gives_hints(&self) -> bool {
        self.connecting.store.get().is_some_and(|store| store.gives_hints())
    }

    fn subscribe(&self, request: &Request) -> Option<StoreFuture<Subscription>> {
        if let Some(store) = self.connecting.store.get() {
            return store.subscribe(request);
        }
        let connecting = self.connecting.clone();
        let (limit, request) = (self.limit(request), request.clone());
        // Only once it is polled: a free lock needs no subscription.
        Some(Box::pin(async move {
            let none = || at_once(Ok(Box::new(()) as Subscription));
            let subscribe = move |store: &dyn Store| store.subscribe(&request).unwrap_or_else(none);
            connecting.send(Some(limit), subscribe).await
        }))
    }

    fn has_queue(&self) -> bool {
        self.connecting.longest_ttl.is_none()
    }

    fn longest_ttl(&self) -> Duration {
        self.connecting.longest_ttl.unwrap_or(Duration::MAX)
    }

    fn fails_as_one(&self) -> bool {
        self.connecting.store.get().is_none_or(|store| store.fails_as_one())
    }

    fn answers_within(&self, ttl: Duration) -> Option<Duration> {
        match self.connecting.store.get() {
            Some(store) => store.answers_within(ttl),
            // The wait for the connection, then the longest answer of any store.
            None => Some(limit(ttl, self.connecting.command_timeout) * 5),
        }
    }

    fn now(&self) -> Instant {
        system::now_since_boot()
    }
}
