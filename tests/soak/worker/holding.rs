//! What a holder does, and writes down.

use std::time::Duration;

use fastrand::Rng;
use leasehold_history::{Kind, Line, Nanos};
use leasehold_tests::waiting::work_for;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::wishes::{Guard, LEDGER, Part, Wish};
use super::{Shared, reason};
use crate::clock::{millis, nanos, now};
use crate::ledger::Seen;

/// How often a holder looks whether it still has its leases.
const LOOK: Duration = Duration::from_millis(20);

/// What a planted holder believes.
const MISTAKEN: Duration = Duration::from_secs(1);

impl Shared {
    /// Holds for some time, looks again and again, and releases.
    pub(super) async fn hold(
        &self,
        guard: Guard,
        ids: &[String],
        wish: &Wish,
        at: Nanos,
        is_planted: bool,
        rng: &mut Rng,
    ) {
        // The leases of a set have an order of their own.
        let id_of = |name: &str| {
            let named = |(part, _): &(&Part, &String)| part.lock == name;
            wish.parts.iter().zip(ids).find(named).map_or(&ids[0], |(_, id)| id).clone()
        };
        for lease in guard.leases() {
            let token = lease.fence().ok().map(u64::from);
            self.journal.note(&Line::Got { id: id_of(lease.key().as_ref()), at, token });
        }
        let time = match rng.u8(..10) {
            _ if is_planted => MISTAKEN,
            // It is stuck: only `max_hold` frees the lock.
            _ if wish.never_looks && wish.max_hold.is_some() => millis(rng, 1_000..20_000),
            _ if wish.never_looks => millis(rng, 400..1_200),
            0 => millis(rng, 0..3_000),
            1..=3 => millis(rng, 0..150),
            _ => millis(rng, 0..8),
        };
        let seen = self.read_ledger(&guard, wish).await;
        let until = Instant::now() + time;
        loop {
            let mut is_lost = false;
            for lease in guard.leases() {
                let (id, at) = (id_of(lease.key().as_ref()), now());
                let left = if is_planted { MISTAKEN } else { lease.remaining() };
                if left.is_zero() {
                    is_lost = true;
                    self.journal.note(&Line::Lost { id, at: now() });
                } else {
                    self.journal.note(&Line::Held { id, at, left: nanos(left) });
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || is_lost || self.is_ending() {
                break;
            }
            work_for(left.min(LOOK)).await;
        }
        if wish.never_looks {
            let mut ending = self.ending.clone();
            tokio::select! {
                () = work_for(until.saturating_duration_since(Instant::now())) => {}
                _ = ending.wait_for(|is_ending| *is_ending) => {}
            }
        }
        self.add_to_ledger(seen).await;
        let at = now();
        for id in ids {
            self.journal.note(&Line::End { id: id.clone(), at });
        }
        let how = if rng.u8(..5) == 0 {
            drop(guard);
            "dropped".to_owned()
        } else if wish.may_be_detached(&self.client) && rng.u8(..8) == 0 {
            match guard.detach().await {
                Ok(ticket) => {
                    let put = self.tickets.put(&ids[0], wish, &ticket);
                    put.expect("the ticket can be written");
                    "detached".to_owned()
                }
                Err(error) => reason(&error),
            }
        } else if wish.parts[0].kind == Kind::Once && rng.u8(..4) > 0 {
            match guard.complete().await {
                Ok(tick) => {
                    self.journal.note(&Line::Done { id: ids[0].clone(), at: now(), tick });
                    "free".to_owned()
                }
                Err(error) => reason(&error),
            }
        } else {
            guard.release().await.map_or_else(|error| reason(&error), str::to_owned)
        };
        let at = now();
        for id in ids {
            self.journal.note(&Line::Freed { id: id.clone(), at, how: how.clone() });
        }
    }

    /// What a holder of the ledger's lock reads. `None` for a holder of another.
    async fn read_ledger(&self, guard: &Guard, wish: &Wish) -> Option<Seen> {
        let (ledger, lease) = (self.ledger.clone()?, guard.leases().next()?);
        if wish.parts[0].lock != LEDGER {
            return None;
        }
        let token = u64::from(lease.fence().ok()?);
        let seen = spawn_blocking(move || ledger.read(token)).await;
        Some(seen.expect("it does not panic").expect("the ledger can be read"))
    }

    /// Adds 1 to what the holder has read, whatever has become of its lease.
    async fn add_to_ledger(&self, seen: Option<Seen>) {
        if let (Some(ledger), Some(seen)) = (self.ledger.clone(), seen) {
            let added = spawn_blocking(move || ledger.add(seen)).await;
            added.expect("it does not panic").expect("the ledger can be written");
        }
    }
}
