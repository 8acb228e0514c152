//! What a task asks for.

use std::time::{Duration, UNIX_EPOCH};

use fastrand::Rng;
use leasehold::{Lease, LeaseSet, LockError, Released, Ticket};
use leasehold_history::Kind;

use super::{Client, LONGEST_TTL};
use crate::clock::millis;

/// The locks. The first are in a slot that moves, on a cluster.
pub(crate) const MUTEX: &str = "of:{7}:mutex";
pub(crate) const SECOND: &str = "second";
pub(crate) const LINGERING: &str = "lingering";
pub(crate) const REENTRANT: &str = "of:{7}:reentrant";
pub(crate) const PERMITS: &str = "of:{7}:permits";
pub(crate) const RW: &str = "of:{7}:rw";
pub(crate) const LEDGER: &str = "ledger";
pub(crate) const JOB: &str = "of:{7}:job";

/// The job is to succeed once in each such period.
const PERIOD: Duration = Duration::from_millis(300);

/// Those whose leases may go to another process.
pub(super) const LOCKS: [&str; 7] = [MUTEX, SECOND, LINGERING, REENTRANT, PERMITS, RW, LEDGER];

/// The permits of the semaphore.
pub(crate) const LIMIT: u32 = 3;

/// A lock that a request is for.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) lock: &'static str,
    pub(crate) kind: Kind,
    pub(crate) units: u32,
    pub(crate) limit: u32,
}

/// One request: one lock, or two mutexes together.
pub(crate) struct Wish {
    pub(crate) parts: Vec<Part>,
    pub(super) owner: String,
    pub(crate) ttl: Duration,
    pub(crate) linger: Duration,
    is_renewed: bool,
    /// The longest that its lease lasts.
    pub(crate) max_hold: Option<Duration>,
    /// The holder never looks whether it still has its lease.
    pub(crate) never_looks: bool,
    /// The request whose lease it takes over, and its ticket. Without, it asks for one.
    pub(super) ticket: Option<(String, Ticket)>,
}

/// The guard of a request.
pub(crate) enum Guard {
    One(Box<Lease>),
    All(LeaseSet),
}

fn part(lock: &'static str, kind: Kind) -> Part {
    Part { lock, kind, units: 1, limit: 1 }
}

impl Wish {
    pub(crate) fn random(rng: &mut Rng, owner: &str) -> Self {
        let parts = match rng.u8(..11) {
            0 | 1 => vec![part(MUTEX, Kind::Mutex)],
            2 | 3 => vec![part(LINGERING, Kind::Mutex)],
            4 => vec![part(REENTRANT, Kind::Reentrant)],
            5 | 6 => {
                let units = rng.u32(1..LIMIT);
                vec![Part { lock: PERMITS, kind: Kind::Permits, units, limit: LIMIT }]
            }
            7 => vec![part(RW, Kind::Read)],
            8 => vec![part(RW, Kind::Write)],
            9 => vec![part(JOB, Kind::Once)],
            _ => vec![part(MUTEX, Kind::Mutex), part(SECOND, Kind::Mutex)],
        };
        Self::of(parts, rng, owner)
    }

    /// A quorum has no semaphores, no reentrant mutexes and no sets.
    pub(crate) fn random_on_quorum(rng: &mut Rng, owner: &str) -> Self {
        let one = match rng.u8(..5) {
            0 | 1 => part(MUTEX, Kind::Mutex),
            2 => part(SECOND, Kind::Mutex),
            3 => part(RW, Kind::Read),
            _ => part(RW, Kind::Write),
        };
        Self::of(vec![one], rng, owner)
    }

    fn of(parts: Vec<Part>, rng: &mut Rng, owner: &str) -> Self {
        let is_lingering = parts[0].lock == LINGERING;
        let ttl = millis(rng, 200..1 + u64::try_from(LONGEST_TTL.as_millis()).unwrap_or(2_000));
        let max_hold = (!is_lingering && rng.u8(..8) == 0).then(|| millis(rng, 100..1_500));
        Self {
            linger: if is_lingering { millis(rng, 0..1_000) } else { Duration::ZERO },
            is_renewed: max_hold.is_some() || rng.u8(..6) > 0,
            max_hold,
            never_looks: max_hold.is_some() && rng.u8(..4) == 0,
            ..Self::plain(parts, owner, ttl)
        }
    }

    fn plain(parts: Vec<Part>, owner: &str, ttl: Duration) -> Self {
        Self {
            parts,
            owner: owner.to_owned(),
            ttl,
            linger: Duration::ZERO,
            is_renewed: true,
            max_hold: None,
            never_looks: false,
            ticket: None,
        }
    }

    /// Takes over the lease of another process.
    pub(super) fn of_ticket(
        part: Part,
        owner: &str,
        ttl: Duration,
        ticket: (String, Ticket),
    ) -> Self {
        Self { ticket: Some(ticket), ..Self::plain(vec![part], owner, ttl) }
    }

    /// True if its client renews its lease, and in time: shorter ones end while a busy machine lets their
    /// process wait. Whether one is renewed that is taken over was said by the request before.
    pub(super) fn is_kept(&self) -> bool {
        self.is_renewed
            && self.max_hold.is_none()
            && self.ticket.is_none()
            && self.ttl >= Duration::from_secs(1)
    }

    /// True if its lease may go to another process.
    pub(super) fn may_be_detached(&self, client: &Client) -> bool {
        matches!(client, Client::All(_))
            && self.parts.len() == 1
            && LOCKS.contains(&self.parts[0].lock)
    }

    /// Adds to the ledger.
    pub(crate) fn of_ledger(rng: &mut Rng, owner: &str) -> Self {
        let wish = Self::of(vec![part(LEDGER, Kind::Mutex)], rng, owner);
        if rng.u8(..4) > 0 {
            return wish;
        }
        Self {
            ttl: millis(rng, 100..300),
            is_renewed: false,
            max_hold: None,
            never_looks: true,
            ..wish
        }
    }

    /// A short lease that nobody renews. Its holder is mistaken about it.
    pub(crate) fn planted() -> Self {
        let ttl = Duration::from_millis(200);
        Self { is_renewed: false, ..Self::plain(vec![part(MUTEX, Kind::Mutex)], "planted", ttl) }
    }

    pub(crate) async fn acquire(
        &self,
        client: &Client,
        wait: Duration,
    ) -> Result<Guard, LockError> {
        if let (Some((_, ticket)), Client::All(locks)) = (&self.ticket, client) {
            return locks.adopt(ticket.clone()).await.map(|lease| Guard::One(Box::new(lease)));
        }
        let Part { lock, kind, units, .. } = self.parts[0];
        let mutex = match client {
            Client::All(locks) => locks.mutex(lock),
            Client::Quorum(locks) => locks.mutex(lock),
        };
        let rw_lock = match client {
            Client::All(locks) => locks.rw_lock(lock),
            Client::Quorum(locks) => locks.rw_lock(lock),
        };
        let lease = match (kind, client) {
            (Kind::Mutex, Client::All(locks)) if self.parts.len() > 1 => {
                let names: Vec<_> = self.parts.iter().map(|part| part.lock).collect();
                let all = locks.all(names).ttl(self.ttl).auto_renew(self.is_renewed).wait(wait);
                let all = all.max_hold(self.max_hold);
                return all.lock().await.map(Guard::All);
            }
            (Kind::Reentrant, Client::All(locks)) => {
                let mutex = locks.reentrant_mutex(lock).owner(&*self.owner).wait(wait);
                let mutex = mutex.ttl(self.ttl).auto_renew(self.is_renewed);
                mutex.max_hold(self.max_hold).lock().await
            }
            (Kind::Permits, Client::All(locks)) => {
                let permits = locks.semaphore(lock, LIMIT).wait(wait).ttl(self.ttl);
                let permits = permits.auto_renew(self.is_renewed).max_hold(self.max_hold);
                permits.acquire_many(units).await
            }
            (Kind::Read, _) => {
                let rw_lock = rw_lock.wait(wait).ttl(self.ttl).auto_renew(self.is_renewed);
                rw_lock.max_hold(self.max_hold).read().await
            }
            (Kind::Write, _) => {
                let rw_lock = rw_lock.wait(wait).ttl(self.ttl).auto_renew(self.is_renewed);
                rw_lock.max_hold(self.max_hold).write().await
            }
            (Kind::Once, Client::All(locks)) => {
                let mutex = locks.mutex(lock).once_per(PERIOD).wait(wait).ttl(self.ttl);
                mutex.auto_renew(self.is_renewed).max_hold(self.max_hold).lock().await
            }
            _ => {
                let mutex = mutex.wait(wait).ttl(self.ttl).auto_renew(self.is_renewed);
                let mutex = mutex.max_hold(self.max_hold);
                let lingers = !self.linger.is_zero();
                let mutex = if lingers { mutex.linger(self.linger) } else { mutex };
                mutex.lock().await
            }
        };
        lease.map(|lease| Guard::One(Box::new(lease)))
    }
}

impl Guard {
    /// Its leases.
    pub(crate) fn leases(&self) -> impl Iterator<Item = &Lease> {
        match self {
            Self::One(lease) => std::slice::from_ref(&**lease).iter(),
            Self::All(leases) => leases.into_iter(),
        }
    }

    /// Completes the lease of a job. Returns the tick whose work has succeeded.
    pub(crate) async fn complete(self) -> Result<u64, LockError> {
        let Self::One(lease) = self else { unreachable!("a job has one lock") };
        let tick = lease.tick().expect("a job has ticks").began;
        lease.complete().await?;
        let tick = tick.duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
        Ok(u64::try_from(tick).expect("some milliseconds"))
    }

    /// Lets another process take the lease over.
    pub(crate) async fn detach(self) -> Result<Ticket, LockError> {
        let Self::One(lease) = self else { unreachable!("a ticket is for one lock") };
        lease.detach().await
    }

    /// Releases all of it, and says how that went in one word.
    pub(crate) async fn release(self) -> Result<&'static str, LockError> {
        match self {
            Self::One(lease) => lease.release().await.map(|released| match released {
                Released::Free => "free",
                Released::StillHeld(_) => "still",
                Released::Kept => "kept",
                Released::Lingers => "lingers",
                _ => "unknown",
            }),
            Self::All(leases) => leases.release().await.map(|()| "free"),
        }
    }
}
