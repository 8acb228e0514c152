//! Decodes the numbers of an answer; the scripts' headers list them under RETURN. Each function
//! returns `None` for an answer that its script never gives.

use std::time::Duration;

use redis::Value;

use super::answer::decode_numbers;
use crate::core::error::LossReason;
use crate::core::fence::Fence;
use crate::store::{
    Adoption, All, Answer, Attempt, Ended, Forced, Lingering, NotAll, Renewal, Repaired, RunAgain,
    StoreError, TickTimes,
};

/// How the answer to a command becomes one of a store.
pub(super) type Decoder = fn(Result<Value, StoreError>) -> Result<Answer, StoreError>;

/// The decoders. If a key of the lock holds a value of another type, the request does not hold it.
macro_rules! decoders {
    ($($name:ident = $read:expr, or $foreign:expr;)*) => {$(
        pub(super) fn $name(answer: Result<Value, StoreError>) -> Result<Answer, StoreError> {
            decode_numbers(answer, $foreign, $read).map(Into::into)
        }
    )*};
}

decoders! {
    to_acquire = attempt, or Attempt::WrongKind;
    to_renew = renewal, or Renewal::NotHeld(LossReason::Taken);
    to_adopt = adoption, or Adoption::NotHeld(LossReason::Taken);
    to_release = ended, or Ended::NotHeld(LossReason::Taken);
    to_linger = lingering, or Lingering::Ended(Ended::NotHeld(LossReason::Taken));
    to_repair = repaired, or Repaired::NotHeld;
    to_question = flag, or false;
    to_notice = |answer| flag(answer).map(|_| ()), or ();
    to_force = forced, or Forced::Foreign;
    to_run_again = again, or RunAgain::new(0, false);
}

fn attempt(answer: &[u64]) -> Option<Attempt> {
    Some(match *answer {
        [1, token] => Attempt::Granted { token },
        [1, token, began, last, granted] => {
            let last = Some(last).filter(|&last| last > 0);
            Attempt::GrantedTick { token, tick: TickTimes { began, last, granted } }
        }
        [9, left, completed, until] => {
            Attempt::Done { completed, until, left: Duration::from_millis(left) }
        }
        [code @ (0 | 4 | 7), millis] => {
            let retry_after = Duration::from_millis(millis);
            Attempt::Busy { retry_after, expiry_added: code == 4, kept: code == 7 }
        }
        [code @ (8 | 10), millis] => {
            let retry_after = Duration::from_millis(millis);
            Attempt::Recalled { retry_after, other_kind: code == 10 }
        }
        [2] => Attempt::Ended,
        [3] => Attempt::WrongKind,
        [6] => Attempt::WouldDeadlock,
        [5, position, until, again] => {
            Attempt::Queued { position, until, ask_again: Duration::from_millis(again) }
        }
        _ => return None,
    })
}

/// Returns true if an acquire was granted.
pub(super) fn is_grant(answer: &[u64]) -> bool {
    matches!(*answer, [1, ..])
}

/// Decodes the answer to an acquire of so many locks and rates.
pub(super) fn all(answer: &[u64], (locks, rates): (usize, usize)) -> Option<All> {
    Some(match answer {
        [0, nth] if *nth > 0 => {
            let index = usize::try_from(nth - 1).ok()?;
            let is_lock = index < locks;
            Err(if is_lock { NotAll::Busy(index) } else { NotAll::GivenBack })
        }
        [code @ (0 | 2), nth, after] => {
            let index = usize::try_from(*nth).ok()?.checked_sub(1 + locks)?;
            let index = Some(index).filter(|index| *index < rates)?;
            let after = Duration::from_micros(*after);
            Err(if *code == 2 {
                NotAll::Reserved(index, after)
            } else {
                NotAll::UsedUp(index, after)
            })
        }
        [1, all @ ..] if all.len() == locks + rates => Ok(all.to_vec()),
        _ => return None,
    })
}

pub(super) fn renewal(answer: &[u64]) -> Option<Renewal> {
    Some(match *answer {
        [1] => Renewal::Renewed,
        [0] => Renewal::NotHeld(LossReason::Expired),
        [2] => Renewal::NotHeld(LossReason::Taken),
        _ => return None,
    })
}

fn adoption(answer: &[u64]) -> Option<Adoption> {
    Some(match *answer {
        [1, token] => Adoption::Adopted { token },
        [0] => Adoption::NotHeld(LossReason::Expired),
        [2] => Adoption::NotHeld(LossReason::Taken),
        _ => return None,
    })
}

fn lingering(answer: &[u64]) -> Option<Lingering> {
    Some(match *answer {
        [4, token] => Lingering::Kept { token },
        [5] => Lingering::Wanted,
        _ => Lingering::Ended(ended(answer)?),
    })
}

fn ended(answer: &[u64]) -> Option<Ended> {
    Some(match *answer {
        [1] | [1, 0] => Ended::Released,
        [1, left] => Ended::StillHeld(u32::try_from(left).unwrap_or(u32::MAX)),
        [3] => Ended::Kept,
        [0] => Ended::NotHeld(LossReason::Expired),
        [2] => Ended::NotHeld(LossReason::Taken),
        _ => return None,
    })
}

fn forced(answer: &[u64]) -> Option<Forced> {
    Some(match *answer {
        [0] | [1, 0, ..] => Forced::NotHeld,
        [1, held, token, told] => Forced::Released { held, told, fence: Fence::new(token) },
        [3] => Forced::Foreign,
        _ => return None,
    })
}

fn again(answer: &[u64]) -> Option<RunAgain> {
    match *answer {
        [completed, is_running @ (0 | 1)] => Some(RunAgain::new(completed, is_running == 1)),
        _ => None,
    }
}

fn repaired(answer: &[u64]) -> Option<Repaired> {
    Some(match *answer {
        [1, token] => Repaired::Held { token },
        [0] => Repaired::NotHeld,
        [2, millis] => Repaired::Behind(Duration::from_millis(millis)),
        _ => return None,
    })
}

/// Decodes a yes or a no.
fn flag(answer: &[u64]) -> Option<bool> {
    match *answer {
        [flag @ (0 | 1)] => Some(flag == 1),
        _ => None,
    }
}
