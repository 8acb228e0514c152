//! The attempts to connect, and the commands that wait for them.

use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use redis::RedisError;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::core::error::{LockError, Outcome};
use crate::core::no_majority::NoMajority;
use crate::core::sync::lock;
use crate::store::redis::backoff::Backoff;
use crate::store::redis::errors;
use crate::store::{ClientId, Listener, Store, StoreError, StoreFuture};
use crate::system;

/// The longest pause between two attempts while a command waits.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The store, or the attempts to connect to it.
pub(super) struct Connecting {
    /// Hosts and ports, without credentials.
    pub(super) server: String,
    pub(super) runtime: Handle,
    /// The most time that a command may take.
    pub(super) command_timeout: Duration,
    /// Only a quorum has one.
    pub(super) longest_ttl: Option<Duration>,
    pub(super) store: OnceLock<Arc<dyn Store>>,
    listener: Mutex<Option<(ClientId, Weak<dyn Listener>)>>,
    /// The error of the last attempt; it changes with each.
    failure: watch::Sender<Option<Failure>>,
    /// Notified when a command waits for the store.
    command_waits: Notify,
}

/// The error of an attempt to connect.
#[derive(Clone, Debug)]
struct Failure {
    is_passing: bool,
    text: String,
    answers: Option<NoMajority>,
    /// The error of the server or the driver, if it is one.
    error: Option<RedisError>,
}

impl Failure {
    fn of(error: LockError) -> Self {
        match error {
            LockError::Quorum { cause, .. } => Self {
                is_passing: true,
                text: cause.to_string(),
                answers: Some(*cause),
                error: None,
            },
            LockError::Store { cause, .. } => {
                let error = StoreError { source: cause, ..errors::not_sent("") };
                let own = errors::redis_error(&error).cloned();
                let error = own.clone().map_or(error, errors::not_run);
                let text = error.source.to_string();
                Self { is_passing: error.is_passing, text, answers: None, error: own }
            }
            error => {
                Self { is_passing: false, text: error.to_string(), answers: None, error: None }
            }
        }
    }

    fn into_error(self) -> StoreError {
        let Self { is_passing, text, answers, error } = self;
        if let Some(error) = error {
            return errors::not_run(error);
        }
        StoreError {
            outcome: Outcome::NotRun,
            is_passing,
            is_shut_down: false,
            source: answers.map_or_else(|| text.into(), |answers| Box::new(answers) as _),
        }
    }
}

impl Connecting {
    pub(super) fn new(
        server: String,
        command_timeout: Duration,
        longest_ttl: Option<Duration>,
        runtime: Handle,
    ) -> Arc<Self> {
        Arc::new(Self {
            server,
            runtime,
            command_timeout,
            longest_ttl,
            store: OnceLock::new(),
            listener: Mutex::default(),
            failure: watch::Sender::default(),
            command_waits: Notify::new(),
        })
    }

    pub(super) fn listen(&self, client: ClientId, listener: Weak<dyn Listener>) {
        let mut before = lock(&self.listener);
        match self.store.get() {
            Some(store) => store.listen(client, listener),
            None => *before = Some((client, listener)),
        }
    }

    /// Sends a command to the store, once it is connected. It goes on if the future is dropped.
    pub(super) fn send<T: Send + 'static>(
        self: &Arc<Self>,
        limit: Option<Duration>,
        command: impl FnOnce(&dyn Store) -> StoreFuture<T> + Send + 'static,
    ) -> StoreFuture<T> {
        if let Some(store) = self.store.get() {
            return command(&**store);
        }
        let connecting = self.clone();
        let (sender, answer) = oneshot::channel();
        // Boxed, and without a result: so the task is of one type for all commands.
        self.runtime.spawn(
            async move {
                let answer = match connecting.connected(limit).await {
                    Ok(store) => command(&*store).await,
                    Err(error) => Err(error),
                };
                let _ = sender.send(answer); // the caller may be gone
            }
            .boxed(),
        );
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err(errors::shutdown())) })
    }

    /// The store, once it is connected. An error that no retry can help is returned at once.
    async fn connected(&self, limit: Option<Duration>) -> Result<Arc<dyn Store>, StoreError> {
        let mut failure = self.failure.subscribe();
        self.command_waits.notify_one();
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
            None => errors::not_sent("not connected yet"),
        })
    }

    fn set_store(&self, store: Arc<dyn Store>) {
        let listener = lock(&self.listener);
        if let Some((client, listener)) = &*listener {
            store.listen(*client, listener.clone());
        }
        let _ = self.store.set(store); // it was not set yet
        drop(listener);
        self.failure.send_replace(None);
    }
}

/// Connects, and retries until it succeeds.
pub(super) async fn run<F>(connecting: Arc<Connecting>, connect: impl Fn() -> F)
where
    F: Future<Output = Result<Arc<dyn Store>, LockError>>,
{
    let (mut backoff, mut logged) = (Backoff::default(), None);
    loop {
        let failure = match connect().await {
            Ok(store) => {
                connecting.set_store(store);
                tracing::info!(server = %connecting.server, "connected to the lock store");
                return;
            }
            Err(error) => Failure::of(error),
        };
        // Once, and again when a passing error becomes a lasting one, or the reverse.
        if logged.replace(failure.is_passing) != Some(failure.is_passing) {
            let (server, error) = (&connecting.server, &failure.text);
            tracing::warn!(%server, %error, "not connected to the lock store yet; retrying");
        }
        connecting.failure.send_replace(Some(failure));
        let pause = backoff.next();
        let sooner = async {
            sleep(pause.min(system::equal_jitter(LONGEST_PAUSE))).await;
            connecting.command_waits.notified().await;
        };
        tokio::select! { () = sleep(pause) => {}, () = sooner => {} }
    }
}
