//! The clients of a quorum act at random, and its servers fail at random: they die, freeze,
//! restart empty, and lose or delay commands and replies.
//!
//! At each grant no other client believes that it holds a lease that excludes it, and the token
//! is greater than all before. In the end everybody is served, and nothing is left.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use leasehold::store::Ask;
use leasehold::{Lease, LeaseHandle, LockError, LockKey, QuorumLocks};
use leasehold_tests::members::{Fault, Members};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The longest lease, and the time for which a restarted server does not count.
const LONGEST: Duration = Duration::from_millis(900);

const NAMES: [&str; 2] = ["mutex", "rw"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Mutex,
    Read,
    Write,
}

/// All grants, and the first failure.
#[derive(Default)]
pub(super) struct Records {
    granted: Mutex<Vec<(What, LeaseHandle)>>,
    wrong: Mutex<Option<String>>,
    /// The greatest token of each lock.
    tokens: [AtomicU64; 2],
    grants: AtomicU64,
}

impl Records {
    /// Notes a grant. Nobody may hold a lease that excludes it.
    pub(super) fn note(&self, what: What, lease: &Lease) {
        let mut granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        granted.retain(|(_, handle)| handle.is_held());
        let excludes = |other: What| match what {
            What::Mutex => other == What::Mutex,
            What::Read => other == What::Write,
            What::Write => other != What::Mutex,
        };
        if lease.is_held()
            && let Some((other, _)) = granted.iter().find(|(other, _)| excludes(*other))
        {
            self.fail(format!("{what:?} beside {other:?}"));
        }
        if let Ok(fence) = lease.fence() {
            let fence = u64::from(fence);
            let of_lock = &self.tokens[usize::from(what != What::Mutex)];
            let before = of_lock.fetch_max(fence, Ordering::Relaxed);
            if before >= fence {
                self.fail(format!("{what:?} with {fence} after {before}"));
            }
        }
        granted.push((what, lease.handle()));
        self.grants.fetch_add(1, Ordering::Relaxed);
    }

    fn fail(&self, what: String) {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
    }

    /// The number of grants.
    pub(super) fn grants(&self) -> u64 {
        self.grants.load(Ordering::Relaxed)
    }

    /// The first failure.
    pub(super) fn wrong(&self) -> Option<String> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(super) fn millis(rng: &mut Rng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(rng.u64(range))
}

pub(super) async fn ask(
    locks: &QuorumLocks,
    what: What,
    ttl: Duration,
    wait: Duration,
) -> Result<Lease, LockError> {
    match what {
        What::Mutex => locks.mutex(NAMES[0]).ttl(ttl).wait(wait).lock().await,
        What::Read => locks.rw_lock(NAMES[1]).ttl(ttl).wait(wait).read().await,
        What::Write => locks.rw_lock(NAMES[1]).ttl(ttl).wait(wait).write().await,
    }
}

/// A client that asks, holds, and releases or is dropped at some point.
async fn client(locks: QuorumLocks, records: Arc<Records>, mut rng: Rng) {
    loop {
        sleep(millis(&mut rng, 0..60)).await;
        let what = [What::Mutex, What::Mutex, What::Read, What::Write][rng.usize(..4)];
        let (ttl, wait) = (millis(&mut rng, 150..900), millis(&mut rng, 0..800));
        // Some requests are dropped on their way.
        let patience = if rng.u8(..8) == 0 { wait / 2 } else { Duration::from_secs(60) };
        let Ok(Ok(lease)) = timeout(patience, ask(&locks, what, ttl, wait)).await else { continue };
        records.note(what, &lease);
        sleep(if rng.u8(..4) == 0 { millis(&mut rng, 0..1500) } else { millis(&mut rng, 0..40) })
            .await;
        if rng.bool() {
            let _ = lease.release().await;
        }
    }
}

/// The faults of the servers.
async fn nemesis(members: Members, mut rng: Rng) {
    loop {
        sleep(millis(&mut rng, 5..150)).await;
        let member = members.member(rng.usize(..members.iter().count()));
        match rng.u8(..10) {
            0 => member.kill(),
            1 => member.freeze(),
            2 | 3 => member.thaw(),
            4 | 5 => member.revive(),
            6 => member.restart_empty(),
            7 => member.plan(Fault::LoseCommand),
            8 => member.plan(Fault::LoseReply),
            _ => member.plan(Fault::Late(millis(&mut rng, 1..1000))),
        }
    }
}

/// One run. Returns the first failure, and the number of grants.
async fn run(seed: u64, count: usize, counts_after: Duration) -> (Option<String>, u64) {
    let mut rng = Rng::with_seed(seed);
    fastrand::seed(rng.u64(..));
    let (members, records) =
        (Members::start(count, LONGEST, counts_after), Arc::<Records>::default());
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        tasks.spawn(client(members.locks(), records.clone(), rng.fork()));
    }
    tasks.spawn(nemesis(members.clone(), rng.fork()));
    sleep(Duration::from_secs(20)).await;
    tasks.shutdown().await;
    for member in members.iter() {
        member.revive();
        member.thaw();
    }
    // There are no more faults. The rest ends, and everybody is served.
    sleep(3 * LONGEST).await;
    for place in 0..count {
        for name in NAMES {
            let info = members.member(place).store().inspect(&LockKey::new(name).unwrap()).await;
            let info = info.expect("memory answers");
            if !info.holders.is_empty() {
                records.fail(format!("left behind on {place}: {info:?}"));
            }
        }
    }
    let locks = members.locks();
    for what in [What::Mutex, What::Write, What::Read] {
        match ask(&locks, what, LONGEST, Duration::from_secs(2)).await {
            Ok(lease) => records.note(what, &lease),
            Err(error) => records.fail(error.to_string()),
        }
    }
    (records.wrong(), records.grants())
}

/// `SEEDS` runs more of them.
pub(super) fn seeds() -> u64 {
    std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(12)
}

#[tokio::test(start_paused = true)]
async fn faulty_servers_never_allow_two_holders() {
    let mut grants = 0;
    for seed in 0..seeds() {
        for count in [3, 5] {
            let (wrong, granted) = run(seed, count, LONGEST).await;
            assert_eq!(wrong, None, "seed {seed}, {count} servers");
            grants += granted;
        }
    }
    assert!(grants > seeds() * 20, "{grants} grants prove little");
}

/// Checks that the test finds a server that was restarted empty and counts at once.
#[tokio::test(start_paused = true)]
async fn a_server_that_forgets_and_counts_at_once_is_detected() {
    for seed in 0..200 {
        if let (Some(wrong), _) = run(seed, 3, Duration::ZERO).await {
            assert!(wrong.contains("beside"), "{wrong}");
            return;
        }
    }
    panic!("no second holder in 200 runs");
}
