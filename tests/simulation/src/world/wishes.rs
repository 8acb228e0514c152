//! What a task asks for: locks of all kinds, with all options.

use std::time::Duration;

use fastrand::Rng;
use leasehold::{Lease, LeaseSet, LockError, Ticket};
use leasehold_history::Kind;

use super::version::{LONG_TTL, USUAL_TTL, Version};

/// The locks that all processes use.
pub(super) const MUTEXES: [&str; 3] = ["mutex", "second", "of:{7}:third"];
const REENTRANT: &str = "reentrant";
pub(super) const PERMITS: &str = "permits";

/// Permits that are only taken together with other locks.
pub(super) const SEATS: &str = "seats";
pub(super) const RW: &str = "rw";
const JOB: &str = "job";
const TASK: &str = "task";

/// The lock that candidates want.
pub(super) const LEADER: &str = "leader";

/// Versions disagree on what it is.
const CONFUSED: &str = "confused";

/// All locks, and what is asked for in the end.
pub(super) const PROBES: [(&str, Kind); 11] = [
    (MUTEXES[0], Kind::Mutex),
    (MUTEXES[1], Kind::Mutex),
    (MUTEXES[2], Kind::Mutex),
    (REENTRANT, Kind::Reentrant),
    (PERMITS, Kind::Permits),
    (SEATS, Kind::Permits),
    (RW, Kind::Write),
    (JOB, Kind::Mutex),
    (TASK, Kind::Mutex),
    (LEADER, Kind::Mutex),
    (CONFUSED, Kind::Mutex),
];

/// A lock that a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) lock: &'static str,
    pub(super) kind: Kind,
    pub(super) units: u32,
    pub(super) limit: u32,
}

impl Part {
    pub(super) fn of(lock: &'static str, kind: Kind) -> Self {
        Self { lock, kind, units: 1, limit: 1 }
    }

    pub(super) fn permits(units: u32, limit: u32) -> Self {
        Self { units, limit, ..Self::of(PERMITS, Kind::Permits) }
    }
}

/// A lease on its way from one process to another.
#[derive(Clone, Debug)]
pub(super) struct Travelling {
    pub(super) part: Part,
    pub(super) owner: String,
    pub(super) is_named: bool,
    pub(super) ttl: Duration,
    /// The request that had it.
    pub(super) of: String,
    pub(super) ticket: Ticket,
}

/// One request, for one lock or for several together.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) parts: Vec<Part>,
    pub(super) form: Form,
    pub(super) owner: String,
    /// It says its owner also where it need not.
    pub(super) is_named: bool,
    pub(super) note: Option<&'static str>,
    pub(super) ttl: Duration,
    /// That of readers where it writes, and the other way round.
    pub(super) other_ttl: Duration,
    pub(super) wait: Duration,
    pub(super) linger: Duration,
    pub(super) succeeds: Option<Succeeds>,
    pub(super) is_renewed: bool,
    pub(super) max_hold: Option<Duration>,
    pub(super) keeps: Option<Duration>,
    /// A newer request may take its place.
    pub(super) replaces: bool,
    pub(super) ticket: Option<Travelling>,
}

/// Which of the two calls a request is made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Waits,
    /// `try_lock` and the like.
    Tries,
}

/// How often work is to succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Succeeds {
    /// Once in each such period.
    OncePer(Duration),
    /// Once, for so long.
    Once(Duration),
}

/// The guard of a request.
pub(super) enum Guard {
    One(Box<Lease>),
    All(LeaseSet),
}

/// An owner of several processes.
const PAIR: &str = "pair";

/// Texts of holders and waiters, with all that has a meaning in a record.
const NOTES: [&str; 3] = ["why", "@me", "a long one: 0123456789 =w:2@\n~!"];

const WAITS: [u64; 6] = [0, 0, 200, 1_000, 3_000, 25_000];

/// The longest that a request waits.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(25);

impl Wish {
    pub(super) fn random(rng: &mut Rng, owner: &str, version: &Version) -> Self {
        let mutex = |rng: &mut Rng| Part::of(MUTEXES[rng.usize(..MUTEXES.len())], Kind::Mutex);
        let limit = version.limit;
        let parts = match rng.u8(..15) {
            0..=3 => vec![mutex(rng)],
            4 => vec![Part::of(REENTRANT, Kind::Reentrant)],
            5..=7 => vec![Part::permits(rng.u32(1..=limit), limit)],
            8 | 9 => vec![Part::of(RW, Kind::Read)],
            10 => vec![Part::of(RW, Kind::Write)],
            11 => vec![Part::of([JOB, TASK][rng.usize(..2)], Kind::Once)],
            12 => Self::set(rng, limit),
            13 => vec![Part::of(CONFUSED, version.confused)],
            _ => vec![Part::of(MUTEXES[0], Kind::Mutex), Part::of(MUTEXES[1], Kind::Mutex)],
        };
        Self::of(parts, rng, owner, version)
    }

    /// Several locks together: mutexes, permits, or both.
    fn set(rng: &mut Rng, limit: u32) -> Vec<Part> {
        let mut parts: Vec<_> = MUTEXES.map(|lock| Part::of(lock, Kind::Mutex)).into();
        rng.shuffle(&mut parts);
        parts.truncate(rng.usize(..=MUTEXES.len()));
        if rng.bool() || parts.len() < 2 {
            parts.push(Part::permits(rng.u32(1..=limit), limit));
        }
        if rng.u8(..4) == 0 || parts.len() < 2 {
            parts.push(Part { lock: SEATS, ..Part::permits(1, 2) });
        }
        parts
    }

    /// A quorum has no semaphores, no reentrant mutexes and no sets.
    pub(super) fn random_on_quorum(rng: &mut Rng, owner: &str, version: &Version) -> Self {
        let part = match rng.u8(..5) {
            0 | 1 => Part::of(MUTEXES[0], Kind::Mutex),
            2 => Part::of(MUTEXES[1], Kind::Mutex),
            3 => Part::of(RW, Kind::Read),
            _ => Part::of(RW, Kind::Write),
        };
        let wish = Self::of(vec![part], rng, owner, version);
        Self {
            linger: Duration::ZERO,
            keeps: None,
            replaces: false,
            ttl: wish.ttl.min(USUAL_TTL),
            ..wish
        }
    }

    fn of(parts: Vec<Part>, rng: &mut Rng, owner: &str, version: &Version) -> Self {
        let kind = parts[0].kind;
        let may_linger = parts.len() == 1 && !matches!(kind, Kind::Reentrant | Kind::Once);
        let linger = if may_linger { version.linger(rng) } else { Duration::ZERO };
        let is_mutex = parts.len() == 1 && kind == Kind::Mutex;
        let max_hold = (linger.is_zero() && rng.u8(..8) == 0)
            .then(|| Duration::from_millis(rng.u64(100..1_500)));
        let keeps = (is_mutex && linger.is_zero() && max_hold.is_none() && rng.u8(..12) == 0)
            .then(|| Duration::from_millis(rng.u64(1..300)));
        let succeeds = (kind == Kind::Once).then(|| match parts[0].lock {
            TASK => Succeeds::Once(version.lasts),
            _ => Succeeds::OncePer(version.period),
        });
        let may_be_replaced = is_mutex && linger.is_zero() && keeps.is_none();
        let is_named = parts.len() == 1 && rng.u8(..6) == 0;
        // Some tasks of different processes are one owner.
        let is_pair = (is_named || kind == Kind::Reentrant) && rng.u8(..4) == 0;
        let form = if rng.u8(..8) == 0 { Form::Tries } else { Form::Waits };
        let is_renewed = max_hold.is_some() || rng.u8(..6) > 0;
        let note = (rng.u8(..6) == 0).then(|| NOTES[rng.usize(..NOTES.len())]);
        Self {
            form,
            linger,
            is_renewed,
            max_hold,
            keeps,
            // One more choice would make other worlds of all seeds.
            replaces: may_be_replaced && note.is_some(),
            succeeds,
            is_named,
            note,
            ttl: if rng.u8(..version.long_is_one_of) == 0 { LONG_TTL } else { version.ttl(rng) },
            other_ttl: version.ttl(rng),
            wait: Duration::from_millis(WAITS[rng.usize(..WAITS.len())]),
            owner: if is_pair { PAIR } else { owner }.to_owned(),
            parts,
            ticket: None,
        }
    }

    /// A wish for one lock, with no other options.
    pub(super) fn plain(part: Part, owner: String, ttl: Duration, wait: Duration) -> Self {
        Self {
            parts: vec![part],
            owner,
            ttl,
            wait,
            form: Form::Waits,
            is_named: false,
            note: None,
            other_ttl: ttl,
            linger: Duration::ZERO,
            succeeds: None,
            is_renewed: true,
            max_hold: None,
            keeps: None,
            replaces: false,
            ticket: None,
        }
    }

    /// How long it waits for others.
    pub(super) fn waits(&self) -> Duration {
        if self.form == Form::Tries { Duration::ZERO } else { self.wait }
    }

    /// Takes over a lease.
    pub(super) fn adopt(travelling: Travelling) -> Self {
        let (part, ttl) = (travelling.part, travelling.ttl);
        let plain = Self::plain(part, travelling.owner.clone(), ttl, Duration::ZERO);
        Self { is_named: travelling.is_named, ticket: Some(travelling), ..plain }
    }

    /// True if its lease may go to another process.
    pub(super) fn may_travel(&self) -> bool {
        // The lock of a ticket that is lost is held to the end of its lease.
        let is_short = self.ttl <= USUAL_TTL && self.keeps.is_none();
        self.parts.len() == 1 && self.parts[0].kind != Kind::Once && is_short
    }
}

impl Guard {
    pub(super) fn one(lease: Lease) -> Self {
        Self::One(Box::new(lease))
    }

    /// Its leases.
    pub(super) fn leases(&self) -> impl Iterator<Item = &Lease> {
        match self {
            Self::One(lease) => std::slice::from_ref(&**lease).iter(),
            Self::All(leases) => leases.into_iter(),
        }
    }

    /// Works under its leases.
    pub(super) async fn run<F: Future<Output = ()>>(&self, work: F) -> Result<(), LockError> {
        match self {
            Self::One(lease) => lease.run(work).await,
            Self::All(leases) => leases.run(work).await,
        }
    }
}
