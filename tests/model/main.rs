//! A model of the protocol of a mutex with its queue, and all that can happen
//! to it within bounds: what tests with servers meet by chance, the checker
//! goes through.
//!
//! It is there for the order of things: which command may overtake which, what
//! a lost reply leaves behind, whether a late message can do harm. Each rule
//! that the protocol has for such a reason is taken away in a test here, and
//! the checker must find what comes of it: so the model can see it, and the
//! rule is needed. In the same test the design within the same bounds holds.
//!
//! **Time** has no length. A window (of a lease, an offer or a heartbeat) runs
//! out at the server at any moment, and then it is over for the client too,
//! whose clock began it before the server did. An offer may run out before its
//! waiter's heartbeat does, and its message says by how much. A client that does not look at
//! its clock is one that is paused: it goes on, and the fence is there for it.
//! That a command never brings the end of a window forward, and that clocks
//! run at one rate, is taken for granted.
//!
//! **The network** is a connection for each client, in order, and the keeper's
//! renewals, which run at any time. Answers, commands and messages get lost,
//! and messages come at any time.
//!
//! **Left out**: that a release forgets after a minute, the bound of 64 dead
//! waiters in one run, that those of a client which hears nothing are doubted, how long [turns] last, and renewals but those that claim
//! an offer: they change an expiry, and here expiries have no length. The model
//! follows the scripts by hand; that both do the same is what the other suites
//! are for.

mod checker;
mod client;
mod faults;
mod holders;
mod messages;
mod mutex;
mod queue;
mod tickets;
