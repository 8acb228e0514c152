//! What a holder does, and writes down.

use std::time::Duration;

use fastrand::Rng;
use leasehold_history::{Line, Nanos};
use tokio::time::{Instant, sleep};

use super::wishes::{Guard, Part, Wish};
use super::{Shared, reason};
use crate::clock::{millis, nanos, now};

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
            0 => millis(rng, 0..3_000),
            1..=3 => millis(rng, 0..150),
            _ => millis(rng, 0..8),
        };
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
            sleep(left.min(LOOK)).await;
        }
        let at = now();
        for id in ids {
            self.journal.note(&Line::End { id: id.clone(), at });
        }
        let how = if rng.u8(..5) == 0 {
            drop(guard);
            "dropped".to_owned()
        } else {
            guard.release().await.map_or_else(|error| reason(&error), str::to_owned)
        };
        let at = now();
        for id in ids {
            self.journal.note(&Line::Freed { id: id.clone(), at, how: how.clone() });
        }
    }
}
