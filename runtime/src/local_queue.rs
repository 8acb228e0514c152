//! The queue inside a process. Of a client's acquisitions of one lock, only as many ask the
//! store as can be of use: one for a mutex, as much weight as the limit for a semaphore, up
//! to 64 of them. The others wait here for their turn, first come, first served, and cost
//! the store nothing.
//!
//! For a short time, a [turn](turns::TURN), a released lease goes to the next waiter here
//! without the store. Then it is released, and waiters of other processes come first.
//!
//! A future that nobody polls looks like one that waits. So each acquisition that asks the
//! store notes the time of each command. If none has asked for as long as the store believes
//! that a waiter lives, the waiters here stop counting those that may ask, and ask themselves.

mod admission;
mod handing_over;
mod handoff;
mod queue;
mod queues;
mod turns;
mod waiter;

pub(crate) use self::admission::Admission;
pub(crate) use self::queues::LocalQueues;
pub(crate) use self::turns::TurnId;
pub(crate) use self::waiter::{Entry, Waiter};
