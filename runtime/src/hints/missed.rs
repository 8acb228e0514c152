//! Waiters that ask again, because something may have changed of which they got no message.

use super::HintRouter;
use crate::core::key::LockKey;
use crate::store::{Kind, Request};

impl HintRouter {
    /// Other limits hold for these semaphores from now on: whoever waits for their permits asks again,
    /// and none stays idle.
    pub(crate) fn limits_changed(&self, is_meant: &dyn Fn(&LockKey) -> bool) {
        self.idle.tell(|idle| idle.limits_changed(is_meant));
        self.miss(|request| {
            matches!(request.kind, Kind::Semaphore { .. }) && is_meant(&request.key)
        });
    }

    /// Lets these waiters ask again.
    pub(super) fn miss(&self, is_meant: impl Fn(&Request) -> bool) {
        // A woken task may drop its route at once, and that locks the routes.
        let mut mailboxes: Vec<_> = self.routes().mailboxes.values().cloned().collect();
        mailboxes.retain(|mailbox| is_meant(&mailbox.request));
        for mailbox in mailboxes {
            mailbox.unread().has_missed = true;
            mailbox.arrived.notify_one();
        }
    }
}
