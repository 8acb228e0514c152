//! The contract that every store keeps.

use std::fmt;
use std::pin::Pin;
use std::sync::Weak;
use std::time::{Duration, Instant};

use tokio::task::consume_budget;

use super::answers::{Answer, Hint, Renewal};
use super::command::Command;
use super::request::{ClientId, Request};
use crate::core::store_error::StoreError;

/// An answer that comes later. It borrows nothing, so the keeper can finish a command whose
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

/// How long a client does without messages after its subscription has failed or was refused, before it
/// tries again: somebody may have given its user the right.
pub(crate) const RESUBSCRIBE: Duration = Duration::from_secs(10);

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
///    keeping of it expires; except after
///    [`RequestCommand::ReleaseAndForget`](super::RequestCommand::ReleaseAndForget);
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
    /// Sends a command: now, not when the answer is polled. Nobody sends one that it
    /// [can't](Self::can) do; it then grants nothing, and may fail.
    fn send(&self, command: Command<'_>) -> StoreFuture<Answer>;

    /// Returns true if it can do the command now.
    fn can(&self, command: &Command<'_>) -> bool;

    /// Sends the client's hints to `listener`, as long as that lives.
    fn listen(&self, client: ClientId, listener: Weak<dyn Listener>);

    /// Returns true if hints can be expected now. If not, waiters must ask often. Only a waiter
    /// may call this: it reopens a connection for hints that was lost.
    fn gives_hints(&self) -> bool;

    /// Subscribes to the hints for one lock, before the request waits or lingers. `None` if the
    /// store needs no subscription.
    fn subscribe(&self, request: &Request) -> Option<StoreFuture<Subscription>>;

    /// Returns true if waiters stand in a queue of the store. Without a queue each ask is a
    /// request of its own, which the store takes back itself if it is not granted; and a caller
    /// that does not wait asks once, even if the store fails.
    fn has_queue(&self) -> bool;

    /// The longest that a lease may last, or be kept after it.
    fn longest_ttl(&self) -> Duration;

    /// Returns true if all locks are out of reach together. If not, each may be on a server of
    /// its own.
    fn fails_as_one(&self) -> bool;

    /// How long an answer to an acquire may take, time-outs and repeats included; `None`
    /// if the store answers at once.
    fn answers_within(&self, ttl: Duration) -> Option<Duration>;

    /// The clock that this client reads its deadlines from. It may go on while the
    /// system is suspended and timers stand still: so sleep for the time that is left, never
    /// until an `Instant`.
    fn now(&self) -> Instant;
}
