//! No request fails because of its servers while nothing is wrong with them, nor with its process. A
//! client that has lost its way and finds none back is seen by that.

use super::director::Director;
use crate::network::Micros;

/// When waiters are promised something again, a request may still fail for so long: one that began before.
const SETTLED: Micros = 5_000_000;

/// Returns which requests have failed without a reason, in words.
pub(super) fn look(director: &Director) -> Vec<String> {
    let failed = director.failed().into_iter();
    let is_well = |id: &String| {
        let process = id.split(':').next().unwrap_or_default();
        director.is_well(process, SETTLED)
    };
    failed.filter(is_well).map(|id| format!("store: {id} failed, and nothing was wrong")).collect()
}
