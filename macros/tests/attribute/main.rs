//! The attribute, on the in-memory store.

mod ending;
mod functions;
mod guarding;
mod held;
mod methods;
mod sizes;
mod spans;
