//! Tickets: detached leases, which nobody has until a client adopts them.

use crate::messages::RequestId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ticket {
    id: RequestId,
    /// The token of the lease.
    token: u8,
    /// The lease was not adopted, and has not ended.
    is_good: bool,
    /// The request that has adopted it.
    adopter: Option<RequestId>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tickets(Vec<Ticket>);

impl Tickets {
    pub(crate) fn write(&mut self, id: RequestId, token: u8) {
        self.0.push(Ticket { id, token, is_good: true, adopter: None });
    }

    /// All of them. A ticket may be used more than once, good or not.
    pub(crate) fn ids(&self) -> impl Iterator<Item = RequestId> {
        self.0.iter().map(|ticket| ticket.id)
    }

    /// The token of the lease in a ticket.
    pub(crate) fn token(&self, id: RequestId) -> Option<u8> {
        self.0.iter().find(|ticket| ticket.id == id).map(|ticket| ticket.token)
    }

    /// Its lease has ended.
    pub(crate) fn end(&mut self, id: RequestId) {
        for ticket in self.0.iter_mut().filter(|ticket| ticket.id == id) {
            ticket.is_good = false;
        }
    }

    /// A request has adopted its lease. Returns true if another had done so before.
    pub(crate) fn use_up(&mut self, id: RequestId, adopter: RequestId) -> bool {
        self.end(id);
        let mut tickets = self.0.iter_mut().filter(|ticket| ticket.id == id);
        tickets.any(|ticket| ticket.adopter.replace(adopter).is_some_and(|it| it != adopter))
    }

    /// True if somebody may still adopt this request's lease.
    pub(crate) fn has(&self, id: RequestId) -> bool {
        self.0.iter().any(|ticket| ticket.is_good && ticket.id == id)
    }
}
