//! Owners that have a read-write lock in both ways at once: a reader that becomes a writer, and a writer
//! that goes on as a reader.

use std::time::Duration;

use fastrand::Rng;
use leasehold_history::Kind;

use super::turns::Worker;
use super::wishes::{Form, LONGEST_WAIT, Part, RW, Wish};

impl Worker {
    /// Reads and then writes, or writes and then reads; and lets go of both in any order.
    pub(super) async fn turn_of_an_owner(&self, owner: &str, rng: &mut Rng) {
        let wish = |kind, form, wait, rng: &mut Rng| {
            let ttl = self.version.ttl(rng);
            let plain = Wish::plain(Part::of(RW, kind), owner.to_owned(), ttl, wait);
            Wish { is_named: true, form, other_ttl: self.version.ttl(rng), ..plain }
        };
        let (first, second) =
            if rng.bool() { (Kind::Read, Kind::Write) } else { (Kind::Write, Kind::Read) };
        let one = wish(first, Form::Waits, LONGEST_WAIT, rng);
        let Some((held, ids)) = self.acquire(&one, rng).await else { return };
        self.look(&held, &ids, &one);
        let (form, wait) = match rng.u8(..4) {
            0 => (Form::Waits, Duration::from_millis(rng.u64(..600))),
            _ => (Form::Tries, Duration::ZERO),
        };
        let other = wish(second, form, wait, rng);
        let Some((more, more_ids)) = self.acquire(&other, rng).await else {
            self.hold(held, &ids, &one, rng).await;
            return;
        };
        self.look(&more, &more_ids, &other);
        if rng.bool() {
            self.hold(more, &more_ids, &other, rng).await;
            self.hold(held, &ids, &one, rng).await;
        } else {
            self.hold(held, &ids, &one, rng).await;
            self.hold(more, &more_ids, &other, rng).await;
        }
    }
}
