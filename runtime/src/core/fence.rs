//! Fencing tokens.

use std::fmt;

/// A fencing token: it grows with each grant of a lock.
///
/// A lease can end while its holder still works, because the process was
/// stopped for a while. Give the token to the resource with every read and
/// every write, and let it refuse a token that is older than the newest it has
/// seen; then a late write of an earlier holder changes nothing. It fits an
/// `i64` column.
///
/// The idea is [Martin Kleppmann's][1].
///
/// [1]: https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    pub(crate) const fn new(token: u64) -> Self {
        Self(token)
    }

    /// The token as a number, below 2⁵³.
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
