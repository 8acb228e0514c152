//! A store that connects in the background. Until then, a command waits for as long as it may
//! take, and then fails as in an outage.

mod connecting;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use self::connecting::Connecting;
#[cfg(feature = "doctor")]
use super::diagnosis;
use super::limits::limit;
use crate::core::error::LockError;
use crate::store::{
    Answer, ClientId, Command, Listener, Request, RequestCommand, Store, StoreFuture, Subscription,
    at_once,
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

    /// How long a command may wait for the connection; `None` without a limit.
    fn limit(&self, command: &Command<'_>) -> Option<Duration> {
        let command_timeout = self.connecting.command_timeout;
        Some(match command {
            Command::Request(request, _) => limit(request.ttl, command_timeout),
            Command::AcquireAll(requests, _) | Command::RenewAll(requests) => {
                let limits = requests.iter().map(|request| limit(request.ttl, command_timeout));
                limits.min().unwrap_or(command_timeout)
            }
            Command::GiveBack(_) | Command::Lock(..) | Command::List(..) | Command::Limits(_) => {
                command_timeout
            }
            // A little longer than a command, so that it can say why there is no connection.
            Command::Diagnose => command_timeout * 3,
            // No caller waits for the answer.
            Command::Introduce(..) => return None,
        })
    }

    fn is_quorum(&self) -> bool {
        self.connecting.longest_ttl.is_some()
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
    fn send(&self, command: Command<'_>) -> StoreFuture<Answer> {
        if let Some(store) = self.connecting.store.get() {
            return store.send(command);
        }
        let (limit, command) = (self.limit(&command), command.into_owned());
        #[cfg(feature = "doctor")]
        if let Command::Diagnose = command {
            let answer = self.connecting.send(limit, |store| store.send(Command::Diagnose));
            return diagnosis::or_unreachable(answer, self.connecting.server.clone());
        }
        self.connecting.send(limit, move |store| store.send(command))
    }

    fn can(&self, command: &Command<'_>) -> bool {
        if let Some(store) = self.connecting.store.get() {
            return store.can(command);
        }
        command.fits_kind()
            && match command {
                // Without a connection there is no lease.
                Command::Request(_, RequestCommand::Complete(_) | RequestCommand::Linger(_)) => {
                    false
                }
                Command::AcquireAll(..) | Command::List(..) => !self.is_quorum(),
                _ => true,
            }
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
        let limit = limit(request.ttl, connecting.command_timeout);
        let request = request.clone();
        // Only once it is polled: a free lock needs no subscription.
        Some(Box::pin(async move {
            let none = || at_once(Ok(Box::new(()) as Subscription));
            let subscribe = move |store: &dyn Store| store.subscribe(&request).unwrap_or_else(none);
            connecting.send(Some(limit), subscribe).await
        }))
    }

    fn has_queue(&self) -> bool {
        !self.is_quorum()
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
