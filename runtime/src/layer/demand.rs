//! Which kind of lock a layer takes, and how much of it a request takes.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;

use super::key::KeyError;
use super::number::Number;
use super::reject::Refusal;
use super::request_lock::LayerKind;
use crate::core::rate::Rate;

/// The function that says the rate of a request. `None` is the default.
pub(super) type RateBy = Arc<dyn Fn(&Parts) -> Option<Rate> + Send + Sync>;

/// The kind, and what changes it by the request.
#[derive(Clone)]
pub(super) struct Demand {
    pub(super) kind: LayerKind,
    /// `None` is 1 for each request.
    pub(super) weight: Option<Number>,
    /// `None` is the semaphore's limit for each request.
    pub(super) limit: Option<Number>,
    /// `None` is the rate of each request.
    pub(super) rate: Option<RateBy>,
}

impl Demand {
    /// Panics if no request could ever get such a lock.
    #[track_caller]
    pub(super) fn new(kind: LayerKind) -> Self {
        assert_none(problem(kind));
        Self { kind, weight: None, limit: None, rate: None }
    }

    /// Returns true if it is the same for all requests.
    pub(super) fn is_fixed(&self) -> bool {
        self.weight.is_none() && self.limit.is_none() && self.rate.is_none()
    }

    /// The kind of lock that a request takes, with the limit that holds for it, and how much it takes.
    pub(super) fn of(&self, parts: &Parts) -> Result<(LayerKind, u32), Refusal> {
        let (kind, most) = match self.kind {
            LayerKind::Semaphore { limit } => self.limited(limit, parts)?,
            LayerKind::Rate { rate } => {
                let rate = self.rate.as_ref().and_then(|by| by(parts)).unwrap_or(rate);
                (LayerKind::Rate { rate }, rate.most_at_once())
            }
            kind => return Ok((kind, 1)),
        };
        let weight = said(self.weight.as_ref(), parts).map_err(Refusal::NoWeight)?.unwrap_or(1);
        // A rate of 0, from `rate_by`, is the server's mistake, which the acquisition reports.
        if most > 0 && !(1..=most).contains(&weight) {
            let problem = format!("{weight} is not between 1 and {most}");
            return Err(Refusal::NoWeight(KeyError::new(problem)));
        }
        Ok((kind, weight))
    }

    /// The semaphore with the limit that holds for a request.
    fn limited(&self, limit: u32, parts: &Parts) -> Result<(LayerKind, u32), Refusal> {
        let limit = match said(self.limit.as_ref(), parts).map_err(Refusal::NoLimit)? {
            Some(0) => {
                let problem = format!("0 is not between 1 and {}", u32::MAX);
                return Err(Refusal::NoLimit(KeyError::new(problem)));
            }
            said => said.unwrap_or(limit),
        };
        Ok((LayerKind::Semaphore { limit }, limit))
    }

    /// Sets how much a request takes.
    #[track_caller]
    pub(super) fn set_weight(&mut self, weight: Number) {
        let has_weight = matches!(self.kind, LayerKind::Semaphore { .. } | LayerKind::Rate { .. });
        assert!(
            has_weight,
            "`weight_by` is for semaphores, and for each `LayerLock` of `LockLayer::all` that is a permit \
             or a rate: other locks have no weight"
        );
        self.weight = Some(weight);
    }

    /// Sets which limit holds for a request.
    #[track_caller]
    pub(super) fn set_limit(&mut self, limit: Number) {
        let is_semaphore = matches!(self.kind, LayerKind::Semaphore { .. });
        assert!(is_semaphore, "`limit_by` is for semaphores: other locks have no permits");
        self.limit = Some(limit);
    }

    /// Sets which rate holds for a request.
    #[track_caller]
    pub(super) fn set_rate(&mut self, rate: RateBy) {
        assert!(matches!(self.kind, LayerKind::Rate { .. }), "`rate_by` is for rates");
        self.rate = Some(rate);
    }
}

/// Panics if there is something wrong for every request.
#[track_caller]
pub(super) fn assert_none(problem: Option<impl fmt::Display>) {
    if let Some(problem) = problem {
        panic!("a `LockLayer` would refuse every request: {problem}");
    }
}

/// What is wrong with a kind of lock for every request.
fn problem(kind: LayerKind) -> Option<String> {
    match kind {
        LayerKind::Semaphore { limit: 0 } => {
            Some("a semaphore with a limit of 0 never grants a permit".to_owned())
        }
        LayerKind::Rate { rate } => rate.check(1).err(),
        _ => None,
    }
}

/// What a function says of a request, if there is one.
fn said(number: Option<&Number>, parts: &Parts) -> Result<Option<u32>, KeyError> {
    number.map_or(Ok(None), |say| say(parts))
}

impl fmt::Debug for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}
