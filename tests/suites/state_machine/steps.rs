//! The steps of a case.

use std::time::Duration;

use leasehold::store::{Kind, Once, Usage};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// The locks.
pub(super) const NAMES: [&str; 2] = ["a", "b"];

/// The owners: so few that they meet.
pub(super) const OWNERS: [&str; 2] = ["x", "y"];

/// The clients and their steps.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) slots: Vec<Slot>,
    pub(super) steps: Vec<Step>,
}

/// A lock that a client acquires.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) name: usize,
    pub(super) kind: Kind,
    pub(super) owner: Option<usize>,
    pub(super) has_note: bool,
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
    /// More requests of a client than one command goes through, each for a second: they
    /// acquire, or wait.
    Crowd {
        who: usize,
        wait: bool,
    },
    /// The last two acquire together.
    AcquireAll {
        are_new: bool,
    },
    Renew(Whose),
    /// Until its last heartbeat ends.
    KeepOffer(usize),
    /// A client adopts another's lease.
    Adopt {
        who: usize,
        from: Whose,
        ticket: Ticket,
    },
    Release {
        whose: Whose,
        keep: Duration,
    },
    /// The work has succeeded.
    Complete(Whose),
    Cancel(Whose),
    /// The client may keep the lease without using it, or uses it and wants more tokens.
    Linger {
        whose: Whose,
        usage: Usage,
    },
    Introduce {
        who: usize,
        lasts: Duration,
    },
    /// A client asks for a vote, on a member of a quorum.
    Vote {
        who: usize,
        is_new: bool,
        /// The time within which it asks again.
        again: Duration,
    },
    /// Most members of a quorum say that a client holds the lock.
    Repair {
        whose: Whose,
        token: Token,
        lasts: Duration,
    },
    Ask(usize, Question),
    /// The command that was sent this many commands before the last.
    Again(usize),
    Pass(Duration),
    /// The clocks are set back, so leases last that much longer.
    JumpBack(Duration),
}

/// The client that a step is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whose {
    pub(super) who: usize,
    /// The client must have been told that it holds something, if there is one.
    pub(super) is_holder: bool,
}

/// The ways to come by a ticket.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ticket {
    Good,
    /// The ticket says another kind or another owner.
    Wrong,
    /// The adoption was given up before, and cancelled.
    GivenUp,
}

/// The token of a repair.
#[derive(Clone, Copy, Debug)]
pub(super) enum Token {
    /// The repair only asks for this store's token.
    None,
    /// The token that the stores told this many answers before the last.
    Told(usize),
    /// A token greater than all, from a server whose clock is this far ahead of this one's.
    Ahead(Duration),
    /// A token this far ahead of the clock, whatever was granted before.
    Now(Duration),
}

/// A question about a client's lock.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question {
    Inspect,
    IsHeldBy(usize),
    ForceRelease,
    WasForced,
}

/// The way in which a request waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) live: Duration,
    /// True if the answer with its position had reached it.
    pub(super) knows_position: bool,
}

/// The usual kind of a lock.
#[derive(Clone, Copy, Debug)]
enum Sort {
    Mutex,
    Reentrant,
    Semaphore,
    Rw,
}

const SLOTS: usize = 5;

/// How long work counts as done.
const DONE: Duration = Duration::from_secs(20);

/// The rest of a lease of whole seconds after such a time. A case with these steps is shorter, or a
/// command would come in the millisecond in which something ends.
const LITTLE: Duration = Duration::from_millis(70);

pub(super) fn case() -> impl Strategy<Value = Case> {
    // Leaving steps out is the only way in which a failing case shrinks: each try runs the case.
    let steps = prop_oneof![9 => vec(step().no_shrink(), 1..120), 1 => crowded()];
    let permit = permit().prop_map(|(limit, weight)| Kind::Semaphore { limit, weight });
    let kind = prop_oneof![Just(Kind::Mutex), permit].boxed();
    (slots(sort().boxed(), 0.5, kind).no_shrink(), steps)
        .prop_map(|(slots, steps)| Case { slots, steps })
}

/// The cases for a member of a quorum: mutexes, readers and writers, and no waiting.
pub(super) fn case_of_several() -> impl Strategy<Value = Case> {
    let sort = prop_oneof![2 => Just(Sort::Mutex), 3 => Just(Sort::Rw)];
    let steps = vec(step_of_several().no_shrink(), 1..60);
    (slots(sort.boxed(), 0.0, Just(Kind::Mutex).boxed()).no_shrink(), steps)
        .prop_map(|(slots, steps)| Case { slots, steps })
}

/// The last two are of these kinds.
fn slots(
    sort: BoxedStrategy<Sort>,
    has_once: f64,
    kind: BoxedStrategy<Kind>,
) -> impl Strategy<Value = Vec<Slot>> {
    let sorts = [sort.clone(), sort.clone()];
    // Most of the clients are at one lock, where they meet.
    let slots = (prop::bool::weighted(0.7), sorts).prop_flat_map(move |(is_one, sorts)| {
        vec(slot(if is_one { 1 } else { NAMES.len() }, sort.clone(), sorts, has_once), SLOTS)
    });
    let pair = (seconds(&[10, 15]), [kind.clone(), kind]).prop_map(|(ttl, kinds)| {
        let slot =
            move |name: usize| Slot { name, kind: kinds[name], owner: None, has_note: false, ttl };
        [0, 1].map(slot)
    });
    (slots, pair).prop_map(|(slots, pair)| [slots, pair.into()].concat())
}

fn seconds(of: &'static [u64]) -> impl Strategy<Value = Duration> {
    prop::sample::select(of).prop_map(Duration::from_secs)
}

fn sort() -> impl Strategy<Value = Sort> {
    prop_oneof![
        3 => Just(Sort::Mutex),
        3 => Just(Sort::Reentrant),
        3 => Just(Sort::Semaphore),
        4 => Just(Sort::Rw),
    ]
}

/// A limit and a weight.
fn permit() -> impl Strategy<Value = (u32, u32)> {
    (1_u32..=4).prop_flat_map(|limit| (Just(limit), 1..=limit))
}

/// How long the work counts, mostly the same for all requests. Ticks would differ: the two stores
/// have different times of day.
fn once() -> impl Strategy<Value = Once> {
    prop_oneof![4 => Just(DONE), 1 => Just(DONE * 3), 1 => Just(DONE / 4)].prop_map(Once::For)
}

/// A client at one of these locks, each of which is mostly of one kind.
fn slot(
    names: usize,
    sort: BoxedStrategy<Sort>,
    sorts: [Sort; 2],
    has_once: f64,
) -> impl Strategy<Value = Slot> {
    let unusual = option::weighted(0.1, sort);
    let (owner, is_owned, is_writer, is_once) = (
        0..OWNERS.len(),
        prop::bool::weighted(0.6),
        prop::bool::weighted(0.4),
        prop::bool::weighted(has_once),
    );
    let who = (owner, is_owned, is_writer, is_once, prop::bool::weighted(0.3));
    (0..names, unusual, permit(), once(), who, seconds(&[10, 15, 40])).prop_map(
        move |(
            name,
            unusual,
            (limit, weight),
            once,
            (owner, is_owned, is_writer, is_once, has_note),
            ttl,
        )| {
            let kind = match unusual.unwrap_or(sorts[name]) {
                Sort::Mutex if is_once => Kind::Once(once),
                Sort::Mutex => Kind::Mutex,
                Sort::Reentrant => Kind::Reentrant,
                Sort::Semaphore => Kind::Semaphore { limit, weight },
                Sort::Rw if is_writer => Kind::Write,
                Sort::Rw => Kind::Read,
            };
            let owner = (is_owned || kind == Kind::Reentrant).then_some(owner);
            Slot { name, kind, owner, has_note, ttl }
        },
    )
}

/// A client. The last two take part in commands for several locks.
fn who() -> impl Strategy<Value = usize> {
    prop_oneof![12 => 0..SLOTS, 1 => SLOTS..SLOTS + 2]
}

/// A crowd takes as long as another case.
fn crowded() -> impl Strategy<Value = Vec<Step>> {
    let crowd = (0..SLOTS, prop::bool::weighted(0.3));
    let crowd = crowd.prop_map(|(who, wait)| Step::Crowd { who, wait });
    vec(prop_oneof![30 => step(), 1 => crowd].no_shrink(), 1..120)
}

fn whose() -> impl Strategy<Value = Whose> {
    (who(), prop::bool::weighted(0.6)).prop_map(|(who, is_holder)| Whose { who, is_holder })
}

fn usage() -> impl Strategy<Value = Usage> {
    (prop::bool::ANY, prop::bool::ANY).prop_map(|(in_use, is_recalled)| {
        match (is_recalled, in_use) {
            (true, in_use) => Usage::Recalled { in_use },
            (false, true) => Usage::InUse,
            (false, false) => Usage::Ended,
        }
    })
}

fn keep() -> impl Strategy<Value = Duration> {
    prop_oneof![4 => Just(Duration::ZERO), 1 => seconds(&[5])]
}

fn step() -> impl Strategy<Value = Step> {
    let is_new = prop::bool::weighted(0.3);
    // The longest heartbeat is longer than stores accept.
    let asked = (seconds(&[2, 6, 14, 14, 20]), prop::bool::weighted(0.8))
        .prop_map(|(live, knows_position)| Asked { live, knows_position });
    let wait = option::weighted(0.7, asked);
    let more = prop_oneof![4 => Just(0_u32), 1 => 1_u32..3];
    let ticket =
        prop_oneof![8 => Just(Ticket::Good), 1 => Just(Ticket::Wrong), 1 => Just(Ticket::GivenUp)];
    let question = prop_oneof![
        2 => Just(Question::Inspect),
        3 => (0..OWNERS.len()).prop_map(Question::IsHeldBy),
        1 => Just(Question::ForceRelease),
        1 => Just(Question::WasForced),
    ];
    prop_oneof![
        20 => (who(), is_new, wait, more)
            .prop_map(|(who, is_new, wait, more)| Step::Acquire { who, is_new, wait, more }),
        2 => prop::bool::ANY.prop_map(|are_new| Step::AcquireAll { are_new }),
        6 => whose().prop_map(Step::Renew),
        5 => who().prop_map(Step::KeepOffer),
        5 => (0..SLOTS, whose(), ticket)
            .prop_map(|(who, from, ticket)| Step::Adopt { who, from, ticket }),
        8 => (whose(), keep()).prop_map(|(whose, keep)| Step::Release { whose, keep }),
        4 => whose().prop_map(Step::Complete),
        4 => whose().prop_map(Step::Cancel),
        8 => (whose(), usage()).prop_map(|(whose, usage)| Step::Linger { whose, usage }),
        1 => (who(), seconds(&[7, 200])).prop_map(|(who, lasts)| Step::Introduce { who, lasts }),
        7 => (who(), question).prop_map(|(who, question)| Step::Ask(who, question)),
        4 => Just(Step::Again(0)),
        4 => (1_usize..12).prop_map(Step::Again),
        6 => seconds(&[1, 3, 3, 7, 7, 20, 70]).prop_map(Step::Pass),
    ]
}

fn step_of_several() -> impl Strategy<Value = Step> {
    let again = prop_oneof![1 => Just(Duration::ZERO), 2 => seconds(&[3, 10])];
    let ahead = prop::sample::select(vec![0, 80, 300]).prop_map(Duration::from_millis);
    let token = prop_oneof![
        1 => Just(Token::None),
        4 => (0_usize..4).prop_map(Token::Told),
        4 => ahead.clone().prop_map(Token::Ahead),
        3 => ahead.prop_map(Token::Now),
    ];
    // Some last longer than any TTL.
    let lasts = prop_oneof![2 => Just(Duration::ZERO), 4 => seconds(&[1, 1, 5, 50])];
    let question = prop_oneof![
        3 => Just(Question::Inspect),
        1 => (0..OWNERS.len()).prop_map(Question::IsHeldBy),
    ];
    let jump = prop::sample::select(vec![50, 150, 250, 31_000, 3_600_000]);
    let jump = jump.prop_map(Duration::from_millis);
    let nearly = Just(Duration::from_secs(1).saturating_sub(LITTLE));
    prop_oneof![
        20 => (who(), prop::bool::weighted(0.3), again)
            .prop_map(|(who, is_new, again)| Step::Vote { who, is_new, again }),
        16 => (whose(), token, lasts)
            .prop_map(|(whose, token, lasts)| Step::Repair { whose, token, lasts }),
        4 => whose().prop_map(Step::Renew),
        6 => (whose(), keep()).prop_map(|(whose, keep)| Step::Release { whose, keep }),
        4 => whose().prop_map(Step::Cancel),
        6 => (who(), question).prop_map(|(who, question)| Step::Ask(who, question)),
        3 => Just(Step::Again(0)),
        3 => (1_usize..12).prop_map(Step::Again),
        5 => seconds(&[1, 3, 3, 7, 20, 70]).prop_map(Step::Pass),
        3 => nearly.prop_map(Step::Pass),
        1 => jump.prop_map(Step::JumpBack),
    ]
}
