//! Several stores as one: a lock is held if a majority of them grants it. After Redlock, by
//! Salvatore Sanfilippo: <https://redis.io/docs/latest/develop/use/patterns/distributed-locks/>.
//!
//! A command goes to all members at once, each with its own short time-out. The answer is
//! known as soon as a majority decides it either way. Any two majorities share a member,
//! and that member refuses the second holder. There is no queue: each member would order
//! the waiters differently, and could grant its vote to another one.

mod members;
mod no_majority;
mod pending_cancels;
mod release;
mod renewal;
mod round;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::runtime::Handle;

use self::members::{CLOCK_DRIFT, Member};
use self::round::Round;
use super::{
    Adoption, All, Attempt, ClientId, ClientInfo, Detached, Diagnosis, Ended, Forced, Kind,
    Listener, LockInfo, Owner, QuorumMember, Renewal, Renewals, Request, Store, StoreError,
    StoreFuture, Waiting, at_once,
};
use crate::core::error::Outcome;
use crate::core::key::LockKey;
use crate::system;

/// How long a refused writer keeps new readers out: long enough for one more try after the
/// longest pause.
const AGAIN: Duration = Duration::from_millis(400);

/// Keeps mutexes and read-write locks on an odd number of stores that know nothing of
/// each other.
///
/// It refuses semaphores: a majority for each holder does not count the holders.
#[derive(Clone)]
pub struct Quorum {
    members: Arc<[Arc<Member>]>,
    longest_ttl: Duration,
    /// Runs the work that no caller waits for.
    runtime: Handle,
}

impl Quorum {
    /// A quorum of these stores, each with its name in errors. Leases longer than
    /// `longest_ttl` are refused: a store that lost its memory votes again after that time.
    ///
    /// # Panics
    ///
    /// If there are fewer than three stores, or an even number: four survive the loss of one,
    /// as three do, and two of four are no majority.
    #[must_use]
    pub fn new(
        stores: impl IntoIterator<Item = (String, Arc<dyn QuorumMember>)>,
        longest_ttl: Duration,
        runtime: Handle,
    ) -> Self {
        let members: Arc<[_]> =
            stores.into_iter().map(|(name, store)| Arc::new(Member::new(name, store))).collect();
        assert!(members.len() >= 3 && members.len() % 2 == 1, "{} stores", members.len());
        Self { members, longest_ttl, runtime }
    }
}

/// The error for a command that several stores can't run together.
fn unsupported(what: &str) -> StoreError {
    let source = format!("{what} is not possible on a quorum of servers; use one server").into();
    StoreError { outcome: Outcome::NotRun, is_passing: false, is_shut_down: false, source }
}

fn refuse<T: Send + 'static>(what: &str) -> StoreFuture<T> {
    at_once(Err(unsupported(what)))
}

impl Store for Quorum {
    fn acquire(&self, request: &Request, waiting: Option<Waiting>) -> StoreFuture<Attempt> {
        if !matches!(request.kind, Kind::Mutex | Kind::Read | Kind::Write) {
            return refuse("this kind of lock");
        }
        let again = waiting.map_or(Duration::ZERO, |waiting| waiting.live.min(AGAIN));
        // Sends the votes now, not when the future is polled.
        let round = Round::begin(&self.members, request, again, &self.runtime);
        Box::pin(round.run())
    }

    fn acquire_all(&self, _: &[Request]) -> Option<StoreFuture<All>> {
        None
    }

    fn renew(&self, request: &Request) -> StoreFuture<Renewal> {
        let renewals = self.renew_all(std::slice::from_ref(request));
        Box::pin(
            async move { renewals.await.pop().unwrap_or_else(|| Err(unsupported("no renewal"))) },
        )
    }

    fn renew_all(&self, requests: &[Request]) -> Renewals {
        renewal::renew_all(&self.members, requests, &self.runtime)
    }

    fn adopt(&self, _: Detached, _: &Request) -> StoreFuture<Adoption> {
        refuse("adopting a lease")
    }

    fn release(&self, request: &Request, keep: Duration) -> StoreFuture<Ended> {
        // A token may be this far ahead of a member's clock. The record has to stay until the
        // clock is there.
        let keep = if keep.is_zero() { keep } else { keep.max(CLOCK_DRIFT) };
        release::release(&self.members, request, keep, &self.runtime)
    }

    fn cancel(&self, request: &Request) -> StoreFuture<bool> {
        release::cancel(&self.members, request, &self.runtime)
    }

    fn inspect(&self, _: &LockKey) -> StoreFuture<LockInfo> {
        refuse("looking at a lock")
    }

    fn diagnose(&self) -> StoreFuture<Diagnosis> {
        let look = |member: &Arc<Member>| {
            let (name, looked) = (member.name.clone(), member.store.diagnose());
            async move { looked.await.unwrap_or_else(|error| Diagnosis::unreachable(&name, &error)) }
        };
        let looks = join_all(self.members.iter().map(look).collect::<Vec<_>>());
        Box::pin(async move {
            let mut all = Diagnosis::default();
            looks.await.into_iter().for_each(|one| all.merge(one));
            Ok(all)
        })
    }

    fn is_held_by(&self, _: &LockKey, _: &Owner) -> StoreFuture<bool> {
        refuse("looking at a lock")
    }

    fn force_release(&self, _: &LockKey) -> StoreFuture<Forced> {
        refuse("taking a lock by force")
    }

    fn was_forced(&self, _: &Request) -> StoreFuture<bool> {
        at_once(Ok(false))
    }

    fn introduce(&self, client: &ClientInfo, lasts: Duration) -> StoreFuture<()> {
        let told: Vec<_> =
            self.members.iter().map(|member| member.store.introduce(client, lasts)).collect();
        Box::pin(async move {
            // A member that can't be reached now is told the next time.
            join_all(told).await;
            Ok(())
        })
    }

    fn listen(&self, _: ClientId, _: Weak<dyn Listener>) {}

    fn gives_hints(&self) -> bool {
        false
    }

    fn has_queue(&self) -> bool {
        false
    }

    fn longest_ttl(&self) -> Duration {
        self.longest_ttl
    }

    fn answers_within(&self, ttl: Duration) -> Option<Duration> {
        // One round each for the votes, the tokens and the cancels.
        Some(self.members.iter().filter_map(|it| it.store.answers_within(ttl)).max()? * 3)
    }

    fn now(&self) -> Instant {
        // There are at least three members.
        self.members.first().map_or_else(system::now, |member| member.store.now())
    }
}

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.members.iter().map(|member| &member.name);
        f.debug_list().entries(names).finish()
    }
}
