//! The tick that a run belongs to.

use std::time::{Duration, SystemTime};

use crate::core::system_time::system_time;
use crate::state::lease::LocalLease;
use crate::store::{Kind, Once};

/// The tick that a run belongs to, for a lock with [`once_per`](crate::Mutex::once_per).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let locks = leasehold::Locks::in_memory();
/// let day = Duration::from_secs(24 * 60 * 60);
/// let lease = locks.mutex("daily-report").once_per(day).lock().await?;
/// let tick = lease.tick().expect("the lock has `once_per`");
/// println!("report the day before {:?}", tick.began);
/// println!("ticks without a success before this one: {:?}", tick.missed);
/// lease.complete().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tick {
    /// When it began, by the server's clock.
    pub began: SystemTime,
    /// How many ticks have passed without a success since the last one that had a success.
    /// `None` if the server remembers none: it remembers the last success for 32 periods, and
    /// for at least a day.
    pub missed: Option<u64>,
    /// When the lock was granted, by the server's clock. It lies in the tick. This machine's clock
    /// at that time tells by how much the two differ.
    pub granted: SystemTime,
}

impl Tick {
    pub(super) fn of(local: &LocalLease) -> Option<Self> {
        let (tick, Kind::Once(once @ Once::Per { period, .. })) = (local.tick?, local.request.kind)
        else {
            return None;
        };
        let since = |last| Duration::from_millis(tick.began.saturating_sub(once.tick_at(last)));
        let ticks = |last| since(last).as_millis() / period.as_millis().max(1);
        let missed = |last| u64::try_from(ticks(last).saturating_sub(1)).unwrap_or(u64::MAX);
        let missed = tick.last.map(missed);
        #[cfg(feature = "calendar")]
        let missed = local.missed.get().copied().or(missed);
        Some(Self { began: system_time(tick.began), missed, granted: system_time(tick.granted) })
    }
}
