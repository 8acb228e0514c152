//! What everything else is made of: names, options, errors, fencing tokens. It knows nothing
//! of stores or of clients.

pub(crate) mod error;
pub(crate) mod fence;
pub(crate) mod key;
mod lock_key;
pub(crate) mod no_majority;
pub(crate) mod options;
#[cfg_attr(
    not(feature = "internals"),
    allow(unreachable_pub, reason = "with that feature the stores are public")
)]
pub(crate) mod store_error;
