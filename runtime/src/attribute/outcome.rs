//! The results of an annotated function whose lock was not acquired, or was lost.

use crate::core::error::{LockError, Quiet};

/// The return type of a function under `#[distributed_lock]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot say that the lock was not acquired",
    label = "a function under `#[distributed_lock]` returns this",
    note = "return `Result<_, E>` where `E: From<leasehold::LockError>`; or, for a job that may be skipped, use `if_held = \"skip\"`"
)]
pub trait Guarded: Sized {
    /// The result if the body did not run, or was cancelled because the lease was lost.
    fn refused(error: LockError) -> Self;

    /// Returns true if the body has done its work.
    fn is_success(&self) -> bool;
}

impl<T, E: FromLockError> Guarded for Result<T, E> {
    fn refused(error: LockError) -> Self {
        Err(E::from_lock_error(error))
    }

    fn is_success(&self) -> bool {
        self.is_ok()
    }
}

/// An error that a [`LockError`] can become. It stands for `From`, so that rustc can say
/// what to write.
#[diagnostic::on_unimplemented(
    message = "the error `{Self}` cannot say that the lock was not acquired: it is not `From<leasehold::LockError>`",
    label = "a function under `#[distributed_lock]` returns this error",
    note = "if it is yours, give it a variant: with thiserror `#[error(transparent)] Lock(#[from] leasehold::LockError)`; by hand `impl From<leasehold::LockError> for {Self}`",
    note = "if it is another crate's, as `sqlx::Error` is, return an enum of yours that has both: `Lock(#[from] leasehold::LockError)` and `Other(#[from] {Self})`"
)]
pub trait FromLockError: Sized {
    /// The error that the function returns.
    fn from_lock_error(error: LockError) -> Self;
}

#[diagnostic::do_not_recommend]
impl<E: From<LockError>> FromLockError for E {
    fn from_lock_error(error: LockError) -> Self {
        error.into()
    }
}

/// The return type of a function under `#[distributed_lock(…, if_held = "skip")]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot say that the run was skipped",
    label = "a function under `#[distributed_lock(…, if_held = \"skip\")]` returns this",
    note = "return `()`, `Option<_>`, `Result<(), E>` or `Result<Option<_>, E>` where `E: From<leasehold::LockError>`"
)]
pub trait Skippable: Sized {
    /// The result if another holder has the lock: the quiet case.
    fn skipped() -> Self;

    /// The result if the lock was not acquired for another reason, or was lost. A type without
    /// room for the error logs it, with the label of the lock.
    fn failed(error: LockError, lock: &'static str) -> Self;

    /// Returns true if the body has done its work. All results but an error say so.
    fn is_success(&self) -> bool {
        true
    }
}

impl Skippable for () {
    fn skipped() -> Self {}

    fn failed(error: LockError, lock: &'static str) -> Self {
        report(&error, lock);
    }
}

impl<T> Skippable for Option<T> {
    fn skipped() -> Self {
        None
    }

    fn failed(error: LockError, lock: &'static str) -> Self {
        report(&error, lock);
        None
    }
}

impl<E: FromLockError> Skippable for Result<(), E> {
    fn skipped() -> Self {
        Ok(())
    }

    fn is_success(&self) -> bool {
        self.is_ok()
    }

    fn failed(error: LockError, _: &'static str) -> Self {
        Err(E::from_lock_error(error))
    }
}

impl<T, E: FromLockError> Skippable for Result<Option<T>, E> {
    fn skipped() -> Self {
        Ok(None)
    }

    fn is_success(&self) -> bool {
        self.is_ok()
    }

    fn failed(error: LockError, _: &'static str) -> Self {
        Err(E::from_lock_error(error))
    }
}

/// The result of a job whose lock was not acquired, or was lost. `lock` is the label if the error
/// knows none; of several locks, the error knows which failed.
pub(super) fn skip_or_fail<R: Skippable>(error: LockError, lock: &'static str) -> R {
    let lock = error.label().unwrap_or(lock);
    if error.is_held_by_another() || error.is_done() || error.is_closed() || error.is_rate_limited()
    {
        tracing::debug!(lock, %error, "a run is skipped: another holder has the lock, or has done it; an operator has closed it; or its rate is used up");
        return R::skipped();
    }
    R::failed(error, lock)
}

/// Logs an error that the return type has no room for.
fn report(error: &LockError, lock: &'static str) {
    if let LockError::Lost { .. } = error {
        tracing::error!(lock, error = %Quiet(error), "a job was stopped halfway: its lease was lost");
    } else {
        tracing::error!(lock, error = %Quiet(error), "a job did not run: its lock was not acquired");
    }
}
