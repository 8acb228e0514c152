//! The store's commands, each with the faults that are planned for it.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::{Ear, FaultInjector, lock};
use crate::core::error::Step;
use crate::core::key::LockKey;
use crate::core::name_pattern::NamePattern;
use crate::store::{
    Adoption, All, Attempt, ClientId, ClientInfo, Detached, Diagnosis, Ended, Forced, Lingering,
    ListCursor, ListPage, Listener, LockInfo, Owner, Renewal, Renewals, Request, Stamp, Store,
    StoreFuture, Success, Usage, Waiting,
};

impl Store for FaultInjector {
    fn acquire(&self, request: &Request, waiting: Option<Waiting>) -> StoreFuture<Attempt> {
        self.answer("acquire", Some(Step::Acquire), || self.inner.acquire(request, waiting))
    }

    fn renew(&self, request: &Request) -> StoreFuture<Renewal> {
        self.answer("renew", Some(Step::Renew), || self.inner.renew(request))
    }

    /// Each by itself.
    fn renew_all(&self, requests: &[Request]) -> Renewals {
        let renewals: Vec<_> = requests.iter().map(|request| self.renew(request)).collect();
        Box::pin(join_all(renewals))
    }

    fn keep_offer(&self, request: &Request, until: Stamp) -> StoreFuture<()> {
        self.answer("keep_offer", None, || self.inner.keep_offer(request, until))
    }

    fn adopt(&self, from: Detached, request: &Request) -> StoreFuture<Adoption> {
        self.answer("adopt", Some(Step::Adopt), || self.inner.adopt(from, request))
    }

    fn release(&self, request: &Request, keep: Duration) -> StoreFuture<Ended> {
        self.answer("release", Some(Step::Release), || self.inner.release(request, keep))
    }

    fn release_and_forget(&self, request: &Request) -> StoreFuture<Ended> {
        self.answer("release", Some(Step::Release), || self.inner.release_and_forget(request))
    }

    fn complete(&self, request: &Request, success: Success) -> Option<StoreFuture<Ended>> {
        let nothing = || -> StoreFuture<_> { Box::pin(async { Ok(Ended::Released) }) };
        let command = || self.inner.complete(request, success).unwrap_or_else(nothing);
        Some(self.answer("complete", Some(Step::Complete), command))
    }

    fn can_linger(&self, request: &Request) -> bool {
        self.inner.can_linger(request)
    }

    fn linger(&self, request: &Request, usage: Usage) -> Option<StoreFuture<Lingering>> {
        // To its caller it is a release, or a renewal in the background.
        let step = if usage.is_in_use() { Step::Renew } else { Step::Release };
        self.can_linger(request).then(|| {
            let command = || {
                let lingering = self.inner.linger(request, usage);
                // Meanwhile the store can't recall any more.
                lingering.unwrap_or_else(|| self.end_instead(request, usage))
            };
            self.answer("linger", Some(step), command)
        })
    }

    fn cancel(&self, request: &Request) -> StoreFuture<bool> {
        self.answer("cancel", None, || self.inner.cancel(request))
    }

    fn acquire_all(&self, requests: &[Request]) -> Option<StoreFuture<All>> {
        let nothing = || -> StoreFuture<_> { Box::pin(async { Ok(Err(None)) }) };
        let command = || self.inner.acquire_all(requests).unwrap_or_else(nothing);
        Some(self.answer("acquire_all", Some(Step::Acquire), command))
    }

    fn inspect(&self, key: &LockKey) -> StoreFuture<LockInfo> {
        self.answer("inspect", Some(Step::Inspect), || self.inner.inspect(key))
    }

    fn list(&self, names: &NamePattern, from: ListCursor) -> Option<StoreFuture<ListPage>> {
        let nothing = || -> StoreFuture<_> { Box::pin(async { Ok(ListPage::default()) }) };
        let command = || self.inner.list(names, from).unwrap_or_else(nothing);
        Some(self.answer("list", Some(Step::Inspect), command))
    }

    fn diagnose(&self) -> StoreFuture<Diagnosis> {
        self.answer("diagnose", Some(Step::Inspect), || self.inner.diagnose())
    }

    fn is_held_by(&self, key: &LockKey, owner: &Owner) -> StoreFuture<bool> {
        self.answer("is_held_by", Some(Step::Inspect), || self.inner.is_held_by(key, owner))
    }

    fn force_release(&self, key: &LockKey) -> StoreFuture<Forced> {
        self.answer("force_release", Some(Step::ForceRelease), || self.inner.force_release(key))
    }

    fn was_forced(&self, request: &Request) -> StoreFuture<bool> {
        self.answer("was_forced", None, || self.inner.was_forced(request))
    }

    /// Never fails: it comes before what a test plans.
    fn introduce(&self, client: &ClientInfo, lasts: Duration) -> StoreFuture<()> {
        self.inner.introduce(client, lasts)
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
