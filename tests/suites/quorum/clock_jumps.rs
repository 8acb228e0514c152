//! A minority of clocks jumps, by half a minute and by an hour, and any servers freeze.
//!
//! Tokens still grow, and agree with the right clocks. While the servers with right clocks are
//! up, no request is refused.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use leasehold::{Lease, LockError, QuorumLocks};
use leasehold_tests::members::{BEGINNING, Members};
use leasehold_tests::waiting::work_for;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::random::{What, ask, millis, seeds};

const SECOND: Duration = Duration::from_secs(1);

/// By how much a clock that jumps is wrong, in seconds.
const WRONG: [i64; 5] = [0, 31, -31, 3600, -3600];

/// The most that a token may differ from the right time. It is more than a token may be ahead of a
/// clock, because the machine may be busy.
const OFF: u64 = 1_000_000;

/// The pace of a run.
#[derive(Clone)]
struct Pace {
    turns: usize,
    /// The TTLs of leases, in milliseconds.
    ttl: Range<u64>,
    /// The time until all has settled, once servers are up.
    settled: Duration,
    /// The wait for a lock: longer than that, and than the holders before keep it.
    wait: Duration,
    /// The time that a server may still be away.
    hiccup: Duration,
}

/// Servers whose clocks can be moved: of three the last, of five the last two.
trait Servers {
    fn count(&self) -> usize;
    async fn freeze(&mut self, place: usize);
    fn thaw(&mut self, place: usize);
    fn jump(&self, place: usize, micros: i64);
}

/// The grants, and what went wrong.
struct History {
    /// The right time.
    now: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Odd while all servers with right clocks are up.
    phase: AtomicU64,
    tokens: [AtomicU64; 3],
    grants: AtomicU64,
    wrong: Mutex<Option<String>>,
}

impl History {
    fn new(now: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self {
            now: Box::new(now),
            phase: AtomicU64::default(),
            tokens: Default::default(),
            grants: AtomicU64::default(),
            wrong: Mutex::default(),
        }
    }

    fn phase(&self) -> u64 {
        self.phase.load(Ordering::Relaxed)
    }

    fn fail(&self, what: String) {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
    }

    /// The first failure.
    fn wrong(&self) -> Option<String> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes the answer to a request at this time, in this phase. A request without a phase
    /// may be refused.
    fn note(
        &self,
        lock: usize,
        (begun, phase): (u64, Option<u64>),
        told: Result<Lease, LockError>,
    ) -> Option<Lease> {
        let lease = match told {
            Err(error) if phase == Some(self.phase()) => {
                self.fail(format!("lock {lock}: {error}"));
                return None;
            }
            told => told.ok()?,
        };
        self.grants.fetch_add(1, Ordering::Relaxed);
        // A reader has no token.
        if let Ok(fence) = lease.fence() {
            let (fence, now) = (u64::from(fence), (self.now)());
            let before = self.tokens[lock].fetch_max(fence, Ordering::Relaxed);
            if before >= fence {
                self.fail(format!("lock {lock}: {fence} after {before}"));
            }
            if fence > now + OFF || fence + OFF < begun {
                self.fail(format!("lock {lock}: {fence} between {begun} and {now}"));
            }
        }
        Some(lease)
    }

    /// Holds a lease for a moment, or for longer than its TTL, while servers freeze.
    async fn hold(&self, rng: &mut Rng) {
        let is_long = self.phase().is_multiple_of(2) && rng.u8(..4) == 0;
        work_for(millis(rng, if is_long { 0..2000 } else { 0..40 })).await;
    }
}

/// One of several clients of the same lock.
async fn client(locks: QuorumLocks, history: Arc<History>, pace: Pace, mut rng: Rng) {
    loop {
        work_for(millis(&mut rng, 0..60)).await;
        let what = [What::Mutex, What::Mutex, What::Read, What::Write][rng.usize(..4)];
        let (phase, begun) = (history.phase(), (history.now)());
        let told = ask(&locks, what, millis(&mut rng, pace.ttl.clone()), pace.wait).await;
        let phase = (phase % 2 == 1).then_some(phase);
        let lock = usize::from(what != What::Mutex);
        if let Some(lease) = history.note(lock, (begun, phase), told) {
            history.hold(&mut rng).await;
            if rng.bool() {
                let _ = lease.release().await;
            }
        }
    }
}

/// A client of a lock that nobody else wants. It need not wait, unless a server that was frozen
/// still has its own earlier lease.
async fn single(locks: QuorumLocks, history: Arc<History>, pace: Pace, mut rng: Rng) {
    let (mut phase, mut since) = (0, Instant::now());
    loop {
        work_for(millis(&mut rng, 0..60)).await;
        if phase != history.phase() {
            (phase, since) = (history.phase(), Instant::now());
        }
        let is_sure = phase % 2 == 1 && since.elapsed() > pace.settled;
        let begun = (history.now)();
        let mutex = locks.mutex("single").ttl(millis(&mut rng, pace.ttl.clone()));
        let told = if pace.hiccup.is_zero() {
            mutex.try_lock().await
        } else {
            mutex.wait(pace.hiccup).lock().await
        };
        if let Some(lease) = history.note(2, (begun, is_sure.then_some(phase)), told) {
            history.hold(&mut rng).await;
            let _ = lease.release().await;
        }
    }
}

/// Lets clocks jump and servers freeze, and then brings all servers with right clocks up again,
/// this many times.
async fn play(servers: &mut impl Servers, history: &History, pace: &Pace, rng: &mut Rng) {
    let count = servers.count();
    let right = count / 2 + 1;
    let mut wrong = vec![0; count];
    for turn in 0..2 * pace.turns {
        let until =
            Instant::now() + if turn % 2 == 0 { 2 * SECOND } else { pace.wait + 3 * SECOND };
        while Instant::now() < until && history.wrong().is_none() {
            work_for(millis(rng, 5..300)).await;
            // Servers with right clocks freeze in the first half only.
            let least = if turn % 2 == 0 { 0 } else { right };
            match rng.u8(..4) {
                0 => servers.freeze(rng.usize(least..count)).await,
                1 => servers.thaw(rng.usize(least..count)),
                _ => {
                    let (nth, by) = (rng.usize(right..count), WRONG[rng.usize(..WRONG.len())]);
                    servers.jump(nth, (by - std::mem::replace(&mut wrong[nth], by)) * 1_000_000);
                }
            }
        }
        (0..right).for_each(|place| servers.thaw(place));
        history.phase.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs clients while the clocks jump and the servers freeze.
async fn run(
    mut servers: impl Servers,
    locks: impl Fn() -> QuorumLocks,
    history: History,
    pace: Pace,
    mut rng: Rng,
) -> (Option<String>, u64) {
    let history = Arc::new(history);
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        tasks.spawn(client(locks(), history.clone(), pace.clone(), rng.fork()));
    }
    tasks.spawn(single(locks(), history.clone(), pace.clone(), rng.fork()));
    play(&mut servers, &history, &pace, &mut rng).await;
    tasks.shutdown().await;
    (history.wrong(), history.grants.load(Ordering::Relaxed))
}

impl Servers for Members {
    fn count(&self) -> usize {
        self.iter().count()
    }

    async fn freeze(&mut self, place: usize) {
        self.member(place).freeze();
    }

    fn thaw(&mut self, place: usize) {
        self.member(place).thaw();
    }

    fn jump(&self, place: usize, micros: i64) {
        self.member(place).jump(micros);
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_grow_and_nobody_is_refused_while_a_minority_of_clocks_jumps() {
    let mut grants = 0;
    for seed in 0..seeds() {
        for count in [3, 5] {
            let mut rng = Rng::with_seed(seed);
            fastrand::seed(rng.u64(..));
            let members = Members::start(count, SECOND, Duration::ZERO);
            let begun = Instant::now();
            let now = move || BEGINNING + u64::try_from(begun.elapsed().as_micros()).unwrap();
            let locks = || members.locks();
            let (settled, wait) = (SECOND, 3 * SECOND);
            let pace = Pace { turns: 5, ttl: 150..900, settled, wait, hiccup: Duration::ZERO };
            let (wrong, granted) = run(members.clone(), locks, History::new(now), pace, rng).await;
            assert_eq!(wrong, None, "seed {seed}, {count} servers");
            grants += granted;
        }
    }
    assert!(grants > seeds() * 500, "{grants} grants prove little");
}

#[cfg(all(feature = "servers", target_os = "linux"))]
mod on_servers {
    use std::time::{SystemTime, UNIX_EPOCH};

    use leasehold::Locks;
    use leasehold_tests::server::{Frozen, Server};

    use super::*;

    struct Skewed {
        servers: Vec<Server>,
        frozen: Vec<Option<Frozen>>,
    }

    impl Servers for Skewed {
        fn count(&self) -> usize {
            self.servers.len()
        }

        async fn freeze(&mut self, place: usize) {
            if self.frozen[place].is_none() {
                self.frozen[place] = Some(self.servers[place].freeze().await);
            }
        }

        fn thaw(&mut self, place: usize) {
            self.frozen[place] = None;
        }

        fn jump(&self, place: usize, micros: i64) {
            let time = Duration::from_micros(micros.unsigned_abs());
            if micros < 0 {
                self.servers[place].jump_back(time);
            } else {
                self.servers[place].jump(time);
            }
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn tokens_grow_and_nobody_is_refused_while_a_minority_of_clocks_jumps() {
        let servers: Vec<_> = (0..3).map(|_| Server::start_skewed()).collect();
        let builder = Locks::builder().assume_durable(true).command_timeout(2 * SECOND);
        let urls: Vec<_> = servers.iter().map(Server::url).collect();
        let locks = builder.connect_quorum(urls).await.unwrap();
        let now = || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            u64::try_from(now.as_micros()).unwrap()
        };
        let mut rng = Rng::new();
        println!("seed {}", rng.get_seed());
        let skewed = Skewed { servers, frozen: (0..3).map(|_| None).collect() };
        // The machine may be busy; and a frozen server is connected to again within 5 s.
        let (settled, wait) = (6 * SECOND, 8 * SECOND);
        let pace = Pace { turns: 2, ttl: 1000..2000, settled, wait, hiccup: SECOND };
        let (wrong, grants) =
            run(skewed, || locks.clone(), History::new(now), pace, rng.fork()).await;
        assert_eq!(wrong, None);
        assert!(grants > 50, "{grants} grants prove little");
    }
}
