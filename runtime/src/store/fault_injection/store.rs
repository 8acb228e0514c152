//! The store's commands, each with the faults that are planned for it.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use super::{Ear, FaultInjector, lock};
use crate::store::{
    Answer, ClientId, Command, LimitCommand, Listener, Request, RequestCommand, Store, StoreFuture,
    Subscription, renew_each,
};

impl Store for FaultInjector {
    fn send(&self, command: Command<'_>) -> StoreFuture<Answer> {
        match command {
            // Never fails: it comes before what a test plans.
            Command::Introduce(..) | Command::Limits(LimitCommand::Read) => {
                self.inner.send(command)
            }
            Command::RenewAll(requests) => renew_each(self, &requests),
            // To a test both are releases.
            Command::Request(_, RequestCommand::ReleaseAndForget) => {
                self.answer("release", command)
            }
            _ => self.answer(command.name(), command),
        }
    }

    fn can(&self, command: &Command<'_>) -> bool {
        self.inner.can(command)
    }

    fn listen(&self, client: ClientId, listener: Weak<dyn Listener>) {
        let ear = Arc::new(Ear { listener, held: Mutex::default() });
        let heard: Weak<Ear> = Arc::downgrade(&ear);
        self.inner.listen(client, heard);
        lock(&self.ears).push(ear);
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
        self.inner.now() + *lock(&self.suspended)
    }
}
