//! Fencing tokens.

use std::fmt;

/// A fencing token: a number that grows with each exclusive grant of a lock.
///
/// A lease can end while its holder still works, because the process was paused for a
/// while. Send the token with every read and write to the resource, and let the resource
/// refuse a token that is older than the newest it has seen. Then a late write of an
/// earlier holder changes nothing. The token fits an `i64` column.
///
/// The idea is [Martin Kleppmann's][1]. In Redisson it is `RFencedLock`.
///
/// [1]: https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let locks = leasehold::Locks::in_memory();
/// let lease = locks.mutex("order:42").lock().await?;
/// let token = i64::from(lease.fence()?);
/// let update = "UPDATE orders SET state = 'paid', fence = $1 WHERE id = 42 AND fence <= $1";
/// # let _ = (token, update);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    pub(crate) const fn new(token: u64) -> Self {
        Self(token)
    }

    /// The token as a number: below 2⁵³, so that JSON and Lua keep it exactly.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<Fence> for u64 {
    fn from(fence: Fence) -> Self {
        fence.0
    }
}

impl From<Fence> for i64 {
    fn from(fence: Fence) -> Self {
        fence.0.cast_signed()
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
