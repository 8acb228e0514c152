//! Turning a lease into a ticket.

use tokio::time::sleep;

use super::{Lease, Rest};
use crate::core::error::{LockError, Step};
use crate::core::timers::check_timers;
use crate::engine::ticket::Ticket;
use crate::keeper::late;

impl Lease {
    /// Turns the lease into a ticket for another process. The lock stays held, without
    /// renewals, until [`Locks::adopt`](crate::Locks::adopt) takes it over or its TTL is
    /// over.
    ///
    /// Afterwards the state of this lease's handles is `Released`. The ticket is valid for
    /// [`remaining`](Self::remaining), so call [`renew`](Self::renew) first if it may take
    /// long to arrive. What is left of `hold_at_least` and `max_hold` travels with the
    /// ticket. Their clock stops on the way, and goes on from the adoption.
    ///
    /// It sends no command and is ready at once, with two exceptions. A lease that was handed
    /// over a moment ago is renewed first. And if a command of the lease's acquisition got no
    /// answer, that command could arrive after the ticket was adopted and the lock released: it
    /// would acquire the lock again, for nobody. So this waits until it can hardly arrive any
    /// more, for 0.5 to 15 seconds, and renews the lease meanwhile.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if the lease had ended before.
    /// - [`LockError::Unsupported`] on a quorum. The lease is released.
    /// - [`LockError::InvalidOption`] if the lock has [`once`](crate::Mutex::once) or
    ///   [`once_per`](crate::Mutex::once_per). The lease is released.
    /// - [`LockError::Store`] if it has to renew the lease, and the store failed three times, or
    ///   refuses the client. The lease is released.
    /// - [`LockError::NoRuntime`] outside of a Tokio runtime with timers. The lease is released.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, the lease is released.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let locks = leasehold::Locks::in_memory();
    /// let lease = locks.mutex("import:7").lock().await?;
    /// lease.renew().await?; // a whole TTL for the journey
    /// let message = lease.detach().await?.to_string();
    /// # drop(message);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn detach(mut self) -> Result<Ticket, LockError> {
        self.check(Step::Release)?;
        check_timers()?;
        Ticket::check(self.local(), &*self.client().store)?;
        if self.local().is_offer() {
            // Until a renewal confirms it, it ends within a second, whatever the TTL.
            self.renew().await?;
        }
        self.until_all_has_arrived().await?;
        let ticket = Ticket::of(self.local());
        if !self.stop(self.client().store.now())
            && let Some(reason) = self.local().loss_so_far()
        {
            return Err(self.lost_by(reason));
        }
        self.rest = Rest::Nothing;
        self.local().count_out(false);
        Ok(ticket)
    }

    /// Waits until no ask of the lease's request can arrive any more.
    async fn until_all_has_arrived(&self) -> Result<(), LockError> {
        let Some(since) = self.local().unanswered_since() else { return Ok(()) };
        let store = &self.client().store;
        let until = store.now() + late(store, since);
        loop {
            self.renew().await?;
            let left = until.saturating_duration_since(store.now());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(self.remaining() / 3)).await;
        }
    }
}
