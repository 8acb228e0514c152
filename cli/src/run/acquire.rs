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
            let lock = $lock.ttl(run.ttl).wait(wait).max_hold(run.max_hold);
            let lock = lock.note(run.note.as_deref().unwrap_or_default());
            match &run.owner {
                Some(owner) => lock.owner(owner),
                None => lock,
            }
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
    let mutex = with_options!(locks.mutex(run.key.as_str())).once(run.once).once_per(run.once_per);
    let mut mutex = mutex.offset(run.offset.unwrap_or_default()).replace(run.replace);
    if let Some(schedule) = &run.schedule {
        mutex = mutex.schedule(schedule);
    }
    if waits { mutex.lock().await } else { mutex.try_lock().await }
}
