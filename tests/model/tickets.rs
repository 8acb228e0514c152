//! Tickets: detached leases, which nobody has until a client adopts them.

use crate::messages::RequestId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ticket {
    id: RequestId,
    /// The lease was not adopted, and has not ended.
    is_good: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tickets(Vec<Ticket>);

impl Tickets {
    pub(crate) fn write(&mut self, id: RequestId) {
        self.0.push(Ticket { id, is_good: true });
    }

    /// All of them. A ticket may be used more than once, good or not.
    pub(crate) fn ids(&self) -> impl Iterator<Item = RequestId> {
        self.0.iter().map(|ticket| ticket.id)
    }

    pub(crate) fn use_up(&mut self, id: RequestId) {
        for ticket in &mut self.0 {
            ticket.is_good &= ticket.id != id;
        }
    }

    /// True if somebody may still adopt this request's lease.
    pub(crate) fn has(&self, id: RequestId) -> bool {
        self.0.iter().any(|ticket| ticket.is_good && ticket.id == id)
    }
}
