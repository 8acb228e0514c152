//! How a command is made and sent: its script, its keys, who it is from, and where it
//! goes.

use std::borrow::Cow;
use std::time::Duration;

use redis::Value;

use super::batcher::Entry;
#[cfg(feature = "cluster")]
use super::cluster;
use super::command::{Command, integers, is_wrong_type, limit, unreadable};
use super::replicated::Granting;
use super::script::Script;
use super::{RedisStore, Servers, errors, script};
use crate::core::key::LockKey;
use crate::store::{ClientId, Kind, Owner, Request, StoreError, StoreFuture};

impl RedisStore {
    /// The script for a request's kind, with its keys and who it is.
    pub(super) fn of(&self, request: &Request, by_kind: &[&'static Script; 4]) -> Command {
        let [mutex, reentrant, semaphore, rw] = *by_kind;
        let script = match request.kind {
            Kind::Mutex => mutex,
            Kind::Reentrant => reentrant,
            Kind::Semaphore { .. } => semaphore,
            Kind::Read | Kind::Write => rw,
        };
        Command::new(script).keys(&request.key, &self.prefix).arg(holder(request))
    }

    /// Where the scripts tell a waiter that it was offered the lock: they put its
    /// client's id behind it.
    #[cfg_attr(not(feature = "cluster"), expect(unused_variables, reason = "one for all locks"))]
    pub(super) fn wake(&self, key: &LockKey) -> Cow<'_, str> {
        match &self.servers {
            Servers::One(_) => Cow::Borrowed(&self.wake),
            // A script may publish into its own slot alone.
            #[cfg(feature = "cluster")]
            Servers::Cluster(_) => Cow::Owned(format!("{}:", key.in_store(&self.prefix, "wake"))),
        }
    }

    /// The key of a client's record of itself.
    pub(super) fn client(&self, id: ClientId) -> String {
        format!("{}:client:{{{id}}}", self.prefix)
    }

    /// Sends a request's command, and reads the numbers it is answered; `foreign`
    /// is the answer where a value of another type stands under one of its keys.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        command: Command,
        request: &Request,
        foreign: T,
        read: impl FnOnce(&[u64]) -> Option<T> + Send + 'static,
    ) -> StoreFuture<T> {
        let limit = limit(request, self.command_timeout);
        self.send(command, limit, move |answer| understand(answer, foreign, read))
    }

    /// Sends what may grant `requests`; with replicas that are to have it, it is granted
    /// when they do.
    pub(super) fn grant<T: Send + 'static>(
        &self,
        command: Command,
        requests: &[Request],
        is_grant: fn(&[u64]) -> bool,
        foreign: T,
        read: impl FnOnce(&[u64]) -> Option<T> + Send + 'static,
    ) -> StoreFuture<T> {
        let limits = requests.iter().map(|request| limit(request, self.command_timeout));
        let limit = limits.min().unwrap_or(self.command_timeout);
        let Some(synced) = &self.synced else {
            return self.send(command, limit, move |answer| understand(answer, foreign, read));
        };
        let cancels = requests.iter().map(|request| self.cancellation(request)).collect();
        let granting = Granting { command, cancels, is_grant, limit };
        // Sent now, and not when it is polled first.
        let granted = synced.start(granting);
        Box::pin(async move {
            let answer = granted.await.unwrap_or_else(|_| Err(errors::shutdown()));
            understand(answer, foreign, read)
        })
    }

    /// What takes a request back.
    pub(super) fn cancellation(&self, request: &Request) -> Command {
        self.of(request, &script::CANCEL).arg(&*self.wake(&request.key))
    }

    /// Sends a command; it goes on if the future is dropped.
    pub(super) fn send<T>(
        &self,
        command: Command,
        limit: Duration,
        read: impl FnOnce(Result<Value, StoreError>) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<T>
    where
        T: Send + 'static,
    {
        #[cfg_attr(
            not(feature = "cluster"),
            expect(clippy::infallible_destructuring_match, reason = "a cluster is the other")
        )]
        let pumps = match &self.servers {
            Servers::One(pumps) => pumps,
            #[cfg(feature = "cluster")]
            Servers::Cluster(cluster) => {
                let answer = cluster.send(command, limit, cluster::patience(limit));
                return Box::pin(async move { read(answer.await) });
            }
        };
        let (entry, answer) = Entry::new(command, limit);
        pumps.push([entry]);
        Box::pin(async move { read(answer.await.unwrap_or_else(|_| Err(errors::shutdown()))) })
    }
}

/// Reads the numbers of an answer.
fn understand<T>(
    answer: Result<Value, StoreError>,
    foreign: T,
    read: impl FnOnce(&[u64]) -> Option<T>,
) -> Result<T, StoreError> {
    match answer {
        Err(error) if is_wrong_type(&error) => Ok(foreign),
        answer => {
            let answer = answer?;
            read(&integers(&answer)).ok_or_else(|| unreadable(&answer))
        }
    }
}

/// What a request is called among those who hold: by its id and how it holds, which also
/// tells the kinds apart where the record is gone. A mutex, of which there is one, by its
/// id alone.
pub(super) fn holder(request: &Request) -> Cow<'_, [u8]> {
    let mut how = match request.kind {
        Kind::Mutex => return Cow::Borrowed(request.id.as_bytes()),
        Kind::Semaphore { weight, .. } if weight > 1 => format!(":{weight}"),
        Kind::Semaphore { .. } if request.owner.is_none() => {
            return Cow::Borrowed(request.id.as_bytes());
        }
        Kind::Semaphore { .. } => String::new(),
        Kind::Reentrant => "e".to_owned(),
        Kind::Read => "r".to_owned(),
        Kind::Write => "w".to_owned(),
    };
    how += &by(request.owner.as_ref());
    Cow::Owned([request.id.as_bytes(), how.as_bytes()].concat())
}

/// How an owner is written.
pub(super) fn by(owner: Option<&Owner>) -> String {
    owner.map(|owner| format!("@{}", owner.name())).unwrap_or_default()
}
