//! The answers of the rules, in the numbers of the scripts. The scripts' headers list them.

use std::time::{Duration, UNIX_EPOCH};

use leasehold::LossReason;
use leasehold::store::{
    Adoption, Answer, Attempt, Ended, Forced, Hint, Lingering, Renewal, Repaired, RunAgain,
    TickTimes, Waiting,
};

/// The time until a whole millisecond of the server's clock. The scripts count from the beginning of
/// the one that runs.
fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(i64::MAX)
}

fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The numbers of an answer. With the number of the owner's other holds, if the script says it.
pub(super) fn of(answer: &Answer, waiting: Option<Waiting>, says_left: bool) -> Option<Vec<i64>> {
    Some(match *answer {
        Answer::Attempt(it) => attempt(it, waiting),
        Answer::Renewal(it) => renewal(it),
        Answer::Adoption(it) => adoption(it),
        Answer::Ended(it) => ended(it, says_left),
        Answer::Lingering(it) => lingering(it),
        Answer::Repaired(it) => repaired(it),
        Answer::Flag(it) => vec![i64::from(it)],
        Answer::Done(()) => Vec::new(),
        _ => return None,
    })
}

fn attempt(attempt: Attempt, waiting: Option<Waiting>) -> Vec<i64> {
    match attempt {
        // The pause of a waiter, and not the time that a lease has left.
        Attempt::Queued { position, until, ask_again }
            if waiting.is_some_and(|it| it.live / 3 == ask_again) =>
        {
            let pause = u64::try_from(ask_again.as_millis()).unwrap_or(u64::MAX);
            vec![5, int(position), int(until / 1000), int(pause)]
        }
        Attempt::Granted { token } => vec![1, int(token)],
        Attempt::GrantedTick { token, tick: TickTimes { began, last, granted } } => {
            vec![1, int(token), int(began), int(last.unwrap_or(0)), int(granted)]
        }
        Attempt::Done { completed, until, left } => {
            vec![9, millis(left), int(completed), int(until)]
        }
        Attempt::Queued { position, until, ask_again } => {
            vec![5, int(position), int(until / 1000), millis(ask_again)]
        }
        Attempt::Busy { retry_after, kept, .. } => {
            vec![if kept { 7 } else { 0 }, millis(retry_after)]
        }
        Attempt::Recalled { retry_after, other_kind } => {
            vec![if other_kind { 10 } else { 8 }, millis(retry_after)]
        }
        Attempt::Ended => vec![2],
        Attempt::WrongKind => vec![3],
        Attempt::WouldDeadlock => vec![6],
    }
}

fn lost(reason: LossReason) -> i64 {
    if reason == LossReason::Expired { 0 } else { 2 }
}

fn renewal(renewal: Renewal) -> Vec<i64> {
    vec![match renewal {
        Renewal::Renewed => 1,
        Renewal::NotHeld(reason) => lost(reason),
    }]
}

fn adoption(adoption: Adoption) -> Vec<i64> {
    match adoption {
        Adoption::Adopted { token } => vec![1, int(token)],
        Adoption::NotHeld(reason) => vec![lost(reason)],
    }
}

fn lingering(lingering: Lingering) -> Vec<i64> {
    match lingering {
        Lingering::Kept { token } => vec![4, int(token)],
        Lingering::Wanted => vec![5],
        Lingering::Ended(it) => ended(it, false),
    }
}

fn ended(ended: Ended, says_left: bool) -> Vec<i64> {
    match ended {
        Ended::Released if says_left => vec![1, 0],
        Ended::Released => vec![1],
        Ended::StillHeld(left) => vec![1, i64::from(left)],
        Ended::Kept => vec![3],
        Ended::NotHeld(reason) => vec![lost(reason)],
    }
}

pub(super) fn forced(forced: Forced) -> Vec<i64> {
    match forced {
        Forced::Released { held, told, fence } => vec![1, int(held), int(fence.get()), int(told)],
        Forced::NotHeld => vec![0],
        _ => vec![3],
    }
}

pub(super) fn again(again: RunAgain) -> Vec<i64> {
    let completed = again.completed.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    vec![completed.map_or(0, millis), i64::from(again.is_running)]
}

fn repaired(repaired: Repaired) -> Vec<i64> {
    match repaired {
        Repaired::Held { token } => vec![1, int(token)],
        Repaired::NotHeld => vec![0],
        Repaired::Behind(by) => vec![2, millis(by)],
    }
}

/// A message without its proof. A recall names its client alone.
pub(super) fn message(hint: &Hint, client: &[u8]) -> Vec<u8> {
    match hint {
        Hint::Offered { id, token, until, early } => {
            // The scripts count whole milliseconds.
            let early = early.as_micros().div_ceil(1000);
            format!("{id:?}{token:016}{:013}{early:05}", until / 1000).into_bytes()
        }
        Hint::Free { id } => id.as_bytes().to_vec(),
        Hint::Forced { id } => [id.as_bytes(), b"F"].concat(),
        Hint::Recalled { .. } => [client, b"R"].concat(),
        Hint::LimitsChanged | Hint::RunAgain { .. } | Hint::Missed => Vec::new(),
    }
}
