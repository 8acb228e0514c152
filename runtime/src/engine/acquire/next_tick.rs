//! The wait for the next tick, of an acquisition that finds its tick done.

use std::time::{Duration, SystemTime};

use tokio::time::sleep;

use crate::core::error::LockError;
use crate::state::shutdown::Shutdown;
use crate::state::telemetry::queued;

/// How much longer than the store says, because it counts in whole milliseconds.
const MARGIN: Duration = Duration::from_millis(1);

/// The end of the done tick for which an acquisition waits. It waits for one tick at most: a call
/// that finds the next tick done, too, was late, or others were faster.
#[derive(Default)]
pub(super) struct NextTick {
    ends: Option<SystemTime>,
}

impl NextTick {
    /// Waits for the next tick, after the answer that a tick is done until `until`, for another
    /// `remains`. Returns false if the caller is not willing to wait that long.
    pub(super) async fn begins(
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
