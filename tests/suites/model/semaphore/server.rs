//! The server of a semaphore: permits by deadline, and the queue.

use super::Mistake;
use crate::model::client::Sent;
use crate::model::server::{Answer, Command, Message, RequestId, Waiter};

pub(super) const LIMIT: usize = 2;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Permit {
    pub(super) id: RequestId,
    /// Its deadline has not passed. What ended stays until it is purged.
    pub(super) is_live: bool,
}

/// What no state may show, noted when it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Flaw {
    Overtaken,
    /// There was room, and a waiter was not let in.
    LostPermit,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    /// Held, or offered: what differs is the window.
    pub(super) permits: Vec<Permit>,
    /// The request that ended last.
    ended: Option<RequestId>,
    pub(super) queue: Vec<Waiter>,
    /// The last ticket.
    ticket: u8,
    /// For each client, how often a window of its ran out.
    stamps: Vec<u8>,
    pub(super) flaw: Option<Flaw>,
}

impl Server {
    pub(super) fn new(clients: u8) -> Self {
        Self {
            permits: Vec::new(),
            ended: None,
            queue: Vec::new(),
            ticket: 0,
            stamps: vec![0; usize::from(clients)],
            flaw: None,
        }
    }

    pub(super) fn stamp(&self, id: RequestId) -> u8 {
        self.stamps[usize::from(id.client)]
    }

    /// The permits that are out.
    pub(super) fn live(&self) -> impl Iterator<Item = RequestId> {
        self.permits.iter().filter(|permit| permit.is_live).map(|permit| permit.id)
    }

    /// The waiters that are known to live, in their order.
    pub(super) fn waiting(&self) -> impl Iterator<Item = RequestId> {
        self.queue.iter().filter(|waiter| waiter.is_live).map(|waiter| waiter.id)
    }

    /// Ends what the request has: its permit, its offer or its heartbeat.
    pub(super) fn run_out(&mut self, id: RequestId) {
        self.stamps[usize::from(id.client)] += 1;
        for permit in &mut self.permits {
            permit.is_live &= permit.id != id;
        }
        for waiter in &mut self.queue {
            waiter.is_live &= waiter.id != id;
        }
    }

    /// Runs a command's script.
    pub(super) fn run(&mut self, sent: Sent, mistake: Mistake) -> (Answer, Vec<Message>) {
        let id = sent.id;
        match sent.command {
            Command::Ask { ticket } => self.ask(id, ticket, mistake),
            Command::Renew => (self.renew(id, mistake), Vec::new()),
            Command::Release | Command::Cancel => (Answer::Done, self.end(id, sent, mistake)),
        }
    }

    fn ask(
        &mut self,
        id: RequestId,
        ticket: Option<u8>,
        mistake: Mistake,
    ) -> (Answer, Vec<Message>) {
        let granted = Answer::Granted { token: 0, stamp: self.stamp(id) };
        if self.live().any(|holder| holder == id) {
            return (granted, Vec::new());
        }
        if self.ended == Some(id) {
            return (Answer::Done, Vec::new());
        }
        if mistake == Mistake::TriesFirst && self.has_room(mistake) {
            self.grant(id, u8::MAX);
            return (granted, Vec::new());
        }
        let ticket = self.queue(id, ticket);
        let mut messages = self.hand_over(mistake);
        messages.retain(|message| message.id != id);
        if self.live().count() < LIMIT && self.waiting().next().is_some() {
            self.flaw = Some(Flaw::LostPermit);
        }
        if self.live().any(|holder| holder == id) {
            (granted, messages)
        } else {
            (Answer::Queued { ticket, stamp: self.stamp(id) }, messages)
        }
    }

    fn renew(&mut self, id: RequestId, mistake: Mistake) -> Answer {
        if self.live().any(|holder| holder == id) {
            return Answer::Done;
        }
        if mistake == Mistake::RenewalCreates {
            self.grant(id, 0);
            return Answer::Done;
        }
        Answer::NotHeld
    }

    fn end(&mut self, id: RequestId, sent: Sent, mistake: Mistake) -> Vec<Message> {
        self.queue.retain(|waiter| waiter.id != id);
        let is_out = self.live().any(|holder| holder == id);
        if !is_out && sent.command == Command::Release {
            return Vec::new();
        }
        self.permits.retain(|permit| permit.id != id);
        self.ended = Some(id);
        self.hand_over(mistake)
    }

    /// Lets waiters in while there is room, and says who.
    fn hand_over(&mut self, mistake: Mistake) -> Vec<Message> {
        let mut messages = Vec::new();
        while !self.queue.is_empty() && self.has_room(mistake) {
            let head = self.queue.remove(0);
            if head.is_live {
                self.grant(head.id, head.ticket);
                messages.push(Message { id: head.id, token: 0, stamp: self.stamp(head.id) });
                if mistake == Mistake::OneAtATime {
                    break;
                }
            }
        }
        messages
    }

    /// Purges what ended, where that is needed.
    fn has_room(&mut self, mistake: Mistake) -> bool {
        if self.permits.len() >= LIMIT && mistake != Mistake::NeverPurges {
            self.permits.retain(|permit| permit.is_live);
        }
        self.permits.len() < LIMIT
    }

    fn grant(&mut self, id: RequestId, ticket: u8) {
        if self.queue.iter().any(|waiter| waiter.is_live && waiter.ticket < ticket) {
            self.flaw = Some(Flaw::Overtaken);
        }
        self.permits.retain(|permit| permit.id != id);
        self.permits.push(Permit { id, is_live: true });
        self.permits.sort_unstable_by_key(|permit| permit.id.client);
    }

    /// Puts a waiter into the queue or back into its place, and says which.
    fn queue(&mut self, id: RequestId, ticket: Option<u8>) -> u8 {
        if let Some(waiter) = self.queue.iter_mut().find(|waiter| waiter.id == id) {
            waiter.is_live = true;
            return waiter.ticket;
        }
        let ticket = ticket.unwrap_or_else(|| {
            self.ticket += 1;
            self.ticket
        });
        let place = self.queue.partition_point(|waiter| waiter.ticket < ticket);
        self.queue.insert(place, Waiter { ticket, id, is_live: true });
        ticket
    }
}
