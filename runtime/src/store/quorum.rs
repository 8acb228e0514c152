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
    Answer, Ask, ClientId, ClientInfo, Command, Diagnosis, Kind, Listener, LockCommand, NotAll,
    Request, RequestCommand, Store, StoreError, StoreFuture, Subscription, at_once,
};
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
        stores: impl IntoIterator<Item = (String, Arc<dyn Store>)>,
        longest_ttl: Duration,
        runtime: Handle,
    ) -> Self {
        let members: Arc<[_]> =
            stores.into_iter().map(|(name, store)| Arc::new(Member::new(name, store))).collect();
        assert!(members.len() >= 3 && members.len() % 2 == 1, "{} stores", members.len());
        Self { members, longest_ttl, runtime }
    }
}

/// Refuses what several stores can't do together.
fn refuse(what: &str) -> StoreFuture<Answer> {
    let problem = format!("{what} is not possible on a quorum of servers; use one server");
    at_once(Err(StoreError::impossible(problem)))
}

impl Quorum {
    fn for_request(&self, request: &Request, command: RequestCommand) -> StoreFuture<Answer> {
        let (members, runtime) = (&self.members, &self.runtime);
        match command {
            RequestCommand::Acquire(waiting) => {
                if !matches!(request.kind, Kind::Mutex | Kind::Read | Kind::Write) {
                    return refuse("this kind of lock");
                }
                let again = waiting.map_or(Duration::ZERO, |waiting| waiting.live.min(AGAIN));
                // Sends the votes now, not when the future is polled.
                let round = Round::begin(members, request, again, runtime);
                Box::pin(async move { round.run().await.map(Answer::Attempt) })
            }
            RequestCommand::Renew => {
                let renewals = renewal::renew_all(members, std::slice::from_ref(request), runtime);
                Box::pin(async move {
                    let renewal = renewals.await.pop().expect("there is one for each request");
                    renewal.map(Answer::Renewal)
                })
            }
            RequestCommand::Release(keep) => {
                // A token may be this far ahead of a member's clock. The record has to stay until
                // the clock is there.
                let keep = if keep.is_zero() { keep } else { keep.max(CLOCK_DRIFT) };
                release::release(members, request, keep, runtime)
            }
            RequestCommand::ReleaseAndForget => {
                release::release(members, request, Duration::ZERO, runtime)
            }
            RequestCommand::Cancel => release::cancel(members, request, runtime),
            // It sends no offers.
            RequestCommand::KeepOffer(_) => at_once(Ok(Answer::Done(()))),
            RequestCommand::WasForced => at_once(Ok(Answer::Flag(false))),
            RequestCommand::Adopt(_) => refuse("adopting a lease"),
            // Nobody asks for what `can` denies.
            _ => refuse("this command"),
        }
    }

    fn diagnose_all(&self) -> StoreFuture<Answer> {
        let look = |member: &Arc<Member>| {
            let (name, looked) = (member.name.clone(), member.store.diagnose());
            async move { looked.await.unwrap_or_else(|error| Diagnosis::unreachable(&name, &error)) }
        };
        let looks = join_all(self.members.iter().map(look).collect::<Vec<_>>());
        Box::pin(async move {
            let mut all = Diagnosis::default();
            looks.await.into_iter().for_each(|one| all.merge(one));
            Ok(Answer::Diagnosis(all))
        })
    }

    fn introduce_to_all(&self, client: &ClientInfo, lasts: Duration) -> StoreFuture<Answer> {
        let tell = |member: &Arc<Member>| member.store.introduce(client, lasts);
        let told: Vec<_> = self.members.iter().map(tell).collect();
        Box::pin(async move {
            // A member that can't be reached now is told the next time.
            join_all(told).await;
            Ok(Answer::Done(()))
        })
    }
}

impl Store for Quorum {
    fn send(&self, command: Command<'_>) -> StoreFuture<Answer> {
        match command {
            Command::Request(request, command) => self.for_request(&request, command),
            Command::RenewAll(requests) => {
                let renewals = renewal::renew_all(&self.members, &requests, &self.runtime);
                Box::pin(async move { Ok(Answer::Renewals(renewals.await)) })
            }
            Command::Diagnose => self.diagnose_all(),
            Command::Introduce(client, lasts) => self.introduce_to_all(&client, lasts),
            Command::AcquireAll(..) => at_once(Ok(Answer::All(Err(NotAll::Unknown)))),
            Command::Lock(_, LockCommand::ForceRelease(_)) => refuse("taking a lock by force"),
            Command::Lock(..) => refuse("looking at a lock"),
            Command::List(..) | Command::Limits(_) | Command::GiveBack(_) => refuse("this command"),
        }
    }

    fn can(&self, command: &Command<'_>) -> bool {
        matches!(
            command,
            Command::Request(
                _,
                RequestCommand::Acquire(_)
                    | RequestCommand::Renew
                    | RequestCommand::KeepOffer(_)
                    | RequestCommand::Release(_)
                    | RequestCommand::ReleaseAndForget
                    | RequestCommand::Cancel
                    | RequestCommand::WasForced
            ) | Command::RenewAll(_)
                | Command::Diagnose
                | Command::Introduce(..)
        )
    }

    fn listen(&self, _: ClientId, _: Weak<dyn Listener>) {}

    fn gives_hints(&self) -> bool {
        false
    }

    fn subscribe(&self, _: &Request) -> Option<StoreFuture<Subscription>> {
        None
    }

    fn has_queue(&self) -> bool {
        false
    }

    fn longest_ttl(&self) -> Duration {
        self.longest_ttl
    }

    fn fails_as_one(&self) -> bool {
        true
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
