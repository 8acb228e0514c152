//! Work that succeeds once: a mutex whose completion marks the work as done.
//!
//! The server and its queue are those of the [mutex](crate::mutex), reduced to what meets the
//! mark: there are no tokens, and a waiter that is offered the lock asks again, which also
//! confirms the offer. A holder does not look at its clock before it completes. So all clients
//! are as bad as a paused one, and only the server's check of the holder is left.
//!
//! **Time** has a length here, of one or two units. A mark counts for two units from the
//! completion, or for the unit that was the tick of its grant. The server's clock may go on at
//! any moment, up to a bound. It never goes back.
//!
//! **The network** may lose a command or its answer. A completion or a release may also run at any
//! time after the client has sent it again. An ask may not: with an ask that it gives up, a client
//! closes the connection at the server.
//!
//! **Left out**: a failover, which may lose the mark; and the token of the grant, by which a
//! completion is also refused after a late ask was granted.

mod client;
mod design;
mod mistake;
mod properties;
mod server;
mod state;
mod steps;
mod tests;
