//! Values that everything else uses: names, options, errors and fencing tokens. It depends
//! on no store and no client.

pub(crate) mod blocking;
#[cfg(feature = "calendar")]
pub(crate) mod calendar;
pub(crate) mod error;
pub(crate) mod fence;
pub(crate) mod key;
pub(crate) mod limit_override;
pub(crate) mod lock_key;
pub(crate) mod log_rate;
#[cfg_attr(
    not(feature = "internals"),
    allow(unreachable_pub, reason = "with that feature the stores are public")
)]
pub(crate) mod name_pattern;
pub(crate) mod no_majority;
pub(crate) mod option_rules;
pub(crate) mod options;
pub(crate) mod panics;
pub(crate) mod rate;
pub(crate) mod repeats;
#[cfg(feature = "calendar")]
pub(crate) mod schedule_rules;
#[cfg_attr(
    not(feature = "internals"),
    allow(unreachable_pub, reason = "with that feature the stores are public")
)]
pub(crate) mod store_error;
pub(crate) mod sync;
pub(crate) mod system_time;
pub(crate) mod time_text;
pub(crate) mod timers;
