//! Renewing a lease by hand.

use super::{Lease, TRIES};
use crate::core::error::{LockError, Step};
use crate::keeper::{RenewOutcome, renew};

impl Lease {
    /// Renews the lease now, for its whole TTL or for the rest of its `max_hold`, and waits
    /// for the store's answer.
    ///
    /// Leases are renewed automatically. Call this for a lease with `auto_renew(false)`,
    /// and before [`detach`](Self::detach).
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if the lease has ended: nothing brings it back.
    /// - [`LockError::Store`] if the store failed three times, or refuses the client. The
    ///   lease is held until its deadline, as before.
    /// - [`LockError::Quorum`] on a quorum, if too few servers agreed because too many of
    ///   them failed. The lease is held until its deadline, as before.
    ///
    /// # Cancel safety
    ///
    /// Safe: the lease is renewed or not, and stays held either way.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let locks = leasehold::Locks::in_memory();
    /// let order = locks.mutex("order:42").ttl(Duration::from_secs(60)).auto_renew(false);
    /// let lease = order.lock().await?;
    /// lease.renew().await?;
    /// assert!(lease.remaining() > Duration::from_secs(55));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn renew(&self) -> Result<(), LockError> {
        self.check(Step::Renew)?;
        for tries_left in (0..TRIES).rev() {
            if !self.is_held() {
                break;
            }
            let was_final = self.local().is_final();
            match renew(&self.client().store, self.local()).await {
                Ok(RenewOutcome::Held(next)) => {
                    // Without `auto_renew` the keeper looks only at the deadline, which has moved.
                    let is_new = !was_final && !self.local().is_renewed();
                    if let Some(next) = next.filter(|_| is_new) {
                        self.client().keeper.watch(self.local(), next, None);
                    }
                    break;
                }
                Ok(RenewOutcome::NotHeld(reason)) => {
                    // Not in here: this may be polled by `run`, which stops that now.
                    self.client().keeper.report_loss_later(self.local(), reason);
                    break;
                }
                Err(error) if error.is_passing && tries_left > 0 => {}
                Err(error) => return Err(LockError::store(Step::Renew, self.key(), error)),
            }
        }
        if self.is_held() { Ok(()) } else { Err(self.lost_by(self.lost().await)) }
    }
}
