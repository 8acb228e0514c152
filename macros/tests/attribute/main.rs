//! The attribute, on the in-memory store.

mod functions;
mod guarding;
mod held;
mod methods;
mod spans;
