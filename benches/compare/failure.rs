//! The error of everything that can fail in a bench.

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;
