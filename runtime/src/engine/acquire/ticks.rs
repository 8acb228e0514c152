//! The acquisition of work that is to succeed once in each tick.
//!
//! Ticks of a calendar have no period: the request names the tick that runs by this machine's clock, as
//! a period that begins with it. The store's answer says its own time. If another tick runs by that,
//! the request asks again with that one.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::time::sleep;

use super::schedule::AskSchedule;
#[cfg(feature = "calendar")]
use crate::core::calendar::{Calendar, CalendarTick};
use crate::core::error::LockError;
use crate::core::options::Options;
#[cfg(feature = "calendar")]
use crate::core::system_time::millis;
use crate::engine::lease::Lease;
use crate::engine::shared::Shared;
use crate::state::shutdown::Shutdown;
use crate::state::telemetry::queued;
use crate::store::RequestSpec;
#[cfg(feature = "calendar")]
use crate::store::{Kind, Once};

/// The ticks that an acquisition has asked in.
pub(super) struct Ticks {
    begun: Instant,
    options: Options,
    next: NextTick,
    #[cfg(feature = "calendar")]
    tries: u32,
}

impl Ticks {
    pub(super) fn new(begun: Instant, options: Options) -> Self {
        Self {
            begun,
            options,
            next: NextTick::default(),
            #[cfg(feature = "calendar")]
            tries: 0,
        }
    }

    /// Judges an answer. `None` if the acquisition has to ask again, perhaps with another tick. If the
    /// present tick is done, that is when the next one begins, if the wait allows: a caller whose clock is
    /// ahead of the store's asks shortly before its tick begins.
    pub(super) async fn judge(
        &mut self,
        shared: &Arc<Shared>,
        spec: &mut RequestSpec,
        result: Result<Lease, LockError>,
    ) -> Option<Result<Lease, LockError>> {
        #[cfg(feature = "calendar")]
        match another_tick(spec, &result) {
            Ok(None) => {}
            Ok(Some(right)) => {
                if let Ok(lease) = result {
                    let _ = lease.release_now().await;
                }
                self.tries += 1;
                if self.tries > MOST_TRIES {
                    let schedule = AskSchedule::new(self.begun, self.options.wait);
                    return Some(Err(schedule.refused(spec.key.clone(), self.options.ttl)));
                }
                spec.kind = Kind::Once(Once::in_tick(right));
                return None;
            }
            Err(error) => return Some(Err(error)),
        }
        #[cfg(not(feature = "calendar"))]
        let _ = spec;
        let Err(LockError::Done { until, retry_after, .. }) = result else { return Some(result) };
        // It stands in no queue meanwhile, neither in this process nor in the store.
        let client = &shared.client;
        let left = AskSchedule::new(self.begun, self.options.wait).left(client.store.now());
        match self.next.begins((until, retry_after), left, &client.keeper.shutdown).await {
            Ok(true) => None,
            Ok(false) => Some(result),
            Err(error) => Some(Err(error)),
        }
    }
}

/// So often a tick may be another than the one asked for: the clock that decides is set meanwhile.
#[cfg(feature = "calendar")]
const MOST_TRIES: u32 = 8;

/// The calendar's tick at the store's time, if the request named another. Notes how many ticks a lease
/// has missed.
#[cfg(feature = "calendar")]
fn another_tick(
    spec: &RequestSpec,
    result: &Result<Lease, LockError>,
) -> Result<Option<CalendarTick>, LockError> {
    let (Some(Ok(calendar)), Kind::Once(once)) = (spec.schedule.as_deref(), spec.kind) else {
        return Ok(None);
    };
    let tick = result.as_ref().ok().and_then(|lease| lease.local().tick);
    let time = match (result, tick) {
        (_, Some(tick)) => tick.granted,
        (Err(LockError::Done { until, retry_after, .. }), _) => {
            millis(until.checked_sub(*retry_after).unwrap_or(SystemTime::UNIX_EPOCH))
        }
        _ => return Ok(None),
    };
    let right = tick_at(calendar, time)?;
    if once.tick_at(time) != right.began || once.tick_ends(time) != right.ends {
        return Ok(Some(right));
    }
    if let (Ok(lease), Some(last)) = (result, tick.and_then(|tick| tick.last)) {
        lease.local().missed.get_or_init(|| calendar.ticks_between(last, right.began));
    }
    Ok(None)
}

#[cfg(feature = "calendar")]
fn tick_at(calendar: &Calendar, time: u64) -> Result<CalendarTick, LockError> {
    calendar.tick_at(time).ok_or_else(|| LockError::InvalidOption {
        option: "schedule",
        problem: "it names no time around the time of the lock store".to_owned(),
    })
}

/// How much longer than the store says, because it counts in whole milliseconds.
const MARGIN: Duration = Duration::from_millis(1);

/// The end of the done tick for which an acquisition waits. It waits for one tick at most: a call
/// that finds the next tick done, too, was late, or others were faster.
#[derive(Default)]
struct NextTick {
    ends: Option<SystemTime>,
}

impl NextTick {
    /// Waits for the next tick, after the answer that a tick is done until `until`, for another
    /// `remains`. Returns false if the caller is not willing to wait that long.
    async fn begins(
        &mut self,
        (until, remains): (SystemTime, Duration),
        left: Duration,
        shutdown: &Shutdown,
    ) -> Result<bool, LockError> {
        // The same end can be named again, if the store's clock was set back meanwhile.
        let is_same = *self.ends.get_or_insert(until) == until;
        let pause = remains.saturating_add(MARGIN);
        if !is_same || pause >= left {
            return Ok(false);
        }
        queued();
        tokio::select! {
            biased;
            () = shutdown.begun() => Err(LockError::ShutDown),
            () = sleep(pause) => Ok(true),
        }
    }
}
