//! The examples in the documentation of the macros: they need the library, on which the macros can't depend.

#[doc = include_str!("../src/distributed_lock.md")]
pub mod distributed_lock {}

#[doc = include_str!("../src/lock_key.md")]
pub mod lock_key {}

#[doc = include_str!("../src/key_part.md")]
pub mod key_part {}
