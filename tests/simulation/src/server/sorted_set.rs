//! A sorted set: members in the order of their scores, and of their names where those are equal.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// A member's place. No score is NaN.
#[derive(Clone, Debug, PartialEq)]
struct Place(f64, Vec<u8>);

impl Eq for Place {}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        // 0 and -0 are the same score.
        let scores = self.0.partial_cmp(&other.0).expect("no score is NaN");
        scores.then_with(|| self.1.cmp(&other.1))
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SortedSet {
    scores: BTreeMap<Vec<u8>, f64>,
    places: BTreeSet<Place>,
}

/// A bound of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    Included(f64),
    Excluded(f64),
}

impl Limit {
    #[must_use]
    pub fn is_below(self, score: f64) -> bool {
        match self {
            Self::Included(least) => least <= score,
            Self::Excluded(least) => least < score,
        }
    }

    #[must_use]
    pub fn is_above(self, score: f64) -> bool {
        match self {
            Self::Included(most) => score <= most,
            Self::Excluded(most) => score < most,
        }
    }
}

impl SortedSet {
    #[must_use]
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    #[must_use]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// Returns true if the member is new.
    pub fn insert(&mut self, member: &[u8], score: f64) -> bool {
        let before = self.scores.insert(member.to_vec(), score);
        if let Some(before) = before {
            self.places.remove(&Place(before, member.to_vec()));
        }
        self.places.insert(Place(score, member.to_vec()));
        before.is_none()
    }

    /// Returns true if the member was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let Some(score) = self.scores.remove(member) else { return false };
        self.places.remove(&Place(score, member.to_vec()))
    }

    /// All members in order.
    #[must_use]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], f64)> {
        self.places.iter().map(|Place(score, member)| (member.as_slice(), *score))
    }

    /// The members between two scores, in order.
    pub fn between(&self, least: Limit, most: Limit) -> impl Iterator<Item = (&[u8], f64)> {
        let (Limit::Included(from) | Limit::Excluded(from)) = least;
        let first = Bound::Included(Place(from, Vec::new()));
        let later = self.places.range((first, Bound::Unbounded));
        let later = later.map(|Place(score, member)| (member.as_slice(), *score));
        later
            .skip_while(move |(_, score)| !least.is_below(*score))
            .take_while(move |(_, score)| most.is_above(*score))
    }
}
