//! The store on a server or a cluster: encodes each request, sends it, and decodes the answer.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::timeout;

use super::answer::{PendingAnswer, decode_numbers};
#[cfg(feature = "doctor")]
use super::diagnosis;
use super::encode::Encoder;
use super::encoded::Encoded;
use super::limits::limit;
use super::replicated::{Replicated, ReplicatedCommand, Unconfirmed};
use super::settings::Settings;
use super::transport::Transport;
use super::{decode, former_holders, inspect, limit_overrides, listing};
use crate::core::key::LockKey;
use crate::core::name_pattern::NamePattern;
use crate::store::{
    Answer, AnswerOf, ClientId, ClientInfo, Command, LimitCommand, ListCursor, ListOf, ListPage,
    Listener, LockCommand, NotAll, Request, RequestCommand, SUBSCRIBING, Store, StoreError,
    StoreFuture, Subscription, Take, at_once,
};
use crate::system;

/// Keeps leases on one server, or on a cluster.
#[derive(Clone, Debug)]
pub struct RedisStore {
    transport: Arc<dyn Transport>,
    encoder: Encoder,
    /// The most time that a command may take.
    command_timeout: Duration,
    /// Carries grants and completions if replicas must confirm them.
    replicated: Option<Arc<Replicated>>,
}

impl RedisStore {
    pub(super) fn new(
        transport: Arc<dyn Transport>,
        encoder: Encoder,
        settings: &Settings,
        replicated: Option<Replicated>,
    ) -> Self {
        let command_timeout = settings.command_timeout;
        Self { transport, encoder, command_timeout, replicated: replicated.map(Arc::new) }
    }

    fn limit(&self, request: &Request) -> Duration {
        limit(request.ttl, self.command_timeout)
    }

    /// Sends a command that may grant the requests. If replicas must confirm a grant, it counts only
    /// then.
    fn send_for_grant(&self, command: Encoded, locks: &[Request], takes: &[Take]) -> PendingAnswer {
        let limits = locks.iter().map(|request| self.limit(request));
        let limit = limits.min().unwrap_or(self.command_timeout);
        self.send_confirmed(command, limit, decode::is_grant, || {
            let locks = locks.iter().map(|it| self.encoder.cancel(it));
            let takes = takes.iter().map(|it| self.encoder.give_back(it));
            Unconfirmed::TakeBack(locks.chain(takes).collect())
        })
    }

    /// Sends a command that replicas may have to confirm if its answer is to count.
    fn send_confirmed(
        &self,
        command: Encoded,
        limit: Duration,
        counts: fn(&[u64]) -> bool,
        unconfirmed: impl FnOnce() -> Unconfirmed,
    ) -> PendingAnswer {
        let Some(replicated) = &self.replicated else {
            return self.transport.send(command, limit);
        };
        replicated.send(ReplicatedCommand { command, then: unconfirmed(), counts, limit })
    }

    fn for_request(&self, request: &Request, command: RequestCommand) -> StoreFuture<Answer> {
        let (encoded, decode) = self.encoder.for_request(request, command);
        let answer = match command {
            RequestCommand::Acquire(_) => {
                self.send_for_grant(encoded, std::slice::from_ref(request), &[])
            }
            // One that replicas lack is sent again, or cancelled in the end.
            RequestCommand::Adopt(_) => {
                let limit = self.limit(request);
                self.send_confirmed(encoded, limit, decode::is_grant, || Unconfirmed::Keep)
            }
            RequestCommand::Complete(_) => {
                let has_ended = |answer: &[u64]| matches!(*answer, [1, ..]);
                self.send_confirmed(encoded, self.limit(request), has_ended, || Unconfirmed::Keep)
            }
            _ => self.transport.send(encoded, self.limit(request)),
        };
        Box::pin(async move { decode(answer.await) })
    }

    fn send_for_all(&self, locks: &[Request], takes: &[Take]) -> StoreFuture<Answer> {
        let command = self.encoder.acquire_all(locks, takes);
        let answer = self.send_for_grant(command, locks, takes);
        let counts = (locks.len(), takes.len());
        Box::pin(async move {
            let read = |answer: &[u64]| decode::all(answer, counts);
            // A request for the one lock finds a value of another type, and names it.
            decode_numbers(answer.await, Err(NotAll::Unknown), read).map(Answer::All)
        })
    }

    /// Returns true if its servers can ever do the command.
    fn is_possible(&self, command: &Command<'_>) -> bool {
        command.fits_kind()
            && match command {
                Command::AcquireAll(locks, takes) => self.can_share_command(locks, takes),
                Command::Diagnose => cfg!(feature = "doctor"),
                _ => true,
            }
    }

    fn can_share_command(&self, locks: &[Request], takes: &[Take]) -> bool {
        let mut keys = locks.iter().map(|it| &it.key).chain(takes.iter().map(|it| &it.key));
        let Some(first) = keys.next() else { return false };
        keys.all(|key| self.transport.can_share_command(first, key))
    }

    fn send_back(&self, take: &Take) -> StoreFuture<Answer> {
        let answer = self.transport.send(self.encoder.give_back(take), self.command_timeout);
        Box::pin(async move { decode::to_question(answer.await) })
    }

    fn send_renewals(&self, requests: &[Request]) -> StoreFuture<Answer> {
        let renew = |request| (self.encoder.renew(request), self.limit(request));
        let answers = self.transport.send_renewals(&mut requests.iter().map(renew));
        Box::pin(async move {
            let answers = join_all(answers).await.into_iter();
            let decode = |answer| decode::to_renew(answer).map(AnswerOf::of);
            Ok(Answer::Renewals(answers.map(decode).collect()))
        })
    }

    fn about_lock(&self, key: &LockKey, command: LockCommand) -> StoreFuture<Answer> {
        let (transport, limit) = (self.transport.clone(), self.command_timeout);
        match command {
            LockCommand::Inspect => {
                let (encoder, key) = (self.encoder.clone(), key.clone());
                Box::pin(async move {
                    inspect::inspect(&*transport, &encoder, limit, &key).await.map(Answer::Info)
                })
            }
            LockCommand::IsHeldBy(owner) => {
                let command = self.encoder.is_held_by(key, &owner);
                Box::pin(async move {
                    inspect::is_held(&*transport, limit, &command).await.map(Answer::Flag)
                })
            }
            LockCommand::ForceRelease(force) => {
                let answer = transport.send(self.encoder.force_release(key, &force), limit);
                let (encoder, key) = (self.encoder.clone(), key.clone());
                Box::pin(async move {
                    let answer = decode::to_force(answer.await)?;
                    let Answer::Forced(forced) = answer else { return Ok(answer) };
                    let tell = |from| transport.send(encoder.tell_forced(&key, from), limit);
                    Ok(former_holders::tell(forced, tell).await.into())
                })
            }
            LockCommand::RunAgain { by, why } => {
                let answer = transport.send(self.encoder.run_again(key, &by, why.as_ref()), limit);
                let tell = self.encoder.tell_all(key);
                Box::pin(async move {
                    let answer = decode::to_run_again(answer.await)?;
                    // Whoever does not hear it learns it by asking.
                    let _ = transport.send(tell, limit).await;
                    Ok(answer)
                })
            }
        }
    }

    fn send_list(&self, names: NamePattern, of: ListOf, from: ListCursor) -> StoreFuture<Answer> {
        let servers = self.transport.servers();
        let command = self.encoder.list(&names, of, from.at);
        let answer = self.transport.send_to(from.server, command, self.command_timeout);
        Box::pin(async move {
            // There are fewer servers than before.
            let Some(answer) = answer else { return Ok(Answer::Page(ListPage::default())) };
            let page = match answer.await {
                Ok(answer) => listing::page(&answer, &names, from, servers)?,
                Err(error) => listing::left_out(error, from, servers)?,
            };
            Ok(Answer::Page(page))
        })
    }

    fn about_limits(&self, command: &LimitCommand) -> StoreFuture<Answer> {
        let (transport, limit) = (self.transport.clone(), self.command_timeout);
        let (command, channel) = (self.encoder.limits(command), self.encoder.limits_channel());
        Box::pin(async move {
            // First, so that no later change is missed; but not for long.
            let _ = timeout(SUBSCRIBING, transport.watch(channel)).await;
            let answer = transport.send(command, limit).await?;
            limit_overrides::read(&answer).map(Answer::Limits)
        })
    }

    fn send_introduction(&self, client: &ClientInfo, lasts: Duration) -> StoreFuture<Answer> {
        let command = self.encoder.introduce(client, lasts);
        let answer = self.transport.send(command, self.command_timeout);
        Box::pin(async move { answer.await.map(|_| Answer::Done(())) })
    }
}

/// Refuses a command that a store can't do.
fn refuse(command: &Command<'_>) -> StoreFuture<Answer> {
    if let Command::AcquireAll(..) = command {
        return at_once(Ok(Answer::All(Err(NotAll::Unknown))));
    }
    at_once(Err(StoreError::impossible(format!("the store can't `{}`", command.name()))))
}

impl Store for RedisStore {
    fn send(&self, command: Command<'_>) -> StoreFuture<Answer> {
        if !self.is_possible(&command) {
            return refuse(&command);
        }
        match command {
            Command::Request(request, command) => self.for_request(&request, command),
            Command::AcquireAll(locks, takes) => self.send_for_all(&locks, &takes),
            Command::GiveBack(take) => self.send_back(&take),
            Command::RenewAll(requests) => self.send_renewals(&requests),
            Command::Lock(key, command) => self.about_lock(&key, command),
            Command::List(names, of, from) => self.send_list(names.into_owned(), of, from),
            Command::Limits(command) => self.about_limits(&command),
            #[cfg(feature = "doctor")]
            Command::Diagnose => diagnosis::of(&*self.transport, &self.encoder),
            #[cfg(not(feature = "doctor"))]
            Command::Diagnose => refuse(&Command::Diagnose),
            Command::Introduce(client, lasts) => self.send_introduction(&client, lasts),
        }
    }

    fn can(&self, command: &Command<'_>) -> bool {
        let lingers = matches!(command, Command::Request(_, RequestCommand::Linger(_)));
        self.is_possible(command) && (!lingers || self.transport.can_recall())
    }

    fn listen(&self, _: ClientId, listener: Weak<dyn Listener>) {
        self.transport.listen(listener);
    }

    fn gives_hints(&self) -> bool {
        self.transport.gives_hints()
    }

    fn subscribe(&self, request: &Request) -> Option<StoreFuture<Subscription>> {
        self.transport.subscribe(self.encoder.channel(&request.key))
    }

    fn has_queue(&self) -> bool {
        true
    }

    fn longest_ttl(&self) -> Duration {
        Duration::MAX
    }

    fn answers_within(&self, ttl: Duration) -> Option<Duration> {
        let limit = limit(ttl, self.command_timeout);
        Some(match &self.replicated {
            None => self.transport.answers_within(limit),
            Some(replicated) => replicated.answers_within(limit),
        })
    }

    fn fails_as_one(&self) -> bool {
        self.transport.servers() == 1
    }

    fn now(&self) -> Instant {
        system::now_since_boot()
    }
}
