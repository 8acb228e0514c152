//! The wait queue inside a process. Only as many of a client's acquisitions of one lock ask
//! the store as can be granted: one for a mutex; for a semaphore as much weight as its limit;
//! never more than 64. The others wait here, first come, first served, and cost the store
//! nothing.
//!
//! During a short [turn](turns::TURN), a released lease goes to the next waiter here without
//! the store. After the turn the lock is released, and waiters of other processes come first.
//!
//! A future that nobody polls looks like one that waits. So each acquisition that asks the
//! store notes the time of each ask. If the last one is older than the store believes a silent
//! waiter to live, the waiters here no longer count the askers, and ask themselves.

mod admission;
mod handing_over;
mod handoff;
mod idle;
mod idle_checks;
mod linger;
mod lingering;
mod queue;
mod queues;
mod recalls;
mod spec;
mod turns;
mod waiter;

pub(crate) use self::admission::Admission;
pub(crate) use self::lingering::Asking;
pub(crate) use self::queues::LocalQueues;
pub(crate) use self::turns::{TakenUp, TurnId};
pub(crate) use self::waiter::{Entry, TryEntry, Waiter};
