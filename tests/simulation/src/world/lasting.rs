//! What is wrong for some time, and is told once, when it has lasted for too long.

use std::collections::BTreeMap;

use crate::network::Micros;

/// Since when something is wrong at each place, and whether that was told.
pub(super) type Lasting<K> = BTreeMap<K, (Micros, bool)>;

/// Goes on with what was wrong at a place `before`. Returns since when, once it has lasted for longer than
/// `most`, and the next times nothing.
pub(super) fn lasts<K: Clone + Ord>(
    place: &K,
    (now, most): (Micros, Micros),
    before: &mut Lasting<K>,
    lasting: &mut Lasting<K>,
) -> Option<Micros> {
    let (since, was_told) = before.remove(place).unwrap_or((now, false));
    let is_told = now - since > most;
    lasting.insert(place.clone(), (since, is_told));
    (is_told && !was_told).then_some(since)
}
