//! Acquiring: wait for a turn in this process, ask the store, wait in its queue, give up, clean
//! up.

mod adopt;
mod check;
mod local;
#[cfg(feature = "tower")]
mod look;
mod multi_atomic;
mod multi_ordered;
mod patience;
mod rates;
mod schedule;
mod single;
mod ticks;
mod time_limit;

pub(crate) use self::adopt::adopt;
#[cfg(feature = "tower")]
pub(crate) use self::local::take_idle;
#[cfg(feature = "tower")]
pub(crate) use self::look::Look;
#[cfg(feature = "tower")]
pub(crate) use self::multi_ordered::{MAX_KEYS, in_order};
pub(crate) use self::multi_ordered::{SetSpec, acquire_all, acquire_rates};
pub(crate) use self::single::acquire;
