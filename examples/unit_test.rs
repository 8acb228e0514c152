//! Unit tests of code that runs under a lock: the lock is held, lost, or can't be asked for. They
//! need no server, and no waiting.
//!
//! ```sh
//! cargo test --example unit_test    # its tests: at the end of this file
//! cargo run --example unit_test     # the same code, on a good day and on a bad one
//! ```

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::{Fault, LockError, Locks, distributed_lock};
use tokio::time::sleep;

/// The answer to the customer.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// It is paid.
    Paid,
    /// Nothing was done; the user may try again.
    TryAgain,
    /// The invoice may be paid. Somebody must ask the bank before another try.
    OutcomeUnknown,
}

/// A bank that takes its time.
#[derive(Debug, Default)]
struct Bank {
    begun: AtomicU32,
    done: AtomicU32,
}

impl Bank {
    async fn transfer(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_secs(5)).await;
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

#[distributed_lock(key = "invoice:{invoice}", ttl = "9s", wait = "3s")]
async fn charge(invoice: u64, bank: &Bank) -> Result<(), LockError> {
    bank.transfer().await;
    Ok(())
}

/// The code under test: it turns each error into an answer.
async fn pay(invoice: u64, bank: &Bank) -> Answer {
    match charge(invoice, bank).await {
        Ok(()) => Answer::Paid,
        Err(LockError::Lost { .. }) => Answer::OutcomeUnknown,
        Err(error) => {
            println!("  not paid: {error}");
            Answer::TryAgain
        }
    }
}

#[tokio::main]
async fn main() {
    let (locks, faults) = Locks::in_memory_with_faults();
    locks.install();
    let bank = Bank::default();
    println!("A good day; the bank takes 5 seconds:");
    println!("  {:?}", pay(42, &bank).await);
    faults.always(Fault::Unreachable);
    println!("The lock store is down, and is waited for, for 3 seconds:");
    println!("  {:?}", pay(43, &bank).await);
    println!("The unit tests pause the clock: cargo test --example unit_test");
}

#[cfg(test)]
mod tests {
    use leasehold::Step;

    use super::*;

    /// The numbers of transfers that were begun and done.
    fn transfers(bank: &Bank) -> (u32, u32) {
        (bank.begun.load(Ordering::Relaxed), bank.done.load(Ordering::Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn an_invoice_in_payment_is_to_be_tried_again() {
        let (locks, bank) = (Locks::in_memory(), Bank::default());
        let _another = locks.mutex("invoice:42").lock().await.unwrap();
        assert_eq!(locks.scope(pay(42, &bank)).await, Answer::TryAgain);
        assert_eq!(locks.scope(pay(43, &bank)).await, Answer::Paid);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_paid_without_a_lock() {
        for fault in [Fault::Unreachable, Fault::Refuse, Fault::LoseReply] {
            let ((locks, faults), bank) = (Locks::in_memory_with_faults(), Bank::default());
            faults.always(fault);
            assert_eq!(locks.scope(pay(42, &bank)).await, Answer::TryAgain, "{fault:?}");
            assert_eq!(transfers(&bank), (0, 0));
            faults.heal();
            assert_eq!(locks.scope(pay(42, &bank)).await, Answer::Paid, "{fault:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_lock_leaves_the_outcome_unknown() {
        let ((locks, faults), bank) = (Locks::in_memory_with_faults(), Bank::default());
        let expire = async {
            sleep(Duration::from_secs(1)).await;
            assert!(faults.expire("invoice:42"));
        };
        // The next renewal comes after 3 seconds, and the bank takes 5.
        let (answer, ()) = tokio::join!(locks.scope(pay(42, &bank)), expire);
        assert_eq!(answer, Answer::OutcomeUnknown);
        assert_eq!(transfers(&bank), (1, 0), "it was stopped in its middle");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_release_does_not_undo_the_payment() {
        let ((locks, faults), bank) = (Locks::in_memory_with_faults(), Bank::default());
        faults.on(Step::Release).always(Fault::Unreachable);
        assert_eq!(locks.scope(pay(42, &bank)).await, Answer::Paid);
        // The lock is still held, for the rest of its TTL.
        assert_eq!(locks.scope(pay(42, &bank)).await, Answer::TryAgain);
        assert_eq!(transfers(&bank), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_reply_does_no_harm() {
        let ((locks, faults), bank) = (Locks::in_memory_with_faults(), Bank::default());
        faults.next(Fault::LoseReply);
        assert_eq!(locks.scope(pay(42, &bank)).await, Answer::Paid);
        assert_eq!(transfers(&bank), (1, 1));
    }
}
