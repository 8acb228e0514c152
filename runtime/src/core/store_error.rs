//! What a store says when it fails.

use std::error::Error;

/// Whether a command ran that had no proper answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It surely did not.
    NotRun,
    /// It may have.
    Unknown,
}

/// Why a command had no proper answer.
#[derive(Debug)]
pub struct StoreError {
    /// Whether it may have run.
    pub outcome: Outcome,
    /// Whether the same command may well succeed a little later.
    pub is_passing: bool,
    /// Whether the store's own runtime has ended.
    pub is_shut_down: bool,
    /// The driver's error.
    pub source: Box<dyn Error + Send + Sync>,
}
