//! A store that connects in the background. Before that a command waits as long as it may
//! take, and then fails as in an outage.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::command::{limit, limit_of};
use super::connection::Pauses;
use super::{clock, errors, lock};
use crate::core::error::{LockError, Outcome};
use crate::core::key::LockKey;
use crate::core::no_majority::NoMajority;
use crate::store::{
    Adoption, All, Attempt, ClientId, ClientInfo, Ended, Forced, Listener, LockInfo, Owner,
    Renewal, Renewals, Request, RequestId, Stamp, Store, StoreError, StoreFuture, Subscription,
    Waiting, at_once,
};

/// The longest pause between two tries.
const SOON: Duration = Duration::from_millis(500);

/// A store that will be there.
pub struct Lazy {
    shared: Arc<Shared>,
    connecting: AbortHandle,
}

struct Shared {
    /// Hosts and ports, without credentials.
    server: String,
    runtime: Handle,
    /// The most that a command waits.
    command_timeout: Duration,
    /// Of a quorum.
    longest_ttl: Option<Duration>,
    store: OnceLock<Arc<dyn Store>>,
    listener: Mutex<Option<(ClientId, Weak<dyn Listener>)>>,
    /// What the last try met; it changes with each.
    failure: watch::Sender<Option<Failure>>,
    /// A command waits.
    wanted: Notify,
}

/// What a try to connect met.
#[derive(Clone, Debug)]
struct Failure {
    is_passing: bool,
    text: String,
    answers: Option<NoMajority>,
}

impl Failure {
    fn of(error: LockError) -> Self {
        match error {
            LockError::Quorum { cause, .. } => {
                Self { is_passing: true, text: cause.to_string(), answers: Some(*cause) }
            }
            LockError::Store { cause, .. } => {
                let error = StoreError { source: cause, ..errors::not_yet("") };
                let error = errors::of(&error).cloned().map_or(error, errors::not_run);
                let text = error.source.to_string();
                Self { is_passing: error.is_passing, text, answers: None }
            }
            error => Self { is_passing: false, text: error.to_string(), answers: None },
        }
    }

    fn into_error(self) -> StoreError {
        let Self { is_passing, text, answers } = self;
        StoreError {
            outcome: Outcome::NotRun,
            is_passing,
            is_shut_down: false,
            source: answers.map_or_else(|| text.into(), |answers| Box::new(answers) as _),
        }
    }
}

impl Lazy {
    /// Connects on `runtime`, again and again until it succeeds. With a longest TTL it is
    /// a quorum.
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
        let shared = Arc::new(Shared {
            server,
            runtime,
            command_timeout,
            longest_ttl,
            store: OnceLock::new(),
            listener: Mutex::default(),
            failure: watch::Sender::default(),
            wanted: Notify::new(),
        });
        let connecting = shared.runtime.spawn(run(shared.clone(), connect)).abort_handle();
        Self { shared, connecting }
    }

    fn limit(&self, request: &Request) -> Duration {
        limit(request, self.shared.command_timeout)
    }

    fn ask<T: Send + 'static>(
        &self,
        request: &Request,
        command: impl FnOnce(&dyn Store, &Request) -> StoreFuture<T> + Send + 'static,
    ) -> StoreFuture<T> {
        let (limit, request) = (self.limit(request), request.clone());
        self.shared.send(Some(limit), move |store| command(store, &request))
    }

    fn look<T: Send + 'static>(
        &self,
        command: impl FnOnce(&dyn Store) -> StoreFuture<T> + Send + 'static,
    ) -> StoreFuture<T> {
        self.shared.send(Some(self.shared.command_timeout), command)
    }
}

impl Shared {
    /// Sends a command to the store, once it is there; it goes on if the future is dropped.
    fn send<T: Send + 'static>(
        self: &Arc<Self>,
        limit: Option<Duration>,
        command: impl FnOnce(&dyn Store) -> StoreFuture<T> + Send + 'static,
    ) -> StoreFuture<T> {
        if let Some(store) = self.store.get() {
            return command(&**store);
        }
        let shared = self.clone();
        let running = self.runtime.spawn(async move {
            let answer = command(&*shared.connected(limit).await?);
            answer.await
        });
        Box::pin(async move { running.await.unwrap_or_else(|_| Err(errors::shutdown())) })
    }

    /// The store, once it is there. What will last is told at once.
    async fn connected(&self, limit: Option<Duration>) -> Result<Arc<dyn Store>, StoreError> {
        let mut failure = self.failure.subscribe();
        self.wanted.notify_one();
        let connected = async {
            loop {
                if let Some(store) = self.store.get() {
                    return Some(store.clone());
                }
                // The sender is our own.
                let _ = failure.changed().await;
                let is_lasting = failure.borrow().as_ref().is_some_and(|it| !it.is_passing);
                if is_lasting && limit.is_some() {
                    return None;
                }
            }
        };
        let store = match limit {
            Some(limit) => timeout(limit, connected).await.ok().flatten(),
            None => connected.await,
        };
        store.ok_or_else(|| match &*self.failure.borrow() {
            Some(failure) => failure.clone().into_error(),
            None => errors::not_yet("it is not connected to yet"),
        })
    }

    fn have(&self, store: Arc<dyn Store>) {
        let listener = lock(&self.listener);
        if let Some((client, listener)) = &*listener {
            store.listen(*client, listener.clone());
        }
        let _ = self.store.set(store); // there was none
        drop(listener);
        self.failure.send_replace(None);
    }
}

/// Connects.
async fn run<F>(shared: Arc<Shared>, connect: impl Fn() -> F)
where
    F: Future<Output = Result<Arc<dyn Store>, LockError>>,
{
    let (mut pauses, mut told) = (Pauses::default(), None);
    loop {
        let failure = match connect().await {
            Ok(store) => {
                shared.have(store);
                tracing::info!(server = %shared.server, "connected to the lock store");
                return;
            }
            Err(error) => Failure::of(error),
        };
        // Once, and again if what passes has become what will last.
        if told.replace(failure.is_passing) != Some(failure.is_passing) {
            let (server, error) = (&shared.server, &failure.text);
            tracing::warn!(%server, %error, "not connected to the lock store yet; trying until it is there");
        }
        shared.failure.send_replace(Some(failure));
        let pause = pauses.next();
        let wanted = async {
            sleep(pause.min(SOON.mul_f64(0.5 + 0.5 * fastrand::f64()))).await;
            shared.wanted.notified().await;
        };
        tokio::select! { () = sleep(pause) => {}, () = wanted => {} }
    }
}

impl Drop for Lazy {
    fn drop(&mut self) {
        self.connecting.abort();
    }
}

impl fmt::Debug for Lazy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shared.store.get() {
            Some(store) => store.fmt(f),
            None => {
                f.debug_struct("Lazy").field("server", &self.shared.server).finish_non_exhaustive()
            }
        }
    }
}

impl Store for Lazy {
    fn acquire(&self, request: &Request, waiting: Option<Waiting>) -> StoreFuture<Attempt> {
        self.ask(request, move |store, request| store.acquire(request, waiting))
    }

    fn acquire_all(&self, requests: &[Request]) -> Option<StoreFuture<All>> {
        if let Some(store) = self.shared.store.get() {
            return store.acquire_all(requests);
        }
        let first = requests.first().filter(|_| self.has_queue())?;
        let (limit, requests) = (self.limit(first), requests.to_vec());
        Some(self.shared.send(Some(limit), move |store| {
            // They are asked for one by one then.
            store.acquire_all(&requests).unwrap_or_else(|| at_once(Ok(Err(None))))
        }))
    }

    fn renew(&self, request: &Request) -> StoreFuture<Renewal> {
        self.ask(request, |store, request| store.renew(request))
    }

    fn renew_all(&self, requests: &[Request]) -> Renewals {
        if let Some(store) = self.shared.store.get() {
            return store.renew_all(requests);
        }
        let renewals: Vec<_> = requests.iter().map(|it| self.renew(it)).collect();
        Box::pin(join_all(renewals))
    }

    fn keep_offer(&self, request: &Request, until: Stamp) -> StoreFuture<()> {
        self.ask(request, move |store, request| store.keep_offer(request, until))
    }

    fn adopt(&self, from: RequestId, request: &Request) -> StoreFuture<Adoption> {
        self.ask(request, move |store, request| store.adopt(from, request))
    }

    fn release(&self, request: &Request, keep: Duration) -> StoreFuture<Ended> {
        self.ask(request, move |store, request| store.release(request, keep))
    }

    fn cancel(&self, request: &Request) -> StoreFuture<bool> {
        self.ask(request, |store, request| store.cancel(request))
    }

    fn inspect(&self, key: &LockKey) -> StoreFuture<LockInfo> {
        let key = key.clone();
        self.look(move |store| store.inspect(&key))
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

    /// It waits for as long as it takes: nobody else does for this.
    fn introduce(&self, client: &ClientInfo, lasts: Duration) -> StoreFuture<()> {
        let client = client.clone();
        self.shared.send(None, move |store| store.introduce(&client, lasts))
    }

    fn listen(&self, client: ClientId, listener: Weak<dyn Listener>) {
        let mut before = lock(&self.shared.listener);
        match self.shared.store.get() {
            Some(store) => store.listen(client, listener),
            None => *before = Some((client, listener)),
        }
    }

    fn gives_hints(&self) -> bool {
        self.shared.store.get().is_some_and(|store| store.gives_hints())
    }

    fn subscribe(&self, request: &Request) -> Option<StoreFuture<Subscription>> {
        if let Some(store) = self.shared.store.get() {
            return store.subscribe(request);
        }
        let (shared, limit, request) = (self.shared.clone(), self.limit(request), request.clone());
        // Only when it is polled: a lock that is free costs no subscription.
        Some(Box::pin(async move {
            let none = || at_once(Ok(Box::new(()) as Subscription));
            let subscribe = move |store: &dyn Store| store.subscribe(&request).unwrap_or_else(none);
            shared.send(Some(limit), subscribe).await
        }))
    }

    fn has_queue(&self) -> bool {
        self.shared.longest_ttl.is_none()
    }

    fn longest_ttl(&self) -> Duration {
        self.shared.longest_ttl.unwrap_or(Duration::MAX)
    }

    fn answers_within(&self, ttl: Duration) -> Option<Duration> {
        match self.shared.store.get() {
            Some(store) => store.answers_within(ttl),
            None => Some(limit_of(ttl, self.shared.command_timeout) * 5),
        }
    }

    fn now(&self) -> Instant {
        clock::now()
    }
}
