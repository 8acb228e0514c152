//! What the keeper does about a lease because of a hint.

use super::{Executor, Keeper, loss, offer};
use crate::store::{Request, RequestId, Stamp};

impl Keeper {
    /// Lets all leases be renewed within a second, because a connection was lost: the server may have
    /// restarted without its data, and grant to others what is held here.
    pub(crate) fn renew_soon(&self) {
        match &self.executor {
            Executor::OnRuntime(_) => {}
            #[cfg(feature = "redis")]
            Executor::Thread(shared, _) => shared.renew_soon(),
        }
    }

    /// Asks the store whether a lease was taken by force, and marks it lost if so. The hint
    /// that said so proves nothing: anybody may have sent it.
    pub(crate) fn ask_whether_forced(&self, id: RequestId) {
        let local = match &self.executor {
            Executor::OnRuntime(on_runtime) => on_runtime.find(id),
            #[cfg(feature = "redis")]
            Executor::Thread(shared, _) => shared.find(id),
        };
        if let Some(local) = local {
            self.run_beside(loss::lose_if_forced(self.jobs.store.clone(), local));
        }
    }

    /// Keeps an offer until its waiter would count as dead.
    pub(crate) fn keep_offer(&self, request: Request, until: Stamp) {
        self.run_beside(offer::keep(self.jobs.store.clone(), request, until));
    }
}
