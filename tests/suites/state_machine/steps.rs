//! What may happen in a case.

use std::time::Duration;

use leasehold::store::Kind;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// The locks.
pub(super) const NAMES: [&str; 2] = ["a", "b"];

/// Who is there, and what they do.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) slots: Vec<Slot>,
    pub(super) steps: Vec<Step>,
}

/// What one of them acquires.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) name: usize,
    pub(super) kind: Kind,
    pub(super) ttl: Duration,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Acquire {
        who: usize,
        /// As a new request.
        is_new: bool,
        wait: Option<Asked>,
        /// By how much its limit is greater this time.
        more: u32,
    },
    Renew(usize),
    Release {
        who: usize,
        keep: Duration,
    },
    Cancel(usize),
    /// The command that was sent so many commands before the last.
    Again(usize),
    Pass(Duration),
}

/// How it waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) live: Duration,
    /// Whether the answer with its ticket had reached it.
    pub(super) knows_ticket: bool,
}

const SLOTS: usize = 5;

pub(super) fn case() -> impl Strategy<Value = Case> {
    // Mostly they are at one lock, where they meet.
    let slots = prop::bool::weighted(0.7).prop_flat_map(|is_one| {
        let names =
            if is_one { prop::sample::select(&[0][..]) } else { prop::sample::select(&[0, 1][..]) };
        prop::bool::ANY.prop_flat_map(move |is_mutex| vec(slot(names.clone(), is_mutex), SLOTS))
    });
    // What fails is made smaller by leaving steps out, and not by other means: each
    // try runs the case.
    let steps = vec(step().no_shrink(), 1..120);
    (slots.no_shrink(), steps).prop_map(|(slots, steps)| Case { slots, steps })
}

fn seconds(of: &'static [u64]) -> impl Strategy<Value = Duration> {
    prop::sample::select(of).prop_map(Duration::from_secs)
}

/// Somebody at one of these locks, of which the first is mostly of this kind.
fn slot(names: impl Strategy<Value = usize>, is_mutex: bool) -> impl Strategy<Value = Slot> {
    let is_usual = prop::bool::weighted(0.9);
    let permit = (1_u32..=4).prop_flat_map(|limit| (Just(limit), 1..=limit));
    (names, is_usual, permit, seconds(&[10, 15, 40])).prop_map(
        move |(name, is_usual, (limit, weight), ttl)| {
            let permit = Kind::Semaphore { limit, weight };
            let kind = if ((name == 0) == is_mutex) == is_usual { Kind::Mutex } else { permit };
            Slot { name, kind, ttl }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let who = || 0..SLOTS;
    let is_new = prop::bool::weighted(0.3);
    // The longest is more than a waiter is believed.
    let asked = (seconds(&[2, 6, 14, 14, 20]), prop::bool::weighted(0.8))
        .prop_map(|(live, knows_ticket)| Asked { live, knows_ticket });
    let wait = option::weighted(0.8, asked);
    let more = prop_oneof![4 => Just(0_u32), 1 => 1_u32..3];
    let keep = prop_oneof![4 => Just(Duration::ZERO), 1 => seconds(&[5])];
    prop_oneof![
        10 => (who(), is_new, wait, more)
            .prop_map(|(who, is_new, wait, more)| Step::Acquire { who, is_new, wait, more }),
        3 => who().prop_map(Step::Renew),
        4 => (who(), keep).prop_map(|(who, keep)| Step::Release { who, keep }),
        2 => who().prop_map(Step::Cancel),
        2 => Just(Step::Again(0)),
        2 => (1_usize..12).prop_map(Step::Again),
        3 => seconds(&[1, 3, 3, 7, 7, 20, 70]).prop_map(Step::Pass),
    ]
}
