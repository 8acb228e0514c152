//! What threads share, under schedules that shuttle chooses.
//!
//! The client is built here once more, with `std::sync` replaced: see `build.rs`. On one thread,
//! shuttle runs the threads of a test, and chooses at each use of a mutex or of an atomic which of
//! them goes on. It finds what only some orders of events show, and a wake-up that never comes is
//! a deadlock. It does not find a memory ordering that is too weak: each access is `SeqCst`.
//!
//! A file for each thing that threads share. Each has mistakes in `mistakes.rs`, and each mistake
//! a test that finds it.

include!(concat!(env!("OUT_DIR"), "/client.rs"));

mod explore;
mod mistakes;
mod sync;

mod driver_wakes;
mod hand_off;
mod keeper_agenda;
mod lease_phase;
mod queue_drops;
mod shutdown_counts;

use explore::is_planted;
