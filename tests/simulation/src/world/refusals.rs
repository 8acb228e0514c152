//! No request fails because of its servers while nothing is wrong with them, nor with its process. A
//! client that has lost its way and finds none back is seen by that.

use super::director::Director;
use crate::network::Micros;

/// When waiters are promised something again, a request may still fail for so long: one that began before.
const SETTLED: Micros = 5_000_000;

/// Looks at the requests that were answered since it looked before.
pub(super) fn look(director: &Director) {
    for (id, is_failed) in director.shared.take_answered() {
        let process = id.split(':').next().unwrap_or_default();
        if director.is_well(process, SETTLED) {
            let wrong = is_failed.then(|| format!("{id} failed, and nothing was wrong"));
            director.shared.judge("store", wrong);
        }
    }
}
