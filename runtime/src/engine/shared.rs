//! The client and the local queues, which all clones and all leases share.

use std::fmt;
use std::sync::{Arc, Weak};

use super::settled_takes::SettledTakes;
use crate::client::Client;
use crate::keeper::Keeper;
use crate::local_queue::LocalQueues;
use crate::store::{ClientId, Store};

/// A client, and the local queues in front of it.
// Apart from the count of its `Arc`, which every lease changes on some core.
#[repr(align(64))]
pub(crate) struct Shared {
    pub(crate) client: Arc<Client>,
    pub(crate) queues: Arc<LocalQueues>,
    pub(crate) settled_takes: SettledTakes,
}

impl Shared {
    /// `hands_over` lets leases go from one task to the next without the store.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        keeper: Keeper,
        id: ClientId,
        hands_over: bool,
    ) -> Self {
        let client = Arc::new(Client::new(store, keeper, id));
        let queues = Arc::new(LocalQueues::new(client.clone(), hands_over));
        let idle: Weak<LocalQueues> = Arc::downgrade(&queues);
        client.hints.set_recall_listener(idle.clone());
        client.keeper.set_at_exit(move || {
            if let Some(queues) = idle.upgrade() {
                queues.stop_all_lingering();
            }
        });
        Self { client, queues, settled_takes: SettledTakes::default() }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").field("store", &self.client.store).finish_non_exhaustive()
    }
}
