//! An operator takes a lock from its holders.

use std::fmt;
use std::future::IntoFuture;

use futures_util::future::BoxFuture;

use super::locks::Locks;
use crate::core::error::{LockError, Step};
use crate::core::key::{IntoLockKey, LockKey};
use crate::store::{Ask, ClientInfo, Force, Forced, Holder, Note};

impl Locks {
    /// Takes a lock of any kind from all its holders, and wakes the first waiter: for an
    /// operator, when a holder is stuck. It is sent when the result is awaited.
    ///
    /// All leases of the lock are lost with the reason
    /// [`LossReason::Forced`](crate::LossReason), and so are all permits; with
    /// [`holder`](ForceRelease::holder), only those of some holders. The store tells the
    /// holders, which cancels their work, usually within milliseconds. The lock is free at
    /// once; with more than 64 holders, the result comes when all are told, 250 at a time.
    /// [`Forced::Released`](crate::Forced) says how many were told.
    ///
    /// A holder that gets no message learns of it from its next renewal, within a third of
    /// its TTL, or at its deadline with `auto_renew(false)`. No message arrives on a cluster
    /// or with a connection pool of your own, and any message can be lost. Until then two
    /// holders may work. A resource that checks fencing tokens refuses the former holder
    /// once it has seen a newer token: the next holder's, or the one that this call returns
    /// ([`Forced::Released`](crate::Forced)). Permits and readers have no token.
    ///
    /// The store remembers for a day who took the lock, when and why:
    /// [`LockInfo::last_forced`](crate::LockInfo::last_forced).
    ///
    /// # Errors
    ///
    /// When it is awaited:
    ///
    /// - [`LockError::InvalidKey`] if no lock can have this name.
    /// - [`LockError::Store`] if the store failed, or refuses the client. The command may
    ///   have run. A second call takes the lock from those who hold it by then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the command: it may still run. Holders after the
    /// first 64 may not be told then.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{Forced, LossReason};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// let stuck = locks.mutex("order:42").lock().await?;
    /// let old = stuck.fence()?;
    ///
    /// let forced = locks.force_release("order:42").by("ann").why("TICKET-7: it hangs").await?;
    /// assert!(matches!(forced, Forced::Released { held: 1, told: 1, fence } if fence > old));
    /// assert_eq!(stuck.lost().await, LossReason::Forced);
    /// assert!(locks.mutex("order:42").try_lock().await.is_ok());
    ///
    /// let last = locks.inspect("order:42").await?.last_forced.expect("it was forced today");
    /// assert_eq!(last.by, "ann");
    /// # Ok(())
    /// # }
    /// ```
    pub fn force_release(&self, key: impl IntoLockKey) -> ForceRelease {
        let (locks, key) = (self.clone(), key.into_lock_key());
        ForceRelease { locks, key, by: None, why: None, only: Vec::new() }
    }

    async fn take_by_force(&self, key: LockKey, force: Force) -> Result<Forced, LockError> {
        self.client().check_not_forked(Step::ForceRelease, &key)?;
        let (by, why) = (force.by.clone(), force.why.clone());
        let forced = self.client().store.force_release(&key, force).await;
        // This process hands no former lease of the lock over any more.
        self.shared().queues.end_turns(&key);
        let forced = forced.map_err(|error| LockError::store(Step::ForceRelease, &key, error))?;
        if let Forced::Released { held, told, .. } = forced {
            tracing::warn!(
                lock = key.log_label(),
                held,
                told,
                by = by.text(),
                why = why.as_ref().map(Note::text),
                "a lock was taken from its holders by force"
            );
            tracing::debug!(lock = key.log_label(), %key, "the lock that was taken by force");
        }
        Ok(forced)
    }
}

/// Takes a lock from its holders when it is awaited, from [`Locks::force_release`].
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// let locks = leasehold::Locks::in_memory();
/// let pool = locks.semaphore("pool", 2);
/// let hangs = pool.clone().note("hangs").acquire().await?;
/// let works = pool.note("works").acquire().await?;
///
/// let seen = locks.inspect("pool").await?;
/// let stuck = seen.holders.iter().find(|it| it.note.as_deref() == Some("hangs")).expect("it is there");
/// let _ = locks.force_release("pool").holder(stuck).by("ann").await?;
/// hangs.lost().await;
/// assert!(works.is_held());
/// # Ok(())
/// # }
/// ```
#[must_use = "it does nothing until it is awaited"]
pub struct ForceRelease {
    locks: Locks,
    key: Result<LockKey, LockError>,
    by: Option<Note>,
    why: Option<Note>,
    only: Vec<String>,
}

impl ForceRelease {
    /// Who takes it, for those who wonder later. The default is this process.
    pub fn by(mut self, by: impl AsRef<str>) -> Self {
        self.by = Note::new(by.as_ref());
        self
    }

    /// Why, for those who wonder later.
    pub fn why(mut self, why: impl AsRef<str>) -> Self {
        self.why = Note::new(why.as_ref());
        self
    }

    /// Takes the lock from this holder alone, as [`inspect`](Locks::inspect) shows it; and from each
    /// other one that is named so. The others keep it. A holder that has ended by then loses nothing, and
    /// whoever has the lock after it loses nothing either. Whoever holds a reentrant mutex loses all its
    /// holds.
    pub fn holder(mut self, holder: &Holder) -> Self {
        self.only.push(holder.member.clone());
        self
    }
}

impl IntoFuture for ForceRelease {
    type Output = Result<Forced, LockError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { locks, key, by, why, only } = self;
            let by = by.unwrap_or_else(|| this_process(&locks));
            locks.take_by_force(key?, Force { by, why, only }).await
        })
    }
}

/// `program@host:process`.
fn this_process(locks: &Locks) -> Note {
    let ClientInfo { service, host, process, .. } = ClientInfo::of_process(locks.client().id, None);
    let text = format!("{service}@{host}:{process}");
    Note::new(&text).expect("it has a process")
}

impl fmt::Debug for ForceRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForceRelease").field("key", &self.key).finish_non_exhaustive()
    }
}
