//! Several leases of one lock, command by command: permits, holds of an owner, and readers.

use std::time::Duration;

use leasehold::LockKey;
use leasehold::LossReason::Expired;
use leasehold::store::{Ask, Attempt, Ended, Kind, Renewal, Request};
use leasehold_tests::backend::Backend;

use super::{
    Client, FIRST, LIVE, LONG, SHORT, acquire, answered, ask, busy, cancelled, granted, has_ended,
    released, renewed,
};

macro_rules! cases {
    ($case:path) => {
        $case! {
            several:
            all_are_in_together,
            a_request_sent_twice_counts_once,
            a_stranger_releases_nothing,
            an_ended_request_is_not_granted_again,
            each_ends_by_itself,
            a_short_lease_does_not_shorten_a_long_one,
        }
    };
}
pub(super) use cases;

/// A lock that several may have, and a client of it.
struct Shared {
    client: Client,
    name: &'static str,
    kind: Kind,
    owner: Option<&'static str>,
    /// What is refused while somebody has the lock.
    alone: (Kind, Option<&'static str>),
}

/// Those that the store has: a quorum has readers alone.
fn shared(backend: &dyn Backend) -> impl Iterator<Item = Shared> {
    let permits = |weight| Kind::Semaphore { limit: 100, weight };
    let all = [
        ("readers", Kind::Read, None, (Kind::Write, None)),
        ("holds", Kind::Reentrant, Some("me"), (Kind::Reentrant, Some("other"))),
        ("permits", permits(1), None, (permits(100), None)),
    ];
    let count = if backend.store().has_queue() { all.len() } else { 1 };
    all.into_iter().take(count).map(|(name, kind, owner, alone)| {
        let client = Client::new();
        Shared { client, name, kind, owner, alone }
    })
}

impl Shared {
    fn one(&self, ttl: Duration) -> Request {
        self.request(self.kind, self.owner, ttl)
    }

    fn some<const N: usize>(&self) -> [Request; N] {
        [(); N].map(|()| self.one(LONG))
    }

    fn alone(&self) -> Request {
        self.request(self.alone.0, self.alone.1, LONG)
    }

    fn request(&self, kind: Kind, owner: Option<&str>, ttl: Duration) -> Request {
        let request = match owner {
            Some(owner) => self.client.owned(kind, owner, ttl),
            None => self.client.request(kind, ttl),
        };
        Request { key: LockKey::new(self.name).unwrap(), ..request }
    }

    /// Checks that nobody has the lock.
    async fn is_free(&self, backend: &dyn Backend) {
        let alone = self.alone();
        granted(backend, &alone).await;
        ends(backend, &alone).await;
    }
}

async fn ends(backend: &dyn Backend, request: &Request) {
    let ended = released(backend, request).await;
    assert!(matches!(ended, Ended::Released | Ended::StillHeld(_)), "{ended:?} for {request:?}");
}

async fn have(backend: &dyn Backend, requests: &[Request]) {
    for request in requests {
        granted(backend, request).await;
    }
}

pub(crate) async fn all_are_in_together(backend: &dyn Backend) {
    for shared in shared(backend) {
        let all = shared.some::<20>();
        have(backend, &all).await;
        let left = busy(backend, &shared.alone()).await;
        assert!(left <= LONG && left > LONG / 2, "{left:?}");
        // Each releases its own lease, and no other.
        for request in &all {
            busy(backend, &shared.alone()).await;
            assert_eq!(renewed(backend, request).await, Renewal::Renewed);
            ends(backend, request).await;
        }
        shared.is_free(backend).await;
    }
}

/// Whether it asks or releases. Its TTL starts anew.
pub(super) async fn a_request_sent_twice_counts_once(backend: &dyn Backend) {
    for shared in shared(backend) {
        let [first, mut second, third] = shared.some();
        have(backend, &[&first, &second, &third, &first, &second, &first].map(Clone::clone)).await;
        for request in [&first, &first, &first, &third] {
            ends(backend, request).await;
        }
        assert!(busy(backend, &shared.alone()).await <= LONG);
        second.ttl = LONG * 2;
        granted(backend, &second).await;
        assert!(busy(backend, &shared.alone()).await > LONG);
        ends(backend, &second).await;
        shared.is_free(backend).await;
    }
}

pub(super) async fn a_stranger_releases_nothing(backend: &dyn Backend) {
    for shared in shared(backend) {
        let [holder, stranger, other] = shared.some();
        granted(backend, &holder).await;
        assert_eq!(released(backend, &stranger).await, Ended::NotHeld(Expired));
        assert!(!cancelled(backend, &other).await);
        busy(backend, &shared.alone()).await;
        assert_eq!(renewed(backend, &holder).await, Renewal::Renewed);
        let mutex = shared.request(Kind::Mutex, None, LONG);
        assert_eq!(acquire(backend, &mutex).await, Attempt::WrongKind, "it frees no other's name");
        ends(backend, &holder).await;
        shared.is_free(backend).await;
    }
}

/// Whether it was released or cancelled, before or after its grant, and whether others have the lock
/// or not. The store remembers the one that ended last.
pub(super) async fn an_ended_request_is_not_granted_again(backend: &dyn Backend) {
    let has_ended = async |request: &Request| {
        has_ended(backend, request).await;
        if backend.store().has_queue() {
            assert_eq!(ask(backend, request, LIVE, FIRST).await, Attempt::Ended);
        }
    };
    for shared in shared(backend) {
        let [early, freed, taken_back, holder, late] = shared.some();
        assert!(!cancelled(backend, &early).await);
        has_ended(&early).await;
        have(backend, &[&freed, &taken_back, &holder].map(Clone::clone)).await;
        ends(backend, &freed).await;
        has_ended(&freed).await;
        assert!(answered(|| backend.store().cancel(&taken_back)).await);
        assert!(!cancelled(backend, &taken_back).await, "it is taken back once");
        has_ended(&taken_back).await;
        assert!(!cancelled(backend, &late).await);
        has_ended(&late).await;
        assert_eq!(renewed(backend, &holder).await, Renewal::Renewed);
        ends(backend, &holder).await;
        has_ended(&holder).await;
        shared.is_free(backend).await;
    }
}

/// A renewal prolongs one lease only.
pub(super) async fn each_ends_by_itself(backend: &dyn Backend) {
    for shared in shared(backend) {
        // The machine may be busy before the renewal.
        let (dead, mut live) = (shared.one(SHORT * 3), shared.one(SHORT * 3));
        have(backend, &[dead.clone(), live.clone()]).await;
        live.ttl = LONG;
        assert_eq!(renewed(backend, &live).await, Renewal::Renewed);
        backend.pass(SHORT * 3).await;
        assert!(busy(backend, &shared.alone()).await > LONG / 2);
        assert_eq!(renewed(backend, &dead).await, Renewal::NotHeld(Expired));
        assert_eq!(released(backend, &dead).await, Ended::NotHeld(Expired));
        assert_eq!(renewed(backend, &live).await, Renewal::Renewed);
        assert_eq!(released(backend, &live).await, Ended::Released, "the other one has ended");
        assert_eq!(renewed(backend, &live).await, Renewal::NotHeld(Expired));
        shared.is_free(backend).await;
    }
}

/// Neither by its grant, nor by its renewal, nor by its release. When the long one is released, the
/// short one stays.
pub(super) async fn a_short_lease_does_not_shorten_a_long_one(backend: &dyn Backend) {
    for shared in shared(backend) {
        // The machine may be busy before the renewal.
        let ttl = SHORT * 3;
        let (long, prolonged, short) = (shared.one(LONG), shared.one(ttl), shared.one(ttl));
        have(backend, &[&long, &prolonged, &short].map(Clone::clone)).await;
        assert_eq!(renewed(backend, &prolonged).await, Renewal::Renewed);
        ends(backend, &short).await;
        backend.pass(ttl).await;
        busy(backend, &shared.alone()).await;
        assert_eq!(renewed(backend, &long).await, Renewal::Renewed);
        let last = shared.one(ttl);
        granted(backend, &last).await;
        ends(backend, &long).await;
        assert!(busy(backend, &shared.alone()).await <= ttl);
        assert_eq!(renewed(backend, &last).await, Renewal::Renewed);
        backend.pass(ttl).await;
        shared.is_free(backend).await;
    }
}
