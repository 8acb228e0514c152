//! A part of a rate, as a request takes it: it has no lease.

use std::time::Duration;

use super::request::RequestId;
use crate::core::key::LockKey;
use crate::core::rate::Rate;

/// A take before it has an id.
#[derive(Clone, Debug)]
pub(crate) struct TakeSpec {
    pub(crate) key: LockKey,
    pub(crate) rate: Rate,
    pub(crate) weight: u32,
}

impl TakeSpec {
    /// The take with this id, which settles these.
    pub(crate) fn into_take(self, id: RequestId, settled: Vec<RequestId>) -> Take {
        let Self { key, rate, weight } = self;
        Take { key, id, rate, weight, settled, wait: Duration::ZERO }
    }
}

/// What one request takes of a rate.
#[derive(Clone, Debug)]
pub struct Take {
    /// The name of the rate.
    pub key: LockKey,
    /// The id of the request.
    pub id: RequestId,
    /// The rate. Each request brings its own.
    pub rate: Rate,
    /// How much of it.
    pub weight: u32,
    /// Earlier takes of this rate that are used, and of which no copy can arrive any more: the store
    /// forgets them before their time.
    pub settled: Vec<RequestId>,
    /// How long its request may wait, if it is not known yet.
    pub wait: Duration,
}

impl Take {
    /// For how many microseconds it uses the rate up.
    pub(super) fn micros(&self) -> u64 {
        self.rate.micros(self.weight)
    }
}
