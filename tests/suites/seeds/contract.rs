//! Rows of `tests/seeds.md` that are cases of the contract, on one server. The others are in
//! `tests/suites/seeds.rs`.

use leasehold_tests::backend::Redis;

use crate::conformance::{reentrant, run, rw_queue, several, waiting};

macro_rules! rows {
    ($($name:ident: $($suite:ident::$case:ident),*;)*) => {$(
        #[test]
        fn $name() {
            $(run::<Redis>(|backend| Box::pin($suite::$case(backend)));)*
        }
    )*};
}

rows! {
    semaphore_is_fair: waiting::a_semaphore_serves_clients_in_order;
    reentrant_counts_and_rejects_strangers:
        reentrant::a_lock_is_free_when_its_last_hold_is_released,
        reentrant::a_stranger_learns_that_another_owner_holds_it;
    readers_do_not_release_each_other: several::all_are_in_together;
    reader_reenters_past_a_waiting_writer:
        rw_queue::an_owner_reads_again_past_a_waiting_writer,
        rw_queue::a_request_that_would_wait_for_itself_is_refused;
}
