//! Tells the holders from which a lock was taken by force.

use super::answer::{PendingAnswer, numbers};
use crate::store::Forced;

/// How many are told by one command: while a script runs, the server does nothing else.
pub(super) const MOST: u64 = 250;

/// How many the script tells that takes the lock.
const FIRST: u64 = 64;

/// Tells all of them, if the script has not: `tell` tells those after so many. Whoever is not told
/// learns it from its next renewal.
pub(super) async fn tell(forced: Forced, tell: impl Fn(u64) -> PendingAnswer) -> Forced {
    let Forced::Released { held, told: first, fence } = forced else { return forced };
    let (mut from, mut told) = (0, 0);
    while held > FIRST
        && let Ok(answer) = tell(from).await
        && let [seen, heard] = numbers(&answer)[..]
        && seen > 0
    {
        from += seen;
        told += heard;
    }
    // Those who lost it earlier are told again.
    Forced::Released { held, told: told.clamp(first, held), fence }
}
