//! The answers of a store to each command, and the hints it sends unasked.

use std::time::Duration;

use super::diagnosis::Diagnosis;
use super::inspection::{Forced, LockInfo};
use super::job_info::RunAgain;
use super::limit_override::LimitOverride;
use super::listing::ListPage;
use super::once::TickTimes;
use super::request::{RequestId, Stamp};
use crate::core::error::LossReason;
use crate::core::key::LockKey;
use crate::core::store_error::StoreError;

/// The answer to a [`Command`](super::Command).
#[derive(Debug)]
pub enum Answer {
    /// To an acquire or a vote.
    Attempt(Attempt),
    /// To an acquire of several locks.
    All(All),
    /// To a renewal.
    Renewal(Renewal),
    /// To each of several renewals.
    Renewals(Vec<Result<Renewal, StoreError>>),
    /// To an adoption.
    Adoption(Adoption),
    /// To a release or a completion.
    Ended(Ended),
    /// To a client that wants to keep a lock without using it.
    Lingering(Lingering),
    /// To a repair.
    Repaired(Repaired),
    /// Yes or no.
    Flag(bool),
    /// It is done.
    Done(()),
    /// The state of a lock.
    Info(LockInfo),
    /// What a lock's holders have lost.
    Forced(Forced),
    /// What was done of the work of a lock.
    Again(RunAgain),
    /// Names of locks.
    Page(ListPage),
    /// The limits that operators have set.
    Limits(Vec<LimitOverride>),
    /// What is wrong.
    Diagnosis(Diagnosis),
}

/// An answer of one type.
pub trait AnswerOf {
    /// The answer in it.
    ///
    /// # Panics
    ///
    /// If it answers another command.
    fn of(answer: Answer) -> Self;
}

macro_rules! answers {
    ($($variant:ident: $type:ty,)*) => {$(
        impl AnswerOf for $type {
            fn of(answer: Answer) -> Self {
                match answer {
                    Answer::$variant(answer) => answer,
                    other => panic!("{other:?} answers another command"),
                }
            }
        }

        impl From<$type> for Answer {
            fn from(answer: $type) -> Self {
                Self::$variant(answer)
            }
        }
    )*};
}

answers! {
    Attempt: Attempt,
    All: All,
    Renewal: Renewal,
    Renewals: Vec<Result<Renewal, StoreError>>,
    Adoption: Adoption,
    Ended: Ended,
    Lingering: Lingering,
    Repaired: Repaired,
    Flag: bool,
    Done: (),
    Info: LockInfo,
    Forced: Forced,
    Again: RunAgain,
    Page: ListPage,
    Limits: Vec<LimitOverride>,
    Diagnosis: Diagnosis,
}

/// The answer to an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The request holds the lock for its TTL from now.
    Granted {
        /// The fencing token; 0 for a permit or a reader.
        token: u64,
    },
    /// The same, for work that is to succeed once in each tick.
    GrantedTick {
        /// The fencing token.
        token: u64,
        /// The tick that runs now.
        tick: TickTimes,
    },
    /// The work has succeeded, and counts as done. The request is not in the queue.
    Done {
        /// When it succeeded, in milliseconds since the Unix epoch.
        completed: u64,
        /// Until when it counts as done, in milliseconds since the Unix epoch.
        until: u64,
        /// How long it counts as done from now.
        left: Duration,
    },
    /// Others hold the lock or came earlier, and the request is in the queue.
    Queued {
        /// Its position, to be sent with all later asks.
        position: u64,
        /// Until when the store takes the waiter to be alive.
        until: Stamp,
        /// When to ask again, whatever hints arrive meanwhile.
        ask_again: Duration,
    },
    /// Others hold the lock or wait for it, and the request is not in the queue.
    Busy {
        /// How long the lock stays held, unless its holders renew.
        retry_after: Duration,
        /// The name was in use without an expiry. The store has given it the request's TTL.
        expiry_added: bool,
        /// Nobody holds the lock, and it is kept for `retry_after`: a mutex alone.
        kept: bool,
    },
    /// Others hold the lock, perhaps without using it, and their client was asked to release
    /// it. The request is not in the queue, and may ask again soon.
    Recalled {
        /// How long the lock stays held, unless its holder renews or releases it.
        retry_after: Duration,
        /// It is held as another kind of lock, for which the request can't wait in the queue.
        other_kind: bool,
    },
    /// The request was released or cancelled before. It is never granted again.
    Ended,
    /// The name is in use by another kind of lock, or by no lock at all.
    WrongKind,
    /// The owner already reads or writes, and would wait for itself or for other readers. A
    /// write lock is granted to an owner that holds nothing, or that is the only reader and
    /// does not wait. The request is not in the queue.
    WouldDeadlock,
}

/// The answer to an acquire of several: for each lock its token, 0 for a permit, and then for each
/// rate how many microseconds it is used up from now; or why the store granted none.
pub type All = Result<Vec<u64>, NotAll>;

/// Why several locks and rates were not acquired together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAll {
    /// It is not known, or the store can't acquire them together.
    Unknown,
    /// The index of the first lock that is not free.
    Busy(usize),
    /// A take was given back, and takes nothing any more.
    GivenBack,
    /// All could begin after this time, because of the rate with this index. That is too long.
    UsedUp(usize, Duration),
    /// The same, and it is not too long: all rates were taken of for that time. The same request asks again
    /// then.
    Reserved(usize, Duration),
}

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Renewal {
    /// The lease lasts its TTL from now.
    Renewed,
    /// The lease had ended, and stays ended.
    NotHeld(LossReason),
}

/// The answer to an adoption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Adoption {
    /// The request has replaced the other one, for its TTL from now.
    Adopted {
        /// The fencing token; 0 for a permit or a reader.
        token: u64,
    },
    /// The lease had ended, or another request has adopted it. Nothing changed.
    NotHeld(LossReason),
}

/// The answer to a client that wants to keep a lock without using it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Lingering {
    /// The lease lasts its TTL from now.
    Kept {
        /// The client may give this fencing token and the [`TOKENS`](super::TOKENS) - 1 after
        /// it, and all between its own and this one, to its next leases. 0 for a permit or a
        /// reader.
        token: u64,
    },
    /// Others want the lock, and the lease is in use. Nothing changed.
    Wanted,
    /// The lease has ended.
    Ended(Ended),
}

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ended {
    /// The lease has ended, by this command or by an earlier copy of it.
    Released,
    /// The hold has ended, by this command or by an earlier copy of it. Its owner has this
    /// many other holds.
    StillHeld(u32),
    /// The lease has ended, and the lock stays held without a holder.
    Kept,
    /// The lease had ended before. Nothing changed.
    NotHeld(LossReason),
}

/// The answer to a repair on one member of a quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repaired {
    /// The request holds the lock on this member.
    Held {
        /// The lock's token on this member; 0 for a lock that never had one.
        token: u64,
    },
    /// The request does not hold the lock, and did not get it: another request has it, or
    /// this one was released or cancelled here.
    NotHeld,
    /// The member did not raise the token: its clock is too far behind it, by this much more
    /// than allowed. It would grant smaller tokens once the lease has expired.
    Behind(Duration),
}

/// A message that a store sends a client unasked. A lost hint costs time, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The store has offered the lock to a waiter. The waiter's first renewal confirms it.
    /// Unconfirmed, the offer ends after [`OFFER`](super::OFFER), or with the waiter's
    /// heartbeat if that is sooner.
    Offered {
        /// The waiter.
        id: RequestId,
        /// The fencing token; 0 for a permit or a reader.
        token: u64,
        /// The heartbeat that the offer answers. An offer older than the waiter's last answer
        /// has ended.
        until: Stamp,
        /// By how much sooner the offer ends than that heartbeat.
        early: Duration,
    },
    /// The lock may be free: the waiter should ask at once.
    Free {
        /// The waiter.
        id: RequestId,
    },
    /// The lock may have been taken by force: the holder should ask.
    Forced {
        /// The holder.
        id: RequestId,
    },
    /// Another client wants the lock: a client that keeps it without using it should ask the
    /// store if it still may.
    Recalled {
        /// The lock.
        key: LockKey,
    },
    /// An operator has changed a limit: the client should read them.
    LimitsChanged,
    /// Work that was done may run again: its jobs should ask.
    RunAgain {
        /// Its lock.
        key: LockKey,
    },
    /// Hints may have been lost: every waiter should ask again.
    Missed,
}
