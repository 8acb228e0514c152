//! The contract that every store keeps.

use std::fmt;
use std::pin::Pin;
use std::sync::Weak;
use std::time::{Duration, Instant};

use tokio::task::consume_budget;

use super::answers::{Adoption, All, Attempt, Ended, Hint, Lingering, Renewal};
use super::detached::Detached;
use super::diagnosis::Diagnosis;
use super::inspection::{ClientInfo, Forced, LockInfo};
use super::listing::{ListCursor, ListPage};
use super::once::Success;
use super::request::{ClientId, Owner, Request, Stamp, Waiting};
use super::usage::Usage;
use crate::core::key::LockKey;
use crate::core::name_pattern::NamePattern;
use crate::core::store_error::StoreError;

/// The answer to a command. It borrows nothing, so the keeper can finish a command whose
/// caller went away.
pub type StoreFuture<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// The answers to renewals that were sent together, one for each request.
pub type Renewals = Pin<Box<dyn Future<Output = Vec<Result<Renewal, StoreError>>> + Send>>;

/// While it lives, the store's hints for one lock reach the client.
pub type Subscription = Box<dyn Send + Sync>;

/// An answer that is already there. It costs its task a unit of tokio's budget: otherwise a
/// loop that never waits would keep its thread from timers and from all other tasks.
pub(super) fn at_once<T: Send + 'static>(answer: Result<T, StoreError>) -> StoreFuture<T> {
    Box::pin(async {
        consume_budget().await;
        answer
    })
}

/// How many fencing tokens a grant reserves: its own, and those of the leases that follow
/// it in the same process. All tokens of the next grant are greater.
pub const TOKENS: u64 = 64;

/// The longest that a store takes a waiter to be alive after its last ask.
pub const LIVE_MOST: Duration = Duration::from_secs(15);

/// How long a store takes a waiter to be alive after it asked. A waiter asks three times in
/// it, so a shorter time would cost the store more.
pub(crate) const LIVE: Duration = Duration::from_secs(6);

/// The longest that an offer waits for its waiter. A client that is alive confirms it in
/// milliseconds; a dead one delays everybody else this long.
pub const OFFER: Duration = Duration::from_secs(1);

/// How long a client puts a command off until it is subscribed to the lock's messages. The server
/// may be silent.
pub(crate) const SUBSCRIBING: Duration = Duration::from_millis(250);

/// How long a grant may be relied on: its TTL less the drift between two
/// clocks, after Redlock.
#[must_use]
pub fn validity(ttl: Duration) -> Duration {
    ttl.saturating_sub(ttl / 100 + Duration::from_millis(2))
}

/// A client that receives hints. It must not block.
pub trait Listener: fmt::Debug + Send + Sync {
    /// Takes a hint.
    fn hear(&self, hint: Hint);
}

/// Keeps leases: one for a mutex, those of one owner for a reentrant mutex, as many as the
/// limit allows for a semaphore, readers or a writer for a read-write lock.
///
/// # Contract
///
/// For every key, at any one time:
///
/// 1. at most one mutex lease is live; no permit is granted that takes the total weight
///    above the limit of its own request; all live holds of a reentrant mutex belong to one
///    owner; and beside a live writer nothing is live but readers of its owner;
/// 2. a lease is live from its grant until its TTL, its last renewal or its
///    release ends it, by the store's own clock;
/// 3. each grant of a mutex, or to a writer, and each that gives a reentrant mutex
///    to an owner that did not have it, has a greater token than all before it; the
///    holds of an owner share one token, as long as one of them is live;
/// 4. every command may be sent twice: a repeated acquire gets the first one's
///    answer and starts the TTL anew, a repeated release changes nothing;
/// 5. a request that was released or cancelled is not granted again for a
///    minute, as long as no other request for the lock ends, and no lease or
///    keeping of it expires; except after [`Store::release_and_forget`];
/// 6. a renewal never brings back a lease that ended;
/// 7. nothing stays for ever: whatever a command leaves behind expires;
/// 8. nothing overtakes a live waiter. A release offers the lock to the first live waiter by
///    the same command. The offer ends after [`OFFER`], or with the waiter's heartbeat if
///    that is sooner; the waiter's client may keep it until the heartbeat ends. The waiter's
///    first renewal makes the offer a lease for its whole TTL. A waiter that did not confirm
///    in time returns to its position. If its client receives no hints, the store takes the
///    client's other waiters to be alive no longer than the offer lasts, until they ask
///    again. An owner that has a lease overtakes all waiters to take another hold, to read
///    once more, to read while it writes, or to write while it is the only reader: they all
///    wait for it;
/// 9. an adoption puts one request in the place of another that holds the lock, with
///    the next token if it is a mutex, a writer, or its owner's only hold; the other
///    request counts as ended;
/// 10. one name is one kind of lock: another kind is refused as long as somebody
///     holds the lock or waits for it, and changes nothing.
///
/// The test modules `conformance` hold every store to this contract.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Asks for the lock once. `waiting` says how the request waits in the queue; without it
    /// the request is not queued.
    fn acquire(&self, request: &Request, waiting: Option<Waiting>) -> StoreFuture<Attempt>;

    /// Asks for several mutexes and permits, all or none. The requests are for different locks,
    /// are not queued, have no owner and no note, and share one TTL. `None` if the store can't
    /// grant them together.
    fn acquire_all(&self, requests: &[Request]) -> Option<StoreFuture<All>>;

    /// Lets a lease run for its TTL from now.
    fn renew(&self, request: &Request) -> StoreFuture<Renewal>;

    /// Renews several leases in one batch. Each has an answer of its own, and one that fails
    /// does not fail the others.
    fn renew_all(&self, requests: &[Request]) -> Renewals;

    /// Lets an offer last until that heartbeat of its waiter ends, and confirms nothing. A
    /// lease that was renewed is not shortened, and one that ended is not made anew. Does
    /// nothing in a store that sends no offers.
    fn keep_offer(&self, request: &Request, until: Stamp) -> StoreFuture<()> {
        let _ = (request, until);
        at_once(Ok(()))
    }

    /// Puts a request that has never asked for the lock in the place of one that holds
    /// it with the same kind and the same owner. Refuses if a mutex was granted anew since.
    fn adopt(&self, from: Detached, request: &Request) -> StoreFuture<Adoption>;

    /// Ends a lease. A mutex then stays held without a holder for `keep`.
    fn release(&self, request: &Request, keep: Duration) -> StoreFuture<Ended>;

    /// Ends the lease of a mutex, and remembers nothing of its request: no copy of a command can
    /// arrive any more, because each was answered. Its tokens are at most the one that it was
    /// granted with, and all later tokens of the lock are greater. Sent again after an unknown
    /// outcome, it may find that the lease has expired. A store may remember the request all the
    /// same, as after [`release`](Self::release).
    fn release_and_forget(&self, request: &Request) -> StoreFuture<Ended> {
        self.release(request, Duration::ZERO)
    }

    /// Ends a lease of [`Kind::Once`](super::Kind::Once) whose work has succeeded: from now on
    /// the work counts as done. All waiters for it are told and leave the queue. A lease that had
    /// ended marks nothing. `None` if the store can't remember it.
    fn complete(&self, request: &Request, success: Success) -> Option<StoreFuture<Ended>> {
        let _ = (request, success);
        None
    }

    /// Returns true if the client may keep this request's lease without using it, because the
    /// store can send [`Hint::Recalled`] now. Where a lock needs a [`subscribe`](Self::subscribe)
    /// for its hints, that comes first.
    fn can_linger(&self, request: &Request) -> bool {
        let _ = request;
        false
    }

    /// Lets the client keep a lease without using it, for its TTL from now. If others want the
    /// lock, a lease that nobody uses is released. The first request of another client that wants
    /// the lock from now on makes the store send [`Hint::Recalled`]; each later ask of the first
    /// waiter repeats it. `None` if [`can_linger`](Self::can_linger) is false.
    fn linger(&self, request: &Request, usage: Usage) -> Option<StoreFuture<Lingering>> {
        let _ = (request, usage);
        None
    }

    /// Takes an acquisition back, whether it was granted, waits, or neither, and
    /// says whether it was granted.
    fn cancel(&self, request: &Request) -> StoreFuture<bool>;

    /// The holders and the waiters of a lock.
    fn inspect(&self, key: &LockKey) -> StoreFuture<LockInfo>;

    /// A page of the locks whose names match, and that may be held, kept or waited for. A lock
    /// that is one of these from the first page to the last is named at least once, if the same
    /// servers keep their locks all the time. `None` if the store can't list its locks.
    fn list(&self, names: &NamePattern, from: ListCursor) -> Option<StoreFuture<ListPage>> {
        let _ = (names, from);
        None
    }

    /// Looks for what puts the locks at risk, or slows them down.
    fn diagnose(&self) -> StoreFuture<Diagnosis>;

    /// Asks if an owner holds a lock, of any kind.
    fn is_held_by(&self, key: &LockKey, owner: &Owner) -> StoreFuture<bool>;

    /// Takes a lock, of any kind, from all its holders.
    fn force_release(&self, key: &LockKey) -> StoreFuture<Forced>;

    /// Asks if a lease that is not held any more was taken by force. The store knows until the
    /// lease would have ended.
    fn was_forced(&self, request: &Request) -> StoreFuture<bool>;

    /// Records which process a client is, for `lasts`.
    fn introduce(&self, client: &ClientInfo, lasts: Duration) -> StoreFuture<()>;

    /// Sends the client's hints to `listener`, as long as that lives.
    fn listen(&self, client: ClientId, listener: Weak<dyn Listener>);

    /// Returns true if hints can be expected now. If not, waiters must ask often. Only a waiter
    /// may call this: it reopens a connection for hints that was lost.
    fn gives_hints(&self) -> bool;

    /// Subscribes to the hints for one lock, before the request waits or lingers. `None` if the
    /// store needs no subscription.
    fn subscribe(&self, request: &Request) -> Option<StoreFuture<Subscription>> {
        let _ = request;
        None
    }

    /// Returns true if waiters stand in a queue of the store. Without a queue each ask is a
    /// request of its own, which the store takes back itself if it is not granted; and a caller
    /// that does not wait asks once, even if the store fails.
    fn has_queue(&self) -> bool {
        true
    }

    /// The longest that a lease may last, or be kept after it.
    fn longest_ttl(&self) -> Duration {
        Duration::MAX
    }

    /// Returns true if all locks are out of reach together. If not, each may be on a server of
    /// its own.
    fn fails_as_one(&self) -> bool {
        true
    }

    /// How long an answer to an acquire may take, time-outs and repeats included; `None`
    /// if the store answers at once.
    fn answers_within(&self, ttl: Duration) -> Option<Duration> {
        let _ = ttl;
        None
    }

    /// The clock that this client reads its deadlines from. It may go on while the
    /// system is suspended and timers stand still: so sleep for the time that is left, never
    /// until an `Instant`.
    fn now(&self) -> Instant;
}
