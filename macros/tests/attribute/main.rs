//! The attribute, on the in-memory store.

mod ending;
mod functions;
mod guarding;
mod held;
mod keys;
mod methods;
mod once;
mod owners;
mod rates;
mod sizes;
mod spans;
