//! The grants of the server, and their tokens.

use super::Protocol;
use super::mistake::Mistake;
use super::rule::{LIMIT, Mode};
use super::server::{Flaw, Hold, Server};
use crate::messages::{Answer, Hint, RequestId};

impl Server {
    /// Grants to waiters while the first one fits, and returns their hints.
    pub(super) fn hand_over(&mut self, design: &Protocol) -> Vec<Hint> {
        let (mut hints, mut at) = (Vec::new(), 0);
        while let Some(head) = self.queue.get(at).cloned() {
            if head.is_live && !self.fits(head.id, design) {
                if design.mistake != Mistake::SkipsHead {
                    break;
                }
                at += 1;
                continue;
            }
            self.queue.remove(at);
            if head.is_live {
                self.note(Flaw::CutShort, self.holds(head.id));
                self.grant(head.id, head.position, design);
                self.mark(head.id, true);
                if let Answer::Granted { token, stamp } = self.granted(head.id, design) {
                    hints.push(Hint { id: head.id, token, stamp });
                }
                if design.mistake == Mistake::OneAtATime {
                    break;
                }
            }
        }
        let is_lost = self.waiting().next().is_some_and(|first| self.has_turn(first, design));
        self.note(Flaw::LostTurn, is_lost);
        hints
    }

    /// True if nothing stops the first waiter.
    fn has_turn(&self, id: RequestId, design: &Protocol) -> bool {
        let role = design.role(id);
        match role.mode {
            Mode::Permit => self.live().count() < LIMIT,
            Mode::Write => self.live().next().is_none(),
            Mode::Hold | Mode::Read => self.live().all(|it| role.goes_with(design.role(it))),
        }
    }

    /// True if the request fits beside the holders. Purges ended leases where that is needed.
    pub(super) fn fits(&mut self, id: RequestId, design: &Protocol) -> bool {
        let mode = design.role(id).mode;
        if mode == Mode::Permit {
            if self.holds.len() >= LIMIT && design.mistake != Mistake::NeverPurges {
                self.purge();
            }
            return self.holds.len() < LIMIT;
        }
        if self.live().next().is_none() {
            self.holds.clear();
            return true;
        }
        match mode {
            Mode::Hold => self.owns(id, design),
            Mode::Read => !self.is_written(design) || self.owns(id, design),
            Mode::Permit | Mode::Write => false,
        }
    }

    fn purge(&mut self) {
        self.holds.retain(|hold| hold.is_live);
    }

    fn is_written(&self, design: &Protocol) -> bool {
        self.live().any(|it| design.role(it).mode == Mode::Write)
    }

    /// True if the owner of this request already holds the lock.
    pub(super) fn owns(&mut self, id: RequestId, design: &Protocol) -> bool {
        if !design.role(id).has_owner() {
            return false;
        }
        if design.mistake != Mistake::CountsEndedLeases {
            self.purge();
        }
        self.count_of_owner(id, design) > 0
    }

    fn count_of_owner(&self, id: RequestId, design: &Protocol) -> usize {
        let role = design.role(id);
        self.holds.iter().filter(|hold| role.has_owner_of(design.role(hold.id))).count()
    }

    /// True if all holders are readers of this request's owner.
    pub(super) fn may_upgrade(&self, id: RequestId, design: &Protocol) -> bool {
        let is_alone = self.live().count() == self.count_of_owner(id, design);
        let is_written = self.is_written(design) && design.mistake != Mistake::SecondWrite;
        !is_written && (is_alone || design.mistake == Mistake::UpgradesBesideOthers)
    }

    pub(super) fn grant(&mut self, id: RequestId, position: u8, design: &Protocol) {
        let role = design.role(id);
        let is_owners = self.live().any(|it| it != id && role.has_owner_of(design.role(it)));
        let is_behind = self.queue.iter().any(|it| it.is_live && it.position < position);
        self.note(Flaw::Overtaken, is_behind && !is_owners && !self.holds(id));
        if role.is_fenced() {
            self.fence(id, is_owners, design);
        }
        if design.mistake != Mistake::CountsHolds {
            self.holds.retain(|hold| hold.id != id);
        }
        self.holds.push(Hold { id, is_offer: false, is_live: true });
        self.holds.sort_unstable_by_key(|hold| hold.id.client);
    }

    /// Gives the next token, unless the owner keeps its own. The clock is past all granted tokens,
    /// even without a record.
    fn fence(&mut self, id: RequestId, is_owners: bool, design: &Protocol) {
        let is_writer = design.role(id).mode == Mode::Write;
        let keeps = match design.mistake {
            Mistake::NewTokenOnReentry => false,
            Mistake::OldTokenOnUpgrade => is_owners,
            _ => is_owners && !is_writer || self.holds(id),
        };
        if !keeps {
            self.token += 1;
        }
        self.note(Flaw::RepeatedToken, is_writer && self.token <= self.granted);
        self.granted = self.token;
    }
}
