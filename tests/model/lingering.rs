//! A mutex that stays with its client after a release, until another client wants it.
//!
//! The server, its queue and the windows are those of the [mutex](crate::mutex), reduced to what
//! meets a lease that lingers: a waiter learns of its grant when it asks again, and a holder does
//! not renew. Waiters inside a process are left out: a lease is idle, or its one task uses it. The
//! pause after a recall is left out, too: a client lets a lease linger, or releases it.

mod client;
mod design;
mod mistake;
mod properties;
mod server;
mod state;
mod steps;
mod tests;
