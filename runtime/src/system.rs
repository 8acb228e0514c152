//! What the client takes from the system: time, threads, connections, randomness and names.
//!
//! Nothing else in the crate asks for them, and a test holds that. So a simulation can decide all of
//! them. Time is tokio's: where a test has paused that, it moves only when the test lets it.

/// Asks the simulated world, if this thread is in one.
#[cfg(feature = "internals")]
macro_rules! in_simulation {
    (|$world:ident| $ask:expr) => {
        $crate::system::simulation::world().map(|$world| $ask)
    };
}

/// Without the feature `internals` there is none.
#[cfg(not(feature = "internals"))]
macro_rules! in_simulation {
    ($($_:tt)*) => {
        None
    };
}

#[cfg(feature = "redis")]
mod background;
#[cfg(feature = "internals")]
pub mod simulation;
#[cfg(feature = "redis")]
mod stream;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[cfg(feature = "redis")]
pub(crate) use self::background::{in_background, is_simulated};
#[cfg(feature = "redis")]
pub(crate) use self::stream::{Stream, connect};

/// The time of the clock that timers go by.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// How long ago that was, by the same clock.
#[cfg(feature = "redis")]
pub(crate) fn since(then: Instant) -> Duration {
    now().saturating_duration_since(then)
}

/// The same as [`now`], for a holder's deadlines. Where the system has such a clock, it goes on during a
/// suspension: meanwhile the lease ends on the server. Compare it only with other times of this
/// clock: after a suspension it is ahead of [`now`], and so of all timers.
#[cfg(all(feature = "redis", any(target_os = "linux", target_os = "android")))]
pub(crate) fn now_since_boot() -> Instant {
    use std::sync::OnceLock;

    use rustix::time::{DynamicClockId, clock_gettime_dynamic};

    /// `None` if the system denies this process that clock.
    fn since_boot() -> Option<Duration> {
        clock_gettime_dynamic(DynamicClockId::Boottime).ok()?.try_into().ok()
    }

    static START: OnceLock<Option<(Instant, Duration)>> = OnceLock::new();
    let simulated: Option<Instant> = in_simulation!(|world| now() + world.suspended());
    if let Some(now) = simulated {
        return now;
    }
    let start = *START.get_or_init(|| Some((now(), since_boot()?)));
    let shown = start.and_then(|(start, then)| Some(start + since_boot()?.saturating_sub(then)));
    shown.unwrap_or_else(now)
}

/// The same. It stands still during a suspension, where [`now`] does.
#[cfg(all(feature = "redis", not(any(target_os = "linux", target_os = "android"))))]
pub(crate) fn now_since_boot() -> Instant {
    now()
}

/// The time since 1970, by the system's wall clock.
pub(crate) fn wall_clock() -> Duration {
    let simulated: Option<Duration> = in_simulation!(|world| world.wall_clock());
    simulated.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// 122 bits that nobody can guess.
pub(crate) fn secret_bits() -> u128 {
    let simulated: Option<u128> = in_simulation!(|world| world.random_bits());
    simulated.unwrap_or_else(|| uuid::Uuid::new_v4().as_u128())
}

/// From nothing to all of a time, by chance, so that those that begin together do not go on together.
pub(crate) fn full_jitter(time: Duration) -> Duration {
    time.mul_f64(fastrand::f64())
}

/// From half of a time to all of it, by chance. For pauses that are to stay long.
pub(crate) fn equal_jitter(time: Duration) -> Duration {
    time / 2 + full_jitter(time / 2)
}

/// The name of this machine; empty if it is unknown.
pub(crate) fn host() -> String {
    let simulated: Option<String> = in_simulation!(|world| world.host());
    simulated.unwrap_or_else(|| {
        #[cfg(all(feature = "redis", unix))]
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        #[cfg(all(feature = "redis", windows))]
        let name = std::env::var("COMPUTERNAME").unwrap_or_default();
        // All who share a store in memory are on one machine, whatever its name.
        #[cfg(not(all(feature = "redis", any(unix, windows))))]
        let name = String::new();
        name
    })
}

/// The id of this process, on its machine.
pub(crate) fn process_id() -> u32 {
    let simulated: Option<u32> = in_simulation!(|world| world.process_id());
    simulated.unwrap_or_else(std::process::id)
}
