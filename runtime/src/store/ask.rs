//! One method for each command to a store, with the type of its answer.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::join_all;

use super::answers::{
    Adoption, All, Answer, AnswerOf, Attempt, Ended, Lingering, Renewal, Repaired,
};
use super::command::{Command, Force, LockCommand, RequestCommand};
use super::contract::{Renewals, Store, StoreFuture};
use super::detached::Detached;
use super::diagnosis::Diagnosis;
use super::holder::ClientInfo;
use super::inspection::{Forced, LockInfo};
use super::job_info::RunAgain;
use super::limit_override::{LimitCommand, LimitOverride};
use super::listing::{ListCursor, ListOf, ListPage};
use super::note::Note;
use super::once::Success;
use super::request::{Owner, Request, Stamp, Waiting};
use super::take::Take;
use super::usage::Usage;
use crate::core::key::LockKey;
use crate::core::name_pattern::NamePattern;
use crate::core::store_error::StoreError;

/// The answer to a command, once it is there. The command goes on if this is dropped.
pub struct Reply<T> {
    answer: StoreFuture<Answer>,
    of: PhantomData<fn() -> T>,
}

impl<T> Reply<T> {
    /// The answer, whatever its type.
    pub(crate) fn of_any(self) -> StoreFuture<Answer> {
        self.answer
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}

impl<T: AnswerOf> Future for Reply<T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.answer.as_mut().poll(context).map_ok(T::of)
    }
}

/// Sends a store its commands; [`Command`] says what each does. A command is sent by the call, not
/// by the first poll of its reply.
pub trait Ask: Store {
    /// See [`RequestCommand::Acquire`].
    fn acquire(&self, request: &Request, waiting: Option<Waiting>) -> Reply<Attempt> {
        ask_for(self, request, RequestCommand::Acquire(waiting))
    }

    /// See [`Command::AcquireAll`]. `None` if the store can't grant them together.
    fn acquire_all(&self, locks: &[Request], takes: &[Take]) -> Option<Reply<All>> {
        if_possible(self, Command::AcquireAll(Cow::Borrowed(locks), Cow::Borrowed(takes)))
    }

    /// See [`Command::GiveBack`].
    fn give_back(&self, take: &Take) -> Reply<bool> {
        ask(self, Command::GiveBack(Cow::Borrowed(take)))
    }

    /// See [`RequestCommand::Renew`].
    fn renew(&self, request: &Request) -> Reply<Renewal> {
        ask_for(self, request, RequestCommand::Renew)
    }

    /// See [`Command::RenewAll`].
    fn renew_all(&self, requests: &[Request]) -> Renewals {
        let (answers, count) =
            (self.send(Command::RenewAll(Cow::Borrowed(requests))), requests.len());
        Box::pin(async move {
            match answers.await {
                Ok(answers) => AnswerOf::of(answers),
                // None was sent. Each gets the same error.
                Err(error) => {
                    let same = || StoreError { source: error.source.to_string().into(), ..error };
                    (0..count).map(|_| Err(same())).collect()
                }
            }
        })
    }

    /// See [`RequestCommand::KeepOffer`].
    fn keep_offer(&self, request: &Request, until: Stamp) -> Reply<()> {
        ask_for(self, request, RequestCommand::KeepOffer(until))
    }

    /// See [`RequestCommand::Adopt`].
    fn adopt(&self, from: Detached, request: &Request) -> Reply<Adoption> {
        ask_for(self, request, RequestCommand::Adopt(from))
    }

    /// See [`RequestCommand::Release`].
    fn release(&self, request: &Request, keep: Duration) -> Reply<Ended> {
        ask_for(self, request, RequestCommand::Release(keep))
    }

    /// See [`RequestCommand::ReleaseAndForget`].
    fn release_and_forget(&self, request: &Request) -> Reply<Ended> {
        ask_for(self, request, RequestCommand::ReleaseAndForget)
    }

    /// See [`RequestCommand::Complete`]. `None` if the store can't remember it.
    fn complete(&self, request: &Request, success: Success) -> Option<Reply<Ended>> {
        if_possible(self, of_request(request, RequestCommand::Complete(success)))
    }

    /// Returns true if the client may keep this request's lease without using it, because the
    /// store can send [`Hint::Recalled`](super::Hint::Recalled) now. Where a lock needs a
    /// [`subscribe`](Store::subscribe) for its hints, that comes first.
    fn can_linger(&self, request: &Request) -> bool {
        self.can(&of_request(request, RequestCommand::Linger(Usage::Ended)))
    }

    /// See [`RequestCommand::Linger`]. `None` if [`can_linger`](Self::can_linger) is false.
    fn linger(&self, request: &Request, usage: Usage) -> Option<Reply<Lingering>> {
        if_possible(self, of_request(request, RequestCommand::Linger(usage)))
    }

    /// See [`RequestCommand::Cancel`].
    fn cancel(&self, request: &Request) -> Reply<bool> {
        ask_for(self, request, RequestCommand::Cancel)
    }

    /// See [`RequestCommand::WasForced`].
    fn was_forced(&self, request: &Request) -> Reply<bool> {
        ask_for(self, request, RequestCommand::WasForced)
    }

    /// See [`RequestCommand::Vote`].
    fn vote(&self, request: &Request, again: Duration) -> Reply<Attempt> {
        ask_for(self, request, RequestCommand::Vote(again))
    }

    /// See [`RequestCommand::Repair`].
    fn repair(&self, request: &Request, token: u64, lasts: Duration) -> Reply<Repaired> {
        ask_for(self, request, RequestCommand::Repair { token, lasts })
    }

    /// See [`LockCommand::Inspect`].
    fn inspect(&self, key: &LockKey) -> Reply<LockInfo> {
        ask_about(self, key, LockCommand::Inspect)
    }

    /// See [`LockCommand::IsHeldBy`].
    fn is_held_by(&self, key: &LockKey, owner: &Owner) -> Reply<bool> {
        ask_about(self, key, LockCommand::IsHeldBy(owner.clone()))
    }

    /// See [`LockCommand::ForceRelease`].
    fn force_release(&self, key: &LockKey, force: Force) -> Reply<Forced> {
        ask_about(self, key, LockCommand::ForceRelease(force))
    }

    /// See [`LockCommand::RunAgain`].
    fn run_again(&self, key: &LockKey, by: Note, why: Option<Note>) -> Reply<RunAgain> {
        ask_about(self, key, LockCommand::RunAgain { by, why })
    }

    /// See [`Command::List`]. `None` if the store can't list its locks.
    fn list(&self, names: &NamePattern, of: ListOf, from: ListCursor) -> Option<Reply<ListPage>> {
        if_possible(self, Command::List(Cow::Borrowed(names), of, from))
    }

    /// See [`LimitCommand`].
    fn limits(&self, command: LimitCommand) -> Reply<Vec<LimitOverride>> {
        ask(self, Command::Limits(command))
    }

    /// See [`Command::Diagnose`].
    fn diagnose(&self) -> Reply<Diagnosis> {
        ask(self, Command::Diagnose)
    }

    /// See [`Command::Introduce`].
    fn introduce(&self, client: &ClientInfo, lasts: Duration) -> Reply<()> {
        ask(self, Command::Introduce(Cow::Borrowed(client), lasts))
    }
}

impl<S: Store + ?Sized> Ask for S {}

/// Renews each by a command of its own, for stores that do something to each command.
#[must_use]
pub fn renew_each(store: &(impl Store + ?Sized), requests: &[Request]) -> StoreFuture<Answer> {
    let renewals: Vec<_> = requests.iter().map(|request| store.renew(request)).collect();
    Box::pin(async move { Ok(Answer::Renewals(join_all(renewals).await)) })
}

fn ask<T>(store: &(impl Store + ?Sized), command: Command<'_>) -> Reply<T> {
    Reply { answer: store.send(command), of: PhantomData }
}

fn if_possible<T>(store: &(impl Store + ?Sized), command: Command<'_>) -> Option<Reply<T>> {
    store.can(&command).then(|| ask(store, command))
}

fn ask_for<T>(
    store: &(impl Store + ?Sized),
    request: &Request,
    command: RequestCommand,
) -> Reply<T> {
    ask(store, of_request(request, command))
}

fn ask_about<T>(store: &(impl Store + ?Sized), key: &LockKey, command: LockCommand) -> Reply<T> {
    ask(store, Command::Lock(Cow::Borrowed(key), command))
}

fn of_request(request: &Request, command: RequestCommand) -> Command<'_> {
    Command::Request(Cow::Borrowed(request), command)
}
