//! What every store promises, on each of them.

mod conformance;
#[cfg(feature = "servers")]
#[path = "seeds/contract.rs"]
mod seeds;
