//! What a task asks for: locks of all kinds, with all options.

use std::time::Duration;

use fastrand::Rng;
use leasehold::{Lease, LeaseSet, LockError, Locks, Ticket};
use leasehold_history::Kind;

use super::version::Version;

/// The locks that all processes use.
pub(super) const MUTEXES: [&str; 3] = ["mutex", "second", "of:{7}:third"];
const REENTRANT: &str = "reentrant";
const PERMITS: &str = "permits";
const RW: &str = "rw";
const JOB: &str = "job";

/// Versions disagree on what it is.
const CONFUSED: &str = "confused";

/// All locks, and what is asked for in the end.
pub(super) const PROBES: [(&str, Kind); 8] = [
    (MUTEXES[0], Kind::Mutex),
    (MUTEXES[1], Kind::Mutex),
    (MUTEXES[2], Kind::Mutex),
    (REENTRANT, Kind::Reentrant),
    (PERMITS, Kind::Permits),
    (RW, Kind::Write),
    (JOB, Kind::Mutex),
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

    fn permits(units: u32, limit: u32) -> Self {
        Self { units, limit, ..Self::of(PERMITS, Kind::Permits) }
    }
}

/// A lease on its way from one process to another.
#[derive(Clone, Debug)]
pub(super) struct Travelling {
    pub(super) part: Part,
    pub(super) owner: String,
    pub(super) ttl: Duration,
    /// The request that had it.
    pub(super) of: String,
    pub(super) ticket: Ticket,
}

/// One request, for one lock or for several together.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) parts: Vec<Part>,
    pub(super) owner: String,
    pub(super) ttl: Duration,
    pub(super) wait: Duration,
    pub(super) linger: Duration,
    /// Of work that is to succeed once.
    pub(super) period: Duration,
    pub(super) is_renewed: bool,
    pub(super) max_hold: Option<Duration>,
    pub(super) keeps: Option<Duration>,
    pub(super) ticket: Option<Travelling>,
}

/// The guard of a request.
pub(super) enum Guard {
    One(Box<Lease>),
    All(LeaseSet),
}

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
            11 => vec![Part::of(JOB, Kind::Once)],
            12 => vec![mutex(rng), Part::permits(rng.u32(1..limit.max(2)), limit)],
            13 => vec![Part::of(CONFUSED, version.confused)],
            _ => vec![Part::of(MUTEXES[0], Kind::Mutex), Part::of(MUTEXES[1], Kind::Mutex)],
        };
        Self::of(parts, rng, owner, version)
    }

    /// A quorum has no semaphores, no reentrant mutexes and no sets.
    pub(super) fn random_on_quorum(rng: &mut Rng, owner: &str, version: &Version) -> Self {
        let part = match rng.u8(..5) {
            0 | 1 => Part::of(MUTEXES[0], Kind::Mutex),
            2 => Part::of(MUTEXES[1], Kind::Mutex),
            3 => Part::of(RW, Kind::Read),
            _ => Part::of(RW, Kind::Write),
        };
        Self { linger: Duration::ZERO, keeps: None, ..Self::of(vec![part], rng, owner, version) }
    }

    fn of(parts: Vec<Part>, rng: &mut Rng, owner: &str, version: &Version) -> Self {
        let may_linger = parts.len() == 1 && !matches!(parts[0].kind, Kind::Reentrant | Kind::Once);
        let linger = if may_linger { version.linger(rng) } else { Duration::ZERO };
        let is_mutex = parts.len() == 1 && parts[0].kind == Kind::Mutex;
        let max_hold = (linger.is_zero() && rng.u8(..8) == 0)
            .then(|| Duration::from_millis(rng.u64(100..1_500)));
        let keeps = (is_mutex && linger.is_zero() && max_hold.is_none() && rng.u8(..12) == 0)
            .then(|| Duration::from_millis(rng.u64(1..300)));
        Self {
            linger,
            is_renewed: max_hold.is_some() || rng.u8(..6) > 0,
            max_hold,
            keeps,
            ttl: version.ttl(rng),
            wait: Duration::from_millis(WAITS[rng.usize(..WAITS.len())]),
            period: version.period,
            owner: owner.to_owned(),
            parts,
            ticket: None,
        }
    }

    /// Of one lock, with no other options.
    pub(super) fn plain(part: Part, owner: String, ttl: Duration, wait: Duration) -> Self {
        Self {
            parts: vec![part],
            owner,
            ttl,
            wait,
            linger: Duration::ZERO,
            period: Version::FIRST.period,
            is_renewed: true,
            max_hold: None,
            keeps: None,
            ticket: None,
        }
    }

    /// Takes over a lease.
    pub(super) fn adopt(travelling: Travelling) -> Self {
        let (part, ttl) = (travelling.part, travelling.ttl);
        let plain = Self::plain(part, travelling.owner.clone(), ttl, Duration::ZERO);
        Self { ticket: Some(travelling), ..plain }
    }

    /// True if its lease may go to another process.
    pub(super) fn may_travel(&self) -> bool {
        self.parts.len() == 1 && self.parts[0].kind != Kind::Once && self.keeps.is_none()
    }

    pub(super) async fn acquire(&self, locks: &Locks) -> Result<Guard, LockError> {
        if let Some(travelling) = &self.ticket {
            return locks.adopt(travelling.ticket.clone()).await.map(Guard::one);
        }
        if self.parts.len() > 1 {
            return self.acquire_all(locks).await.map(Guard::All);
        }
        let Part { lock, kind, units, limit } = self.parts[0];
        let (ttl, wait, linger) = (self.ttl, self.wait, self.linger);
        let (renews, most) = (self.is_renewed, self.max_hold);
        let lease = match kind {
            Kind::Mutex => {
                let mutex = locks.mutex(lock).ttl(ttl).wait(wait).auto_renew(renews).max_hold(most);
                let mutex = self.keeps.map_or(mutex.clone(), |time| mutex.hold_at_least(time));
                if linger.is_zero() {
                    mutex.lock().await
                } else {
                    mutex.linger(linger).lock().await
                }
            }
            Kind::Once => {
                let job = locks.mutex(lock).once_per(self.period).ttl(ttl).wait(wait);
                job.auto_renew(renews).max_hold(most).lock().await
            }
            Kind::Reentrant => {
                let mutex = locks.reentrant_mutex(lock).owner(&*self.owner).ttl(ttl).wait(wait);
                mutex.auto_renew(renews).max_hold(most).lock().await
            }
            Kind::Permits => {
                let permits = locks.semaphore(lock, limit).ttl(ttl).wait(wait);
                let permits = permits.auto_renew(renews).max_hold(most);
                if linger.is_zero() {
                    permits.acquire_many(units).await
                } else {
                    permits.linger(linger).acquire_many(units).await
                }
            }
            Kind::Read | Kind::Write => {
                let lock = locks.rw_lock(lock).ttl(ttl).wait(wait);
                let lock = lock.auto_renew(renews).max_hold(most);
                let lock = if linger.is_zero() { lock } else { lock.linger(linger) };
                if kind == Kind::Read { lock.read().await } else { lock.write().await }
            }
        };
        lease.map(Guard::one)
    }

    async fn acquire_all(&self, locks: &Locks) -> Result<LeaseSet, LockError> {
        let mutexes = self.parts.iter().filter(|it| it.kind == Kind::Mutex).map(|it| it.lock);
        let mut all = locks.all(mutexes).ttl(self.ttl).auto_renew(self.is_renewed).wait(self.wait);
        for permits in self.parts.iter().filter(|it| it.kind == Kind::Permits) {
            all = all.weighted_permit(permits.lock, permits.limit, permits.units);
        }
        all.max_hold(self.max_hold).lock().await
    }

    pub(super) async fn acquire_on_quorum(
        &self,
        locks: &leasehold::QuorumLocks,
    ) -> Result<Guard, LockError> {
        let Part { lock, kind, .. } = self.parts[0];
        let (ttl, wait, renews) = (self.ttl, self.wait, self.is_renewed);
        let rw = || {
            let lock = locks.rw_lock(lock).ttl(ttl).wait(wait);
            lock.auto_renew(renews).max_hold(self.max_hold)
        };
        let lease = match kind {
            Kind::Read => rw().read().await,
            Kind::Write => rw().write().await,
            _ => {
                let mutex = locks.mutex(lock).ttl(ttl).wait(wait);
                mutex.auto_renew(renews).max_hold(self.max_hold).lock().await
            }
        };
        lease.map(Guard::one)
    }
}

impl Guard {
    fn one(lease: Lease) -> Self {
        Self::One(Box::new(lease))
    }

    /// Its leases.
    pub(super) fn leases(&self) -> impl Iterator<Item = &Lease> {
        match self {
            Self::One(lease) => std::slice::from_ref(&**lease).iter(),
            Self::All(leases) => leases.into_iter(),
        }
    }
}
