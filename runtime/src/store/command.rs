//! The commands to a store, as values: whoever passes them on does it in one function.

use std::borrow::Cow;
use std::time::Duration;

use super::detached::Detached;
use super::holder::ClientInfo;
use super::limit_override::LimitCommand;
use super::listing::{ListCursor, ListOf};
use super::note::Note;
use super::once::Success;
use super::request::{Kind, Owner, Request, Stamp, Waiting};
use super::take::Take;
use super::usage::Usage;
use crate::core::error::Step;
use crate::core::key::LockKey;
use crate::core::name_pattern::NamePattern;

/// A command to a store. The method of [`Ask`](super::Ask) with the same name sends it.
#[derive(Clone, Debug)]
pub enum Command<'a> {
    /// One for a request.
    Request(Cow<'a, Request>, RequestCommand),
    /// Asks for several mutexes and permits, and takes of rates, all or none. All are different, none is
    /// queued, and the leases share one TTL.
    AcquireAll(Cow<'a, [Request]>, Cow<'a, [Take]>),
    /// Gives back of a take what time has not, whether it took something or not.
    GiveBack(Cow<'a, Take>),
    /// Renews several leases in one batch. Each has an answer of its own, and one that fails
    /// does not fail the others.
    RenewAll(Cow<'a, [Request]>),
    /// One about a lock of any kind.
    Lock(Cow<'a, LockKey>, LockCommand),
    /// A page of the locks or jobs whose names match. One that is there from the first page to the
    /// last is named at least once, if the same servers keep their locks all the time.
    List(Cow<'a, NamePattern>, ListOf, ListCursor),
    /// One about the limits that operators set.
    Limits(LimitCommand),
    /// Looks for what puts the locks at risk, or slows them down.
    Diagnose,
    /// Records which process a client is, for this long.
    Introduce(Cow<'a, ClientInfo>, Duration),
}

/// A command for a request.
#[derive(Clone, Copy, Debug)]
pub enum RequestCommand {
    /// Asks for the lock once. `Waiting` says how the request waits in the queue; without it
    /// the request is not queued.
    Acquire(Option<Waiting>),
    /// Lets a lease run for its TTL from now.
    Renew,
    /// Lets an offer last until that heartbeat of its waiter ends, and confirms nothing. A
    /// lease that was renewed is not shortened, and one that ended is not made anew. Does
    /// nothing in a store that sends no offers.
    KeepOffer(Stamp),
    /// Puts a request that has never asked for the lock in the place of this one that holds
    /// it with the same kind and the same owner. Refuses if a mutex was granted anew since.
    Adopt(Detached),
    /// Ends a lease. A mutex then stays held without a holder for this long.
    Release(Duration),
    /// Ends the lease of a mutex, and remembers nothing of its request: no copy of a command can
    /// arrive any more, because each was answered. Its tokens are at most the one that it was
    /// granted with, and all later tokens of the lock are greater. Sent again after an unknown
    /// outcome, it may find that the lease has expired. A store may remember the request all the
    /// same, as after [`Release`](Self::Release).
    ReleaseAndForget,
    /// Ends a lease of [`Kind::Once`](super::Kind::Once) whose work has succeeded: from now on
    /// the work counts as done. All waiters for it are told and leave the queue. A lease that had
    /// ended marks nothing.
    Complete(Success),
    /// Lets the client keep a lease without using it, for its TTL from now. If others want the
    /// lock, a lease that nobody uses is released. The first request of another client that wants
    /// the lock from now on makes the store send [`Hint::Recalled`](super::Hint::Recalled); each
    /// later ask of the first waiter repeats it.
    Linger(Usage),
    /// Takes an acquisition back, whether it was granted, waits, or neither, and
    /// says whether it was granted.
    Cancel,
    /// Asks if a lease that is not held any more was taken by force. The store knows until the
    /// lease would have ended.
    WasForced,
    /// Asks a member of a quorum for the lock once, without a queue. A writer that is refused, and
    /// comes back within this time, keeps new readers out meanwhile. Only mutexes, readers
    /// and writers vote.
    Vote(Duration),
    /// Repairs a lease that a majority of a quorum grants. If this member has the lease, its token
    /// is raised to this one at least. If it does not, and nobody else holds the lock here, the
    /// request gets the lock for `lasts`, unless that is zero.
    Repair {
        /// The token.
        token: u64,
        /// How long it lasts.
        lasts: Duration,
    },
}

/// A command about a lock of any kind.
#[derive(Clone, Debug)]
pub enum LockCommand {
    /// The holders and the waiters.
    Inspect,
    /// Asks if an owner holds it.
    IsHeldBy(Owner),
    /// Takes it from all its holders, or from some.
    ForceRelease(Force),
    /// Forgets that its work is done, and how often it was tried; ends a time for which the mutex is
    /// kept without a holder; and tells all clients. The store remembers for a day who asked for it.
    RunAgain {
        /// Who asks.
        by: Note,
        /// Why.
        why: Option<Note>,
    },
}

/// Who takes a lock by force, why, and from whom. The store remembers for a day who and why.
#[derive(Clone, Debug)]
pub struct Force {
    /// Who.
    pub by: Note,
    /// Why.
    pub why: Option<Note>,
    /// From whom, as [`Holder`](super::Holder) names them to the store; empty: from all.
    pub only: Vec<String>,
}

impl Force {
    /// From all holders, without a reason.
    #[must_use]
    pub fn all(by: Note) -> Self {
        Self { by, why: None, only: Vec::new() }
    }
}

impl Command<'_> {
    /// The same, without what it borrows.
    #[must_use]
    pub fn into_owned(self) -> Command<'static> {
        match self {
            Self::Request(request, command) => {
                Command::Request(Cow::Owned(request.into_owned()), command)
            }
            Self::AcquireAll(locks, takes) => {
                Command::AcquireAll(Cow::Owned(locks.into_owned()), Cow::Owned(takes.into_owned()))
            }
            Self::GiveBack(take) => Command::GiveBack(Cow::Owned(take.into_owned())),
            Self::RenewAll(requests) => Command::RenewAll(Cow::Owned(requests.into_owned())),
            Self::Lock(key, command) => Command::Lock(Cow::Owned(key.into_owned()), command),
            Self::List(names, of, from) => Command::List(Cow::Owned(names.into_owned()), of, from),
            Self::Limits(command) => Command::Limits(command),
            Self::Diagnose => Command::Diagnose,
            Self::Introduce(client, lasts) => {
                Command::Introduce(Cow::Owned(client.into_owned()), lasts)
            }
        }
    }

    /// Returns true if the kinds of its requests allow it.
    pub(super) fn fits_kind(&self) -> bool {
        match self {
            Self::Request(request, RequestCommand::Complete(_)) => {
                matches!(request.kind, Kind::Once(_))
            }
            Self::Request(request, RequestCommand::Linger(_)) => request.may_linger(),
            Self::AcquireAll(locks, takes) => {
                (!locks.is_empty() || !takes.is_empty())
                    && locks.iter().all(|it| it.kind.can_join_others())
            }
            _ => true,
        }
    }

    /// The step of a caller that sends it, if one does. A lease that lingers is released by its
    /// caller, or renewed in the background.
    pub(super) fn step(&self) -> Option<Step> {
        Some(match self {
            Self::AcquireAll(..) | Self::Request(_, RequestCommand::Acquire(_)) => Step::Acquire,
            Self::RenewAll(_) | Self::Request(_, RequestCommand::Renew) => Step::Renew,
            Self::Request(_, RequestCommand::Linger(usage)) if usage.is_in_use() => Step::Renew,
            Self::Request(
                _,
                RequestCommand::Release(_)
                | RequestCommand::ReleaseAndForget
                | RequestCommand::Linger(_),
            ) => Step::Release,
            Self::Request(_, RequestCommand::Adopt(_)) => Step::Adopt,
            Self::Request(_, RequestCommand::Complete(_)) => Step::Complete,
            Self::Lock(_, LockCommand::ForceRelease(_)) => Step::ForceRelease,
            Self::Lock(_, LockCommand::RunAgain { .. }) => Step::RunAgain,
            Self::Limits(LimitCommand::Set { .. } | LimitCommand::Unset(_)) => Step::ChangeLimit,
            Self::Lock(..) | Self::List(..) | Self::Limits(LimitCommand::Read) | Self::Diagnose => {
                Step::Inspect
            }
            Self::Request(..) | Self::GiveBack(_) | Self::Introduce(..) => return None,
        })
    }

    /// Its name, for a log.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Request(_, command) => command.name(),
            Self::AcquireAll(..) => "acquire_all",
            Self::GiveBack(_) => "give_back",
            Self::RenewAll(_) => "renew_all",
            Self::Lock(_, LockCommand::Inspect) => "inspect",
            Self::Lock(_, LockCommand::IsHeldBy(_)) => "is_held_by",
            Self::Lock(_, LockCommand::ForceRelease(_)) => "force_release",
            Self::Lock(_, LockCommand::RunAgain { .. }) => "run_again",
            Self::List(..) => "list",
            Self::Limits(LimitCommand::Read) => "read_limits",
            Self::Limits(LimitCommand::Set { .. }) => "set_limit",
            Self::Limits(LimitCommand::Unset(_)) => "unset_limit",
            Self::Diagnose => "diagnose",
            Self::Introduce(..) => "introduce",
        }
    }
}

impl RequestCommand {
    fn name(self) -> &'static str {
        match self {
            Self::Acquire(_) => "acquire",
            Self::Renew => "renew",
            Self::KeepOffer(_) => "keep_offer",
            Self::Adopt(_) => "adopt",
            Self::Release(_) => "release",
            Self::ReleaseAndForget => "release_and_forget",
            Self::Complete(_) => "complete",
            Self::Linger(_) => "linger",
            Self::Cancel => "cancel",
            Self::WasForced => "was_forced",
            Self::Vote(_) => "vote",
            Self::Repair { .. } => "repair",
        }
    }
}
