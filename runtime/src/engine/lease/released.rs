//! The result of a release.

/// The state of a lock after [`Lease::release`](crate::Lease::release): free or not.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::Released;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let locks = leasehold::Locks::in_memory();
/// let nightly = locks.mutex("nightly").hold_at_least(Duration::from_secs(300));
/// assert_eq!(nightly.lock().await?.release().await?, Released::Kept);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The lease has ended. The lock is free, or the next waiter has it.
    Free,
    /// The lease has ended, but its owner has this many others. Only of a reentrant mutex.
    StillHeld(u32),
    /// The lease has ended, but the lock is not free for the rest of `hold_at_least`.
    Kept,
    /// The lease has ended, and the lock stays with this process for its `linger`: the next
    /// acquisition here has it without a command. It is not free on the server. Use
    /// [`release_now`](crate::Lease::release_now) to make it so.
    Lingers,
}
