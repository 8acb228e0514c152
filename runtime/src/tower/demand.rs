//! Which kind of lock a layer takes, and how much of it a request takes.

use std::fmt;

use http::request::Parts;

use super::key::KeyError;
use super::number::Number;
use super::reject::Refusal;
use super::request_lock::LayerKind;

/// The kind, and what changes it by the request.
#[derive(Clone)]
pub(super) struct Demand {
    pub(super) kind: LayerKind,
    /// `None` is 1 for each request.
    pub(super) weight: Option<Number>,
    /// `None` is the semaphore's limit for each request.
    pub(super) limit: Option<Number>,
}

impl Demand {
    pub(super) fn new(kind: LayerKind) -> Self {
        Self { kind, weight: None, limit: None }
    }

    /// Returns true if it is the same for all requests.
    pub(super) fn is_fixed(&self) -> bool {
        self.weight.is_none() && self.limit.is_none()
    }

    /// The kind of lock that a request takes, with the limit that holds for it, and how much it takes.
    pub(super) fn of(&self, parts: &Parts) -> Result<(LayerKind, u32), Refusal> {
        let LayerKind::Semaphore { limit } = self.kind else { return Ok((self.kind, 1)) };
        let say = |number: &Option<Number>| number.as_ref().map_or(Ok(None), |say| say(parts));
        let limit = match say(&self.limit).map_err(Refusal::NoLimit)? {
            Some(0) => {
                let problem = format!("0 is not between 1 and {}", u32::MAX);
                return Err(Refusal::NoLimit(KeyError::new(problem)));
            }
            said => said.unwrap_or(limit),
        };
        let weight = say(&self.weight).map_err(Refusal::NoWeight)?.unwrap_or(1);
        // A limit of 0 is the server's mistake, which the acquisition reports.
        if limit > 0 && !(1..=limit).contains(&weight) {
            let problem = format!("{weight} is not between 1 and {limit}");
            return Err(Refusal::NoWeight(KeyError::new(problem)));
        }
        Ok((LayerKind::Semaphore { limit }, weight))
    }

    /// Sets how much a request takes.
    #[track_caller]
    pub(super) fn set_weight(&mut self, weight: Number) {
        self.check_semaphore("weight_by");
        self.weight = Some(weight);
    }

    /// Sets which limit holds for a request.
    #[track_caller]
    pub(super) fn set_limit(&mut self, limit: Number) {
        self.check_semaphore("limit_by");
        self.limit = Some(limit);
    }

    #[track_caller]
    fn check_semaphore(&self, option: &str) {
        let is_semaphore = matches!(self.kind, LayerKind::Semaphore { .. });
        assert!(is_semaphore, "`{option}` is for semaphores: other locks have no permits");
    }
}

impl fmt::Debug for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}
