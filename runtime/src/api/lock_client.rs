//! The traits for a client as an argument, whatever its store.

use std::ops::Deref;

use super::locks::Locks;

/// A client with mutexes and read-write locks, as an argument: [`Locks`], `QuorumLocks`,
/// or a pointer to one, such as a reference or an `Arc`.
///
/// You can't implement it yourself.
///
/// # Examples
///
/// ```
/// use leasehold::{LockClient, LockLayer, Locks};
///
/// fn one_at_a_time(locks: &impl LockClient) -> LockLayer<&'static str> {
///     LockLayer::mutex(locks, "import")
/// }
/// one_at_a_time(&Locks::in_memory());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a lock client",
    label = "this is no lock client",
    note = "pass a `Locks` or a `QuorumLocks`, or a reference to one. A URL is none: connect once, when the program starts, with `Locks::connect(url).await?`"
)]
pub trait LockClient: sealed::Client {}

/// A client that has semaphores as well, as an argument: [`Locks`], or a pointer to one.
///
/// You can't implement it yourself.
///
/// # Examples
///
/// ```
/// use leasehold::{LockLayer, Locks, SemaphoreClient};
///
/// fn four_at_a_time(locks: &impl SemaphoreClient) -> LockLayer<&'static str> {
///     LockLayer::semaphore(locks, "reports", 4)
/// }
/// four_at_a_time(&Locks::in_memory());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a lock client with semaphores",
    label = "this can't count permits",
    note = "pass a `Locks`, or a reference to one: `Locks::connect(url).await?` makes it",
    note = "a `QuorumLocks` has none: a majority for each permit would not count all permits; keep semaphores on a single server"
)]
pub trait SemaphoreClient: LockClient {}

impl LockClient for Locks {}
impl SemaphoreClient for Locks {}
#[diagnostic::do_not_recommend]
impl<D: Deref<Target: LockClient>> LockClient for D {}
#[diagnostic::do_not_recommend]
impl<D: Deref<Target: SemaphoreClient>> SemaphoreClient for D {}

pub(crate) mod sealed {
    use super::{Deref, Locks};

    pub trait Client {
        #[doc(hidden)]
        fn locks(&self) -> &Locks;
    }

    impl Client for Locks {
        fn locks(&self) -> &Locks {
            self
        }
    }

    #[diagnostic::do_not_recommend]
    impl<D: Deref<Target: Client>> Client for D {
        fn locks(&self) -> &Locks {
            self.deref().locks()
        }
    }
}
