//! A model of the protocol of a mutex with its queue, and of all that can happen to it within
//! bounds. The checker goes through all states, which tests with servers meet only by chance.
//!
//! The model is about order: which command may overtake which, what a lost reply leaves behind,
//! whether a late hint can do harm. Some rules of the protocol exist for such a reason. For each
//! of them a test takes the rule away, and the checker must find the consequence. This shows
//! that the rule is needed, and that the model can see it. The same test checks that the design
//! holds within the same bounds.
//!
//! **Time** has no length. A window (of a lease, an offer or a heartbeat) ends at the server at any
//! moment. Then it is over for the client too, because its clock began the window before the
//! server's. An offer may end before its waiter's heartbeat, and its hint says by how much. A client that does not look at its clock stands for a paused client: it goes on, and the
//! fence stops it. The model assumes that clocks run at one rate, and that no command brings the
//! end of a window forward.
//!
//! **The network** is one connection for each client, which keeps the order, and the keeper's
//! renewals, which run at any time. Answers, commands and hints get lost. Hints arrive at any
//! time.
//!
//! **Left out**: the other kinds of lock, and work that is to succeed once, of which the simulation
//! judges each call (`tests/simulation/src/oracle`); an ended request is forgotten after a minute; a
//! script passes over at most 64 dead waiters; the other waiters of a client without hints count as
//! dead earlier; the length of turns; all renewals except those that claim an offer. These change
//! expiries, and expiries have no length here. The model follows the scripts by hand. The other
//! suites check that both do the same.

mod checker;
mod client;
mod faults;
mod messages;
mod mutex;
mod queue;
mod tickets;
