//! The errors of all calls, and the reasons for a lost lease.

mod lock_error;
mod loss_reason;
mod step;
mod text;

pub use self::lock_error::LockError;
pub use self::loss_reason::LossReason;
pub use self::step::Step;
pub(crate) use self::text::Quiet;
pub use super::store_error::Outcome;

#[cfg(test)]
mod tests;
