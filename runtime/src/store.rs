//! Where leases are kept, and what every store must do.
//!
//! A store answers one command. It knows nothing of guards, of how long a caller
//! waits, or of when to renew: those are the same over every store.
//!
//! Not a public interface: it is visible so that the conformance suite can ask
//! each store the same questions.

pub mod fault_injection;
mod inspection;
pub mod memory;
pub mod quorum;
mod quorum_member;
#[cfg(feature = "redis")]
pub mod redis;
mod request;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Weak;
use std::time::{Duration, Instant};

use tokio::task::consume_budget;

pub use self::inspection::{ClientInfo, Forced, Holder, LockInfo, LockKind, Waiter};
pub use self::quorum_member::{Mended, Node};
pub(crate) use self::request::Wanted;
pub use self::request::{ClientId, Kind, Owner, Request, RequestId};
use crate::core::error::LossReason;
pub use crate::core::error::StoreError;
use crate::core::key::LockKey;

/// The answer to a command. It owns what it needs, so that a command whose
/// caller went away can be finished by the keeper.
pub type StoreFuture<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// An answer that is there already. It costs its task a unit of tokio's budget: or a loop
/// that is never made to wait would keep its thread from timers and from all others.
fn at_once<T: Send + 'static>(answer: Result<T, StoreError>) -> StoreFuture<T> {
    Box::pin(async {
        consume_budget().await;
        answer
    })
}

/// How a request waits in the queue, if it can't be granted at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// For how long from when it is asked the waiter is known to live: less
    /// than [`LIVE_MOST`]. Unless it asks again by then, it is passed over.
    pub live: Duration,
    /// Its place in the queue.
    pub ticket: Ticket,
}

/// How many fencing tokens a grant reserves: its own, and those of the leases that follow
/// it in the same process. The next grant's are all greater.
pub const TOKENS: u64 = 64;

/// The longest that a waiter may be taken to live without asking again.
pub const LIVE_MOST: Duration = Duration::from_secs(15);

/// For how long a waiter is known to live after it asked. It asks three times in it, so
/// a shorter one would cost the store more.
pub(crate) const LIVE: Duration = Duration::from_secs(6);

/// For how long an offer waits for its waiter at most. A client that lives confirms it in
/// milliseconds; one that does not costs all others so much.
pub const OFFER: Duration = Duration::from_secs(1);

/// How long a grant may be relied on: its TTL less the drift between two
/// clocks, after Redlock.
#[must_use]
pub fn validity(ttl: Duration) -> Duration {
    ttl.saturating_sub(ttl / 100 + Duration::from_millis(2))
}

/// A waiter's place in the queue: by the store's time when it first asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticket {
    /// It was told none yet.
    New {
        /// How long ago it first asked, if it was told none since.
        age: Duration,
    },
    /// As it was told: it keeps its place, even if it was passed over.
    Told(u64),
}

/// Until when a waiter is known to live, by the store's clock. Only good for being compared
/// with another of the same request, and for being said to the store.
pub type Stamp = u64;

/// The answer to an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The request holds the lock, for its TTL from now.
    Granted {
        /// The fencing token; 0 for what has none.
        token: u64,
    },
    /// Others hold it, or were here before, and the request is in the queue.
    Queued {
        /// Its place, to be sent with all later asks.
        ticket: u64,
        /// Until when it is known to live.
        until: Stamp,
        /// When to ask again, whatever is heard meanwhile.
        ask_again: Duration,
    },
    /// Others hold it, or wait for it, and the request is not in the queue.
    Busy {
        /// For so much longer, unless they renew.
        retry_after: Duration,
        /// What holds it had no expiry, and was given the request's TTL.
        repaired: bool,
        /// Nobody holds it, and it is kept for so much longer: a mutex alone.
        kept: bool,
    },
    /// The request was released or cancelled before: it is never granted again.
    Ended,
    /// The name is in use by another kind of lock, or by no lock at all.
    WrongKind,
    /// Its owner reads or writes, and would wait for himself, or for others who
    /// read: a writer's lease is for who has nothing, or alone reads and tries. The
    /// request is not in the queue.
    WouldDeadlock,
}

/// The answer to an acquire of several: their tokens; or, if not all were granted, the
/// place of the first that is not free, if that is known.
pub type All = Result<Vec<u64>, Option<usize>>;

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Renewal {
    /// The lease lasts its TTL from now.
    Renewed,
    /// It had ended, and stays ended.
    NotHeld(LossReason),
}

/// The answers to renewals that were sent together, each its own.
pub type Renewals = Pin<Box<dyn Future<Output = Vec<Result<Renewal, StoreError>>> + Send>>;

/// The answer to an adoption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Adoption {
    /// The request has the other's place, for its TTL from now.
    Adopted {
        /// The fencing token; 0 for what has none.
        token: u64,
    },
    /// The lease had ended, or another request has adopted it. Nothing was changed.
    NotHeld(LossReason),
}

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ended {
    /// The lease is ended, by this command or an earlier copy of it.
    Released,
    /// The hold is ended, by this command or an earlier copy of it, and so many
    /// others of its owner are left.
    StillHeld(u32),
    /// The lease is ended, and the lock stays held without a holder.
    Kept,
    /// It had ended before. Nothing was changed.
    NotHeld(LossReason),
}

/// What a store tells a client unasked. Losing it costs time, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// A waiter was offered the lock: it has it for [`OFFER`], or until it would be
    /// taken for dead if that is sooner, and for good once it was renewed.
    Offered {
        /// The waiter.
        id: RequestId,
        /// The fencing token; 0 for what has none.
        token: u64,
        /// Which of the waiter's asks the offer is for. What is older than its
        /// last answer was about an offer that ended.
        until: Stamp,
        /// By how much sooner the offer ends than that heartbeat.
        early: Duration,
    },
    /// What it waits for may be free: it should ask at once.
    Free {
        /// The waiter.
        id: RequestId,
    },
    /// What it holds may have been taken by force: it should ask.
    Forced {
        /// The holder.
        id: RequestId,
    },
    /// Hints may have been lost: whoever waits should ask again.
    Missed,
}

/// A client that hears hints. It must not block.
pub trait Listener: fmt::Debug + Send + Sync {
    /// Takes a hint.
    fn hear(&self, hint: Hint);
}

/// As long as it lives, the store's hints for one lock reach the client.
pub type Attendance = Box<dyn Send + Sync>;

/// Keeps leases: one a mutex, those of one owner a reentrant mutex, as many as the
/// limit a semaphore, readers or a writer a read-write lock.
///
/// # Contract
///
/// For every key, at any one time:
///
/// 1. at most one mutex lease is live; no permit is granted that takes the weight
///    that is out above its own limit; all live holds of a reentrant mutex are one
///    owner's; and beside a live writer nothing is live but readers of its owner;
/// 2. a lease is live from its grant until its TTL, its last renewal or its
///    release ends it, by the store's own clock;
/// 3. each grant of a mutex, or to a writer, and each that gives a reentrant mutex
///    to an owner who did not have it, has a greater token than all before it; the
///    holds of an owner have the same one, as long as one of them is live;
/// 4. every command may be sent twice: a repeated acquire has the first one's
///    answer and starts the TTL anew, a repeated release changes nothing;
/// 5. a request that was released or cancelled is not granted again for a
///    minute, as long as no other of the same lock ended since, and no lease or
///    keeping of it ran out;
/// 6. a renewal never brings back a lease that ended;
/// 7. nothing stays for ever: whatever a command leaves behind ends by itself;
/// 8. nothing overtakes a waiter that is known to live: a lock that is released
///    goes to the first of the queue by the same command, as an offer that ends
///    after [`OFFER`], or when the waiter would be taken for dead; that its client may
///    have kept until then; and that its first renewal makes a lease for its whole TTL.
///    Who did not confirm it in time
///    comes back to its place; where its client hears nothing, its others are taken
///    to live for no longer than the offer lasts, until they ask again. An owner who has a lease overtakes all to another
///    hold, to read once more, to read while he writes, or to write when he alone
///    reads: whoever waits, waits for him;
/// 9. an adoption puts one request in the place of another that holds the lock, with
///    the next token if it is a mutex, a writer, or its owner's only hold; the other
///    counts as ended;
/// 10. one name is one kind of lock: another kind is refused as long as somebody
///     holds it or waits for it, and changes nothing.
///
/// The modules `conformance` of the tests hold every store to it.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Asks for the lock, once; `waiting` says how to wait for it.
    fn acquire(&self, request: &Request, waiting: Option<Waiting>) -> StoreFuture<Attempt>;

    /// Asks for several mutexes, all or none. They are not queued for, have no owner, and
    /// last equally long. Nothing at all where the store can't grant them together.
    fn acquire_all(&self, requests: &[Request]) -> Option<StoreFuture<All>>;

    /// Lets a lease run for its TTL from now.
    fn renew(&self, request: &Request) -> StoreFuture<Renewal>;

    /// The same for several leases, in one go: whatever one is answered is no answer
    /// to the others.
    fn renew_all(&self, requests: &[Request]) -> Renewals;

    /// Lets an offer last until that heartbeat of its waiter ends, and confirms nothing: what
    /// was renewed, or ended, is not shortened, nor made anew. Nothing is done where no
    /// offers are told.
    fn keep_offer(&self, request: &Request, until: Stamp) -> StoreFuture<()> {
        let _ = (request, until);
        at_once(Ok(()))
    }

    /// Puts a request that has never asked for the lock in the place of one that holds
    /// it, and whose kind and owner are the same.
    fn adopt(&self, from: RequestId, request: &Request) -> StoreFuture<Adoption>;

    /// Ends a lease; a mutex then stays held without a holder for `keep`.
    fn release(&self, request: &Request, keep: Duration) -> StoreFuture<Ended>;

    /// Takes an acquisition back, whether it was granted, waits, or neither, and
    /// says whether it was granted.
    fn cancel(&self, request: &Request) -> StoreFuture<bool>;

    /// Who holds a lock, and who waits for it.
    fn inspect(&self, key: &LockKey) -> StoreFuture<LockInfo>;

    /// Whether an owner holds a lock, of whatever kind.
    fn is_held_by(&self, key: &LockKey, owner: &Owner) -> StoreFuture<bool>;

    /// Takes a lock, of whatever kind, from all who hold it.
    fn force_release(&self, key: &LockKey) -> StoreFuture<Forced>;

    /// Whether a lease that is not held any more was taken by force. Known until it
    /// would have ended.
    fn was_forced(&self, request: &Request) -> StoreFuture<bool>;

    /// Notes who a client is, for `lasts`.
    fn introduce(&self, client: &ClientInfo, lasts: Duration) -> StoreFuture<()>;

    /// Tells `listener` what waiters of the client are offered, as long as it is
    /// there.
    fn listen(&self, client: ClientId, listener: Weak<dyn Listener>);

    /// Whether hints can be expected now. If not, who waits must ask often. Only who waits
    /// asks this: a connection for hints that is lost is made anew for it.
    fn gives_hints(&self) -> bool;

    /// Where hints are subscribed to lock by lock, a subscription to the
    /// request's: to be had before it waits. Nothing where there is no need.
    fn attend(&self, request: &Request) -> Option<StoreFuture<Attendance>> {
        let _ = request;
        None
    }

    /// Whether those who wait stand in a queue of the store. If not, each ask is a request
    /// of its own, which the store takes back itself where it is not granted; and who
    /// does not wait asks once, also where the store fails.
    fn has_queue(&self) -> bool {
        true
    }

    /// The longest that a lease may last, or be kept after it.
    fn longest_ttl(&self) -> Duration {
        Duration::MAX
    }

    /// How long an answer to an acquire may take, time-outs and repeats included; nothing
    /// where it is there at once.
    fn answers_within(&self, ttl: Duration) -> Option<Duration> {
        let _ = ttl;
        None
    }

    /// The clock that this client's deadlines are read from. It may go on while the
    /// system is suspended and timers stand still: what is to come by it is slept for as
    /// what is left, and not until then.
    fn now(&self) -> Instant;
}
