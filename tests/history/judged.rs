//! How often each rule has judged something. A rule that looks at nothing finds nothing either, so its
//! silence alone does not say that it holds. That a rule finds what it is for, planted mistakes show.

use std::collections::BTreeMap;
use std::ops::AddAssign;

/// How often each rule has looked at something of which it knew what must hold: no fault excused it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged(BTreeMap<&'static str, u64>);

impl Judged {
    /// A rule has judged something.
    pub fn note(&mut self, rule: &'static str) {
        self.add(rule, 1);
    }

    /// A rule has judged so many things.
    pub fn add(&mut self, rule: &'static str, count: u64) {
        *self.0.entry(rule).or_default() += count;
    }

    /// How often a rule has judged something; 0 if it is unknown.
    #[must_use]
    pub fn get(&self, rule: &str) -> u64 {
        self.0.get(rule).copied().unwrap_or_default()
    }

    /// All rules that have judged something.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(rule, count)| (*rule, *count))
    }
}

impl AddAssign<&Self> for Judged {
    fn add_assign(&mut self, other: &Self) {
        for (rule, count) in other.iter() {
            self.add(rule, count);
        }
    }
}

impl std::fmt::Display for Judged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (nth, (rule, count)) in self.iter().enumerate() {
            write!(f, "{}{rule} {count}", if nth == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
