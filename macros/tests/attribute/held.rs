//! Helpers of the tests: they ask whether a lock is held, and call annotated functions.

use leasehold::{LockError, LockKey, Locks};

/// The answer of a body: true if it saw its lock held.
pub(crate) type Held = Result<bool, LockError>;

/// Returns true if somebody holds the mutex now, in the client of the scope.
///
/// # Panics
///
/// If the store can't be asked.
pub(crate) async fn held(key: &str) -> bool {
    let locks = Locks::current().expect("the test runs in a scope");
    match locks.mutex(LockKey::new(key)).try_lock().await {
        Ok(lease) => {
            lease.release().await.expect("it was granted just now");
            false
        }
        Err(LockError::Busy { .. }) => true,
        Err(error) => panic!("{error}"),
    }
}

/// Runs a call twice in a scope of its own: the body sees the lock held and
/// says so by its result, and both times it gets the lock.
macro_rules! runs_under {
    ($key:literal, $call:expr => $result:pat $(if $guard:expr)?) => {
        leasehold::Locks::in_memory()
            .scope(async {
                for _ in 0..2 {
                    assert!(matches!($crate::held::sent($call).await, $result $(if $guard)?));
                    assert!(!$crate::held::held($key).await);
                }
            })
            .await
    };
}

pub(crate) use runs_under;

/// The future itself, which has to be `Send`.
pub(crate) fn sent<F: Future + Send>(future: F) -> F {
    future
}
