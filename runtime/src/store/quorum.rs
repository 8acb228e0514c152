//! Several stores as one: what a majority of them grants is held. After Redlock, by
//! Salvatore Sanfilippo: <https://redis.io/docs/latest/develop/use/patterns/distributed-locks/>.
//!
//! All are asked at once, and each has its own short time-out; the answer is there as
//! soon as a majority decides it either way. Two majorities have a store in common, and
//! that one says no to the second. There is no queue: the stores would put those who
//! wait into different orders, and each grant its part to another.

mod no_majority;
mod pending_cancels;
mod release;
mod renewal;
mod round;

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::Handle;

use self::pending_cancels::Member;
use self::round::Round;
use super::{
    Adoption, All, Attempt, ClientId, ClientInfo, Ended, Forced, Kind, Listener, LockInfo, Owner,
    QuorumMember, Renewal, Renewals, Request, RequestId, Store, StoreError, StoreFuture, Waiting,
    at_once,
};
use crate::core::error::Outcome;
use crate::core::key::LockKey;

/// For how long a writer who was refused keeps readers out: for one more try, with the
/// longest pause before it.
const AGAIN: Duration = Duration::from_millis(400);

/// By how much the clocks of two stores may differ: as the script `include/raise` has it.
/// No lease is shorter.
const AHEAD: Duration = Duration::from_millis(100);

/// Keeps mutexes and read-write locks on an odd number of stores that know nothing of
/// each other.
///
/// A semaphore is refused: a majority for each of its holders keeps no count of them.
#[derive(Clone)]
pub struct Quorum {
    members: Arc<[Arc<Member>]>,
    longest_ttl: Duration,
    /// Goes on with what its callers need not wait for.
    runtime: Handle,
}

impl Quorum {
    /// A quorum of these stores, each with the name it has in errors. Leases that last
    /// longer than `longest_ttl` are refused: a store that lost its memory counts again
    /// after so long.
    ///
    /// # Panics
    ///
    /// If there are less than three, or an even number: four survive the loss of one, as
    /// three do, and two of four are no majority.
    #[must_use]
    pub fn new(
        nodes: impl IntoIterator<Item = (String, Arc<dyn QuorumMember>)>,
        longest_ttl: Duration,
        runtime: Handle,
    ) -> Self {
        let members: Arc<[_]> =
            nodes.into_iter().map(|(name, store)| Arc::new(Member::new(name, store))).collect();
        assert!(members.len() >= 3 && members.len() % 2 == 1, "{} stores", members.len());
        Self { members, longest_ttl, runtime }
    }
}

/// How many of them are a majority: so many grant, and so many refuse.
fn majority(members: &[Arc<Member>]) -> usize {
    members.len() / 2 + 1
}

/// What the stores answer, each with its place.
type Asked<T> = FuturesUnordered<Pin<Box<dyn Future<Output = (usize, T)> + Send>>>;

/// Asks all of them.
fn ask<T, F>(members: &[Arc<Member>], command: impl Fn(&Member) -> F) -> Asked<T>
where
    F: Future<Output = T> + Send + 'static,
{
    let asked = members.iter().enumerate().map(|(place, member)| {
        let answer = command(member);
        Box::pin(async move { (place, answer.await) }) as Pin<Box<_>>
    });
    asked.collect()
}

/// What several stores can't do together.
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
        // What is asked is on its way when this returns.
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

    fn adopt(&self, _: RequestId, _: &Request) -> StoreFuture<Adoption> {
        refuse("adopting a lease")
    }

    fn release(&self, request: &Request, keep: Duration) -> StoreFuture<Ended> {
        // A token is at most so far ahead of a server's clock, and is not to end before.
        let keep = if keep.is_zero() { keep } else { keep.max(AHEAD) };
        release::release(&self.members, request, keep, &self.runtime)
    }

    fn cancel(&self, request: &Request) -> StoreFuture<bool> {
        release::cancel(&self.members, request, &self.runtime)
    }

    fn inspect(&self, _: &LockKey) -> StoreFuture<LockInfo> {
        refuse("looking at a lock")
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
            // Who is not there now is told the next time.
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
        // Votes, tokens, and what is given back.
        Some(self.members.iter().filter_map(|it| it.store.answers_within(ttl)).max()? * 3)
    }

    fn now(&self) -> Instant {
        // There are three at least.
        self.members.first().map_or_else(Instant::now, |member| member.store.now())
    }
}

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.members.iter().map(|member| &member.name);
        f.debug_list().entries(names).finish()
    }
}
