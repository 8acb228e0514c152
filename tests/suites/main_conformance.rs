//! What every store promises, on each of them.

mod conformance;
