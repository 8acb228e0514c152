//! Where leases are kept: the contract of every store, and the stores themselves.
//!
//! A store answers one command at a time. It knows nothing of guards, of how long a
//! caller waits, or of when to renew: that code is the same over every store.
//!
//! Not a public interface. It is visible so that the conformance suite can ask each
//! store the same questions.

mod answers;
mod ask;
mod command;
mod contract;
mod detached;
mod diagnosis;
#[cfg(any(feature = "faults", test))]
pub mod fault_injection;
mod holder;
mod inspection;
mod job_info;
mod limit_override;
mod listing;
pub mod memory;
mod note;
mod once;
#[cfg(feature = "quorum")]
pub mod quorum;
#[cfg(feature = "redis")]
pub mod redis;
mod request;
#[cfg(feature = "internals")]
pub mod rules;
#[cfg(not(feature = "internals"))]
mod rules;
#[cfg(feature = "serde")]
mod serialize;
mod take;
mod usage;

pub use self::answers::{
    Adoption, All, Answer, AnswerOf, Attempt, Ended, Hint, Lingering, NotAll, Renewal, Repaired,
};
pub use self::ask::{Ask, Reply, renew_each};
pub use self::command::{Command, Force, LockCommand, RequestCommand};
use self::contract::at_once;
pub(crate) use self::contract::{LIVE, RESUBSCRIBE, SUBSCRIBING};
pub use self::contract::{
    LIVE_MOST, Listener, OFFER, Renewals, Store, StoreFuture, Subscription, TOKENS, validity,
};
pub use self::detached::Detached;
pub use self::diagnosis::{Diagnosis, Fact, Finding, Severity};
#[cfg(feature = "redis")]
pub(crate) use self::diagnosis::{NO_LOCKS, UNREACHABLE, short};
pub(crate) use self::holder::CLIENT_KEPT;
pub use self::holder::{ClientInfo, Holder, Waiter};
pub use self::inspection::{Forced, ForcedBy, LockInfo, LockKind};
pub use self::job_info::{AskedAgain, AskedNote, JobInfo, JobRuns, LastSuccess, RunAgain};
pub use self::limit_override::{LimitCommand, LimitOf, LimitOverride, MOST_LIMITS};
pub use self::listing::{ListCursor, ListOf, ListPage};
pub(crate) use self::note::NOTES_KEPT;
pub use self::note::Note;
pub use self::once::{Once, Success, TickTimes};
pub(crate) use self::request::RequestSpec;
pub use self::request::{ClientId, Kind, Owner, QueuePosition, Request, RequestId, Stamp, Waiting};
pub use self::take::Take;
pub(crate) use self::take::TakeSpec;
pub use self::usage::Usage;
#[cfg(feature = "internals")]
pub use crate::core::name_pattern::NamePattern;
pub use crate::core::store_error::StoreError;
