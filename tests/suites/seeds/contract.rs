//! Rows of `tests/seeds.md` that are cases of the contract, on one server. The others are in
//! `tests/suites/seeds.rs`.

use leasehold_tests::backend::Redis;

use crate::conformance::{reentrant, run, rw_queue, several, waiting};

#[test]
fn semaphore_is_fair() {
    run::<Redis>(|backend| Box::pin(waiting::a_semaphore_serves_clients_in_order(backend)));
}

#[test]
fn reentrant_counts_and_rejects_strangers() {
    run::<Redis>(|backend| {
        Box::pin(reentrant::a_lock_is_free_when_its_last_hold_is_released(backend))
    });
    run::<Redis>(|backend| {
        Box::pin(reentrant::a_stranger_learns_that_another_owner_holds_it(backend))
    });
}

#[test]
fn readers_do_not_release_each_other() {
    run::<Redis>(|backend| Box::pin(several::all_are_in_together(backend)));
}

#[test]
fn reader_reenters_past_a_waiting_writer() {
    run::<Redis>(|backend| Box::pin(rw_queue::an_owner_reads_again_past_a_waiting_writer(backend)));
    run::<Redis>(|backend| {
        Box::pin(rw_queue::a_request_that_would_wait_for_itself_is_refused(backend))
    });
}
