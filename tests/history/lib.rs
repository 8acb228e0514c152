//! Checks a history: what the processes of a soak wrote down about their locks, and what its
//! director did to them.
//!
//! The crate imports nothing of leasehold, so a mistake there can't hide itself here. Each rule
//! has a planted violation in its tests.

mod history;
mod judged;
mod line;
mod rules;
mod troubles;

pub use self::history::{Figures, History, Request};
pub use self::judged::Judged;
pub use self::line::{Kind, Line, Nanos};
pub use self::rules::{Verdict, check};
pub use self::troubles::{Effect, Troubles};

#[cfg(test)]
mod losing;
#[cfg(test)]
mod side_by_side;
#[cfg(test)]
mod tests;
