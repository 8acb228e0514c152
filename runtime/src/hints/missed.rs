//! Waiters that ask again, because something may have changed of which they got no message.

use super::{HintRouter, RecallListener};
use crate::store::{Kind, Request};

impl HintRouter {
    /// Other limits hold from now on: whoever waits for permits asks again, and none stays idle.
    pub(crate) fn limits_changed(&self) {
        self.idle.tell(RecallListener::limits_changed);
        self.miss(|request| matches!(request.kind, Kind::Semaphore { .. }));
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
