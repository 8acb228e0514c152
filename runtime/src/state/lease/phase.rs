//! The phases of a lease: held, then ended in one of several ways. It leaves *held* once and
//! never comes back.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::core::error::LossReason;

const HELD: u8 = 0;
const ENDED: u8 = 1;
const EXPIRED: u8 = 2;
const TAKEN: u8 = 3;
const FORCED: u8 = 4;
const MAX_HOLD: u8 = 5;
const SHUT_DOWN: u8 = 6;
/// The store says that it is not held. Whether force took it is not known yet.
const NOT_HELD_EXPIRED: u8 = 7;
const NOT_HELD_TAKEN: u8 = 8;
const NOT_HELD_GONE: u8 = 9;
const REPLACED: u8 = 10;
const GONE: u8 = 11;

/// The phase, in one byte: each question is one load.
#[derive(Debug, Default)]
pub(super) struct Phase(AtomicU8);

impl Phase {
    fn get(&self) -> u8 {
        self.0.load(Ordering::Acquire)
    }

    fn leave(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(super) fn is_held(&self) -> bool {
        self.get() == HELD
    }

    /// Returns true if its holder has begun to release it.
    pub(super) fn has_ended(&self) -> bool {
        self.get() == ENDED
    }

    /// Begins its release. False if it was not held.
    pub(super) fn begin_release(&self) -> bool {
        self.leave(HELD, ENDED)
    }

    /// Ends it for now; the final reason follows. False if it was not held.
    pub(super) fn mark_not_held(&self, reason: LossReason) -> bool {
        let phase = match reason {
            LossReason::Taken => NOT_HELD_TAKEN,
            LossReason::Gone => NOT_HELD_GONE,
            _ => NOT_HELD_EXPIRED,
        };
        self.leave(HELD, phase)
    }

    /// Makes its loss final. False if it was released, or its loss was final before.
    pub(super) fn lose(&self, reason: LossReason) -> bool {
        let phase = match reason {
            LossReason::Expired => EXPIRED,
            LossReason::Taken => TAKEN,
            LossReason::Gone => GONE,
            LossReason::Forced => FORCED,
            LossReason::MaxHold => MAX_HOLD,
            LossReason::Replaced => REPLACED,
            LossReason::ShutDown => SHUT_DOWN,
            // Its holder ended it: that is no loss of the holder's.
            LossReason::Released => return false,
        };
        [HELD, NOT_HELD_EXPIRED, NOT_HELD_TAKEN, NOT_HELD_GONE]
            .into_iter()
            .any(|from| self.leave(from, phase))
    }

    /// How it was lost, if that is final.
    pub(super) fn lost(&self) -> Option<LossReason> {
        lost(self.get())
    }

    /// How it was lost, if that is not final yet.
    pub(super) fn not_held(&self) -> Option<LossReason> {
        not_held(self.get())
    }

    /// How it was lost, as far as is known by now.
    pub(super) fn loss_so_far(&self) -> Option<LossReason> {
        let phase = self.get();
        lost(phase).or_else(|| not_held(phase))
    }
}

fn lost(phase: u8) -> Option<LossReason> {
    Some(match phase {
        EXPIRED => LossReason::Expired,
        TAKEN => LossReason::Taken,
        GONE => LossReason::Gone,
        FORCED => LossReason::Forced,
        MAX_HOLD => LossReason::MaxHold,
        REPLACED => LossReason::Replaced,
        SHUT_DOWN => LossReason::ShutDown,
        _ => return None,
    })
}

fn not_held(phase: u8) -> Option<LossReason> {
    match phase {
        NOT_HELD_EXPIRED => Some(LossReason::Expired),
        NOT_HELD_TAKEN => Some(LossReason::Taken),
        NOT_HELD_GONE => Some(LossReason::Gone),
        _ => None,
    }
}
