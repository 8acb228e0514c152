//! The store on a server or a cluster: encodes each request, sends it, and decodes the answer.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::join_all;

use super::answer::{PendingAnswer, decode_numbers};
use super::command::Command;
use super::encode::Encoder;
use super::limits::limit;
use super::replicated::{Replicated, ReplicatedCommand, Unconfirmed};
use super::settings::Settings;
use super::transport::Transport;
use super::{decode, diagnosis, errors, inspect, listing};
use crate::core::error::LossReason;
use crate::core::key::LockKey;
use crate::core::name_pattern::NamePattern;
use crate::store::{
    Adoption, All, Attempt, ClientId, ClientInfo, Detached, Diagnosis, Ended, Forced, Lingering,
    ListCursor, ListPage, Listener, LockInfo, Owner, Renewal, Renewals, Request, Stamp, Store,
    StoreFuture, Subscription, Success, Usage, Waiting,
};
use crate::system;

/// Keeps leases on one server, or on a cluster.
#[derive(Clone, Debug)]
pub struct RedisStore {
    transport: Arc<dyn Transport>,
    pub(super) encoder: Encoder,
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

    /// Sends a request's command and decodes its answer, which is `foreign` if a key of the
    /// lock holds a value of another type.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        command: Command,
        request: &Request,
        foreign: T,
        read: fn(&[u64]) -> Option<T>,
    ) -> StoreFuture<T> {
        let answer = self.transport.send(command, self.limit(request));
        Box::pin(async move { decode_numbers(answer.await, foreign, read) })
    }

    /// The same for a command that may grant the requests. If replicas must confirm a grant, it
    /// counts only then.
    fn ask_for_grant<T: Send + 'static>(
        &self,
        command: Command,
        requests: &[Request],
        is_grant: fn(&[u64]) -> bool,
        foreign: T,
        read: impl FnOnce(&[u64]) -> Option<T> + Send + 'static,
    ) -> StoreFuture<T> {
        let limits = requests.iter().map(|request| self.limit(request));
        let limit = limits.min().unwrap_or(self.command_timeout);
        let answer = self.send_confirmed(command, limit, is_grant, || {
            let cancels = requests.iter().map(|it| self.encoder.cancel(it));
            Unconfirmed::TakeBack(cancels.collect())
        });
        Box::pin(async move { decode_numbers(answer.await, foreign, read) })
    }

    /// Sends a command that replicas may have to confirm if its answer is to count.
    fn send_confirmed(
        &self,
        command: Command,
        limit: Duration,
        counts: fn(&[u64]) -> bool,
        unconfirmed: impl FnOnce() -> Unconfirmed,
    ) -> PendingAnswer {
        let Some(replicated) = &self.replicated else {
            return self.transport.send(command, limit);
        };
        replicated.send(ReplicatedCommand { command, then: unconfirmed(), counts, limit })
    }
}

impl Store for RedisStore {
    fn acquire(&self, request: &Request, waiting: Option<Waiting>) -> StoreFuture<Attempt> {
        let command = self.encoder.acquire(request, waiting);
        let requests = std::slice::from_ref(request);
        self.ask_for_grant(command, requests, decode::is_grant, Attempt::WrongKind, decode::attempt)
    }

    fn acquire_all(&self, requests: &[Request]) -> Option<StoreFuture<All>> {
        let (first, count) = (requests.first()?, requests.len());
        let can_share = |it: &Request| self.transport.can_share_command(&first.key, &it.key);
        let can_all = |it: &Request| it.kind.can_join_others() && can_share(it);
        if !requests.iter().all(can_all) {
            return None;
        }
        let command = self.encoder.acquire_all(requests, first.ttl);
        // A request for the one lock finds a value of another type, and names it.
        let foreign = Err(None);
        let read = move |answer: &[u64]| decode::all(answer, count);
        Some(self.ask_for_grant(command, requests, decode::is_grant, foreign, read))
    }

    fn renew(&self, request: &Request) -> StoreFuture<Renewal> {
        let foreign = Renewal::NotHeld(LossReason::Taken);
        self.ask(self.encoder.renew(request), request, foreign, decode::renewal)
    }

    fn renew_all(&self, requests: &[Request]) -> Renewals {
        let renew = |request| (self.encoder.renew(request), self.limit(request));
        let answers = self.transport.send_renewals(&mut requests.iter().map(renew));
        let foreign = Renewal::NotHeld(LossReason::Taken);
        Box::pin(async move {
            let answers = join_all(answers).await.into_iter();
            answers.map(|answer| decode_numbers(answer, foreign, decode::renewal)).collect()
        })
    }

    fn keep_offer(&self, request: &Request, until: Stamp) -> StoreFuture<()> {
        let command = self.encoder.keep_offer(request, until);
        self.ask(command, request, (), |answer| decode::flag(answer).map(|_| ()))
    }

    fn adopt(&self, from: Detached, request: &Request) -> StoreFuture<Adoption> {
        let foreign = Adoption::NotHeld(LossReason::Taken);
        self.ask(self.encoder.adopt(from, request), request, foreign, decode::adoption)
    }

    fn release(&self, request: &Request, keep: Duration) -> StoreFuture<Ended> {
        let foreign = Ended::NotHeld(LossReason::Taken);
        self.ask(self.encoder.release(request, keep), request, foreign, decode::ended)
    }

    fn release_and_forget(&self, request: &Request) -> StoreFuture<Ended> {
        let Some(command) = self.encoder.release_and_forget(request) else {
            return self.release(request, Duration::ZERO);
        };
        self.ask(command, request, Ended::NotHeld(LossReason::Taken), decode::ended)
    }

    fn complete(&self, request: &Request, success: Success) -> Option<StoreFuture<Ended>> {
        let foreign = Ended::NotHeld(LossReason::Taken);
        let command = self.encoder.complete(request, success)?;
        let has_ended = |answer: &[u64]| matches!(*answer, [1, ..]);
        let keep = || Unconfirmed::Keep;
        let answer = self.send_confirmed(command, self.limit(request), has_ended, keep);
        Some(Box::pin(async move { decode_numbers(answer.await, foreign, decode::ended) }))
    }

    fn can_linger(&self, request: &Request) -> bool {
        request.may_linger() && self.transport.can_recall()
    }

    fn linger(&self, request: &Request, usage: Usage) -> Option<StoreFuture<Lingering>> {
        if !self.can_linger(request) {
            return None;
        }
        let foreign = Lingering::Ended(Ended::NotHeld(LossReason::Taken));
        Some(self.ask(self.encoder.linger(request, usage), request, foreign, decode::lingering))
    }

    fn cancel(&self, request: &Request) -> StoreFuture<bool> {
        self.ask(self.encoder.cancel(request), request, false, decode::flag)
    }

    fn inspect(&self, key: &LockKey) -> StoreFuture<LockInfo> {
        let (store, key) = (self.clone(), key.clone());
        Box::pin(async move {
            inspect::inspect(&*store.transport, &store.encoder, store.command_timeout, &key).await
        })
    }

    fn list(&self, names: &NamePattern, from: ListCursor) -> Option<StoreFuture<ListPage>> {
        let servers = self.transport.servers();
        let command = self.encoder.list(names, from.at);
        let answer = self.transport.send_to(from.server, command, self.command_timeout);
        let names = names.clone();
        Some(Box::pin(async move {
            // There are fewer servers than before.
            let Some(answer) = answer else { return Ok(ListPage::default()) };
            listing::page(&answer.await?, &names, from, servers)
        }))
    }

    fn diagnose(&self) -> StoreFuture<Diagnosis> {
        let looking = diagnosis::run(self.transport.connections(), self.encoder.clone());
        let looking = self.transport.runtime().spawn(looking.boxed());
        Box::pin(async move { looking.await.unwrap_or_else(|_| Err(errors::shutdown())) })
    }

    fn is_held_by(&self, key: &LockKey, owner: &Owner) -> StoreFuture<bool> {
        let (transport, limit) = (self.transport.clone(), self.command_timeout);
        let command = self.encoder.is_held_by(key, owner);
        Box::pin(async move { inspect::is_held(&*transport, limit, &command).await })
    }

    fn force_release(&self, key: &LockKey) -> StoreFuture<Forced> {
        let command = self.encoder.force_release(key);
        let answer = self.transport.send(command, self.command_timeout);
        Box::pin(async move { decode_numbers(answer.await, Forced::Foreign, decode::forced) })
    }

    fn was_forced(&self, request: &Request) -> StoreFuture<bool> {
        self.ask(self.encoder.was_forced(request), request, false, decode::flag)
    }

    fn introduce(&self, client: &ClientInfo, lasts: Duration) -> StoreFuture<()> {
        let command = self.encoder.introduce(client, lasts);
        let answer = self.transport.send(command, self.command_timeout);
        Box::pin(async move { answer.await.map(|_| ()) })
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
