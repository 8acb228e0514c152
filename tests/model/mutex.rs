//! The mutex, and the resource that it protects.

mod design;
mod effects;
mod mistake;
mod properties;
mod server;
mod state;
mod steps;
mod tests;
mod turn_tests;
mod turns;
