//! The server of a lock that several may hold: leases by deadline, and the queue.

use super::Protocol;
use super::mistake::Mistake;
use super::rule::Mode;
use crate::messages::{Answer, Command, Hint, RequestId, Sent, Stamp};
use crate::queue::{Waiter, enqueue};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hold {
    pub(super) id: RequestId,
    /// It was not renewed yet.
    pub(super) is_offer: bool,
    /// Its deadline has not passed. An ended lease stays until it is purged.
    pub(super) is_live: bool,
}

/// Flaws that no state may have, noted when they happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Flaw {
    Overtaken,
    /// There was room, and a waiter was not granted.
    LostTurn,
    /// An offer took the place of a lease.
    CutShort,
    Revived,
    RepeatedToken,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    /// Held or offered: the two differ in their windows.
    pub(super) holds: Vec<Hold>,
    /// The request that ended last.
    ended: Option<RequestId>,
    pub(super) queue: Vec<Waiter>,
    /// The last position that was given.
    last_position: u8,
    /// The last fencing token, and the greatest that was granted.
    pub(super) token: u8,
    pub(super) granted: u8,
    /// For each client, the number of its windows that have ended.
    stamps: Vec<Stamp>,
    /// The forced requests.
    pub(super) forced: Vec<RequestId>,
    pub(super) flaw: Option<Flaw>,
}

impl Server {
    pub(super) fn new(clients: usize) -> Self {
        Self {
            holds: Vec::new(),
            ended: None,
            queue: Vec::new(),
            last_position: 0,
            token: 0,
            granted: 0,
            stamps: vec![Stamp::default(); clients],
            forced: Vec::new(),
            flaw: None,
        }
    }

    pub(super) fn stamp(&self, id: RequestId) -> Stamp {
        self.stamps[usize::from(id.client)]
    }

    /// The leases that have not ended.
    pub(super) fn live(&self) -> impl Iterator<Item = RequestId> {
        self.holds.iter().filter(|hold| hold.is_live).map(|hold| hold.id)
    }

    pub(super) fn holds(&self, id: RequestId) -> bool {
        self.live().any(|holder| holder == id)
    }

    /// The live waiters, in their order.
    pub(super) fn waiting(&self) -> impl Iterator<Item = RequestId> {
        self.queue.iter().filter(|waiter| waiter.is_live).map(|waiter| waiter.id)
    }

    /// Ends the request's lease, offer or heartbeat.
    pub(super) fn expire(&mut self, id: RequestId, mistake: Mistake) {
        let stamp = &mut self.stamps[usize::from(id.client)];
        let is_offer = self.holds.iter().any(|it| it.id == id && it.is_live && it.is_offer);
        if !is_offer {
            stamp.heartbeat += 1;
        } else if mistake != Mistake::GoesByHeartbeat {
            stamp.offer += 1;
        }
        for hold in &mut self.holds {
            hold.is_live &= hold.id != id;
        }
        for waiter in &mut self.queue {
            waiter.is_live &= waiter.id != id;
        }
    }

    /// Takes the lock from all holders.
    pub(super) fn force(&mut self, design: &Protocol) {
        let held: Vec<_> = self.live().collect();
        self.forced.extend(held);
        self.holds.clear();
        if design.mistake != Mistake::ForceKeepsToken {
            self.token += 1;
        }
        self.note(Flaw::RepeatedToken, self.token <= self.granted);
    }

    /// Runs a command's script.
    pub(super) fn run(&mut self, sent: Sent, design: &Protocol) -> (Answer, Vec<Hint>) {
        let id = sent.id;
        match sent.command {
            Command::Ask { position } => self.ask(id, position, design),
            Command::Adopt { from } => (self.adopt(id, from, design), Vec::new()),
            Command::Renew => {
                let before: Vec<_> = self.live().collect();
                let answer = self.renew(id, design);
                let is_new = self.live().any(|holder| !before.contains(&holder));
                self.note(Flaw::Revived, is_new);
                (answer, Vec::new())
            }
            Command::Release | Command::Cancel => {
                (Answer::Done, self.end(id, sent.command, design))
            }
        }
    }

    fn ask(
        &mut self,
        id: RequestId,
        position: Option<u8>,
        design: &Protocol,
    ) -> (Answer, Vec<Hint>) {
        let role = design.role(id);
        if self.ended == Some(id) {
            return (Answer::Done, Vec::new());
        }
        let has_it = self.holds(id);
        let is_owned = !has_it && self.owns(id, design);
        let may_wait = design.mistake == Mistake::WaitsToUpgrade && !role.tries;
        if is_owned && role.mode == Mode::Write && !may_wait {
            if role.tries && self.may_upgrade(id, design) {
                return (self.grant_directly(id, design), Vec::new());
            }
            if design.mistake != Mistake::RefusedWaits {
                self.queue.retain(|waiter| waiter.id != id);
            }
            return (Answer::Refused, Vec::new());
        }
        let nobody_waits = self.queue.is_empty() || design.mistake == Mistake::TriesFirst;
        let passes = is_owned && !may_wait && design.mistake != Mistake::OwnerWaits;
        if has_it || passes || nobody_waits && self.fits(id, design) {
            return (self.grant_directly(id, design), Vec::new());
        }
        let position = if role.tries {
            0
        } else {
            enqueue(&mut self.queue, &mut self.last_position, id, position)
        };
        let mut hints = self.hand_over(design);
        hints.retain(|hint| hint.id != id);
        self.mark(id, false);
        if role.tries && self.queue.is_empty() && self.fits(id, design) {
            return (self.grant_directly(id, design), hints);
        }
        let answer = if self.holds(id) {
            self.granted(id, design)
        } else if role.tries {
            Answer::Refused
        } else {
            Answer::Queued { position, stamp: self.stamp(id) }
        };
        (answer, hints)
    }

    /// Marks a request's lease as an offer, or as confirmed.
    pub(super) fn mark(&mut self, id: RequestId, is_offer: bool) {
        for hold in self.holds.iter_mut().filter(|hold| hold.id == id) {
            hold.is_offer = is_offer;
        }
    }

    fn adopt(&mut self, id: RequestId, from: RequestId, design: &Protocol) -> Answer {
        if self.holds(id) {
            return self.granted(id, design);
        }
        let is_there = self.holds(from) || design.mistake == Mistake::AdoptsAnyway;
        if !is_there || self.ended == Some(id) {
            return Answer::NotHeld;
        }
        if design.mistake != Mistake::AdopterIsAdded {
            self.holds.retain(|hold| hold.id != from);
        }
        self.ended = Some(from);
        // It overtakes nobody: the lock was never free.
        self.grant(id, 0, design);
        if design.mistake == Mistake::AdopterHasNewToken {
            self.token += 1;
            self.granted = self.token;
        }
        self.granted(id, design)
    }

    /// Grants to a request that did not wait, or that holds the lock already.
    fn grant_directly(&mut self, id: RequestId, design: &Protocol) -> Answer {
        if design.mistake != Mistake::StaysInQueue {
            self.queue.retain(|waiter| waiter.id != id);
        }
        if !self.holds(id) || design.mistake == Mistake::CountsHolds {
            self.grant(id, u8::MAX, design);
        }
        self.mark(id, false);
        self.granted(id, design)
    }

    pub(super) fn granted(&self, id: RequestId, design: &Protocol) -> Answer {
        let token = if design.role(id).is_fenced() { self.token } else { 0 };
        Answer::Granted { token, stamp: self.stamp(id) }
    }

    fn renew(&mut self, id: RequestId, design: &Protocol) -> Answer {
        if !self.holds(id) && design.mistake == Mistake::RenewalCreates {
            self.grant(id, 0, design);
        }
        if !self.holds(id) {
            return Answer::NotHeld;
        }
        self.mark(id, false);
        if design.mistake == Mistake::RenewsAll {
            for hold in &mut self.holds {
                hold.is_live = true;
            }
        }
        Answer::Done
    }

    fn end(&mut self, id: RequestId, command: Command, design: &Protocol) -> Vec<Hint> {
        let is_out = self.holds(id);
        if !is_out || command == Command::Cancel {
            // A late copy of an ask may have queued it.
            self.queue.retain(|waiter| waiter.id != id);
        }
        if !is_out && command == Command::Release {
            return Vec::new();
        }
        let role = design.role(id);
        let is_owners = |hold: &Hold| role.has_owner_of(design.role(hold.id));
        match design.mistake {
            Mistake::CountsHolds if is_out => {
                if let Some(one) = self.holds.iter().position(is_owners) {
                    self.holds.remove(one);
                }
            }
            Mistake::EndsAll => self.holds.retain(|hold| hold.id != id && !is_owners(hold)),
            _ => self.holds.retain(|hold| hold.id != id),
        }
        self.ended = Some(id);
        self.hand_over(design)
    }

    pub(super) fn note(&mut self, flaw: Flaw, happens: bool) {
        if happens {
            self.flaw.get_or_insert(flaw);
        }
    }
}
