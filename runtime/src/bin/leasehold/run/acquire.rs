//! The lock of a command.

use std::time::Duration;

use leasehold::{Lease, LockError, Locks, Wait};

use super::super::args::{Run, Waiting};

/// Acquires what the options say.
pub(super) async fn acquire(locks: &Locks, run: &Run) -> Result<Lease, LockError> {
    let wait = match run.wait {
        Waiting::For(time) => Wait::For(time),
        Waiting::Forever => Wait::Forever,
    };
    // Both kinds of lock have these options.
    macro_rules! with_options {
        ($lock:expr) => {{
            let mut lock = $lock.ttl(run.ttl).wait(wait).max_hold(run.max_hold);
            if let Some(owner) = &run.owner {
                lock = lock.owner(owner);
            }
            if let Some(note) = &run.note {
                lock = lock.note(note);
            }
            lock
        }};
    }
    let waits = wait != Wait::For(Duration::ZERO);
    if let Some(limit) = run.permits {
        let semaphore = with_options!(locks.semaphore(run.key.as_str(), limit));
        return if waits {
            semaphore.acquire_many(run.weight).await
        } else {
            semaphore.try_acquire_many(run.weight).await
        };
    }
    let mut mutex = with_options!(locks.mutex(run.key.as_str()));
    if let Some(lasts) = run.once {
        mutex = mutex.once(lasts);
    }
    if let Some(period) = run.once_per {
        mutex = mutex.once_per(period).offset(run.offset.unwrap_or_default());
    }
    if waits { mutex.lock().await } else { mutex.try_lock().await }
}
