//! Locks a mutex without regard to poisoning: its data is valid after every statement.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also a poisoned one.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
