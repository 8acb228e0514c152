//! Clients whose work is to succeed once: in each tick, with periods that differ, or for some time. They
//! repeat asks and completions, lose answers, come late, and let work run again.

use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use fastrand::Rng;
use leasehold::LockKey;
use leasehold::store::redis::RedisStore;
use leasehold::store::{
    Ask, Attempt, ClientId, Kind, Note, Once, QueuePosition, Request, RequestId, Success,
    TickTimes, Waiting,
};
use tokio::time::sleep;

use super::bench::{Bench, watched};
use super::connect;
use crate::oracle::Oracle;

/// What a seed has shown.
#[derive(Debug)]
pub struct Judged {
    pub found: Vec<String>,
    pub successes: u64,
}

/// Sends the commands of a seed, and judges them. A mistake is a text of the scripts, and what is run in its
/// place.
pub fn judged(seed: u64, mistake: Option<(&str, &str)>, oracle: Oracle) -> Judged {
    let (found, [_, _, successes]) = watched(oracle, mistake, async |bench| {
        Jobs::start(bench, seed).await.run(400).await;
    });
    Judged { found, successes }
}

/// A request for the work, and what its client knows of the grant.
#[derive(Clone, Debug)]
struct Asked {
    request: Request,
    granted: Option<(u64, Option<TickTimes>)>,
}

/// A client, how it counts, and the request that it is at.
#[derive(Debug)]
struct Worker {
    id: ClientId,
    store: RedisStore,
    once: Once,
    asked: Option<Asked>,
}

#[derive(Debug)]
struct Jobs {
    rng: Rng,
    /// The clock is set back at times.
    jumps: bool,
    workers: Vec<Worker>,
    /// Asks of which copies may still arrive.
    late: Vec<Request>,
    counter: AtomicU64,
    bench: Rc<Bench>,
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// An answer that its client has got.
fn is_heard(rng: &mut Rng) -> bool {
    rng.u8(..5) > 0
}

impl Jobs {
    async fn start(bench: Rc<Bench>, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut workers = Vec::new();
        for _ in 0..4 {
            let id = ClientId::random();
            let once = [
                Once::per(seconds(5), Duration::ZERO),
                Once::per(seconds(5), Duration::ZERO),
                Once::per(seconds(3), seconds(1)),
                Once::For(seconds(4)),
            ];
            let once = once[rng.usize(..once.len())];
            workers.push(Worker { id, store: connect(id).await, once, asked: None });
        }
        let counter = AtomicU64::new(1);
        Self { rng, jumps: seed % 2 == 1, workers, late: Vec::new(), counter, bench }
    }

    /// Takes so many steps.
    async fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            let nth = self.rng.usize(..self.workers.len());
            match self.rng.u8(..40) {
                0..18 => self.ask(nth).await,
                18..28 => self.complete(nth).await,
                28 => {
                    if let Some(Asked { request, .. }) = self.workers[nth].asked.take() {
                        let released = self.workers[nth].store.release(&request, Duration::ZERO);
                        let _ended = released.await.expect("the server answers");
                    }
                }
                29..31 => self.late_copy(nth).await,
                31 => self.workers[nth].asked = None,
                32 if self.rng.bool() => {
                    let (key, by) = (LockKey::new("a").unwrap(), Note::new("ann").unwrap());
                    let again = self.workers[nth].store.run_again(&key, by, None);
                    let _again = again.await.expect("the server answers");
                }
                33 if self.jumps => {
                    let by_us = self.rng.i64(0..6_000_000);
                    self.bench.behind_us.set(self.bench.behind_us.get() + by_us);
                }
                _ => sleep(Duration::from_millis(self.rng.u64(..1500))).await,
            }
            sleep(Duration::from_millis(self.rng.u64(1..150))).await;
        }
    }

    async fn ask(&mut self, nth: usize) {
        let rng = &mut self.rng;
        let Worker { id, store, once, asked } = &mut self.workers[nth];
        let asked = asked.get_or_insert_with(|| Asked {
            request: Request {
                key: LockKey::new("a").expect("a name"),
                id: RequestId::next(*id, &self.counter),
                kind: Kind::Once(*once),
                owner: None,
                note: None,
                ttl: Duration::from_millis([100, 1_000, 8_000][rng.usize(..3)]),
            },
            granted: None,
        });
        let position = QueuePosition::New { age: Duration::ZERO };
        let waiting = rng.bool().then_some(Waiting { live: seconds(3), position });
        let attempt = store.acquire(&asked.request, waiting).await.expect("the server answers");
        self.late.push(asked.request.clone());
        if self.late.len() > 6 {
            self.late.swap_remove(rng.usize(..6));
        }
        if !is_heard(rng) {
            return;
        }
        match attempt {
            Attempt::Granted { token } => asked.granted = Some((token, None)),
            Attempt::GrantedTick { token, tick } => asked.granted = Some((token, Some(tick))),
            // The lease had ended, and the client knows it, or asks no more.
            Attempt::Done { .. } | Attempt::Ended => self.workers[nth].asked = None,
            _ => {}
        }
    }

    async fn complete(&mut self, nth: usize) {
        let Worker { store, asked, .. } = &mut self.workers[nth];
        let Some(Asked { request, granted: Some((token, tick)) }) = asked.as_ref() else { return };
        let success = Success { tick: *tick, token: Some(*token) };
        if let Some(answer) = store.complete(request, success) {
            let _ended = answer.await.expect("the server answers");
        }
        if is_heard(&mut self.rng) {
            *asked = None;
        }
    }

    /// A copy of an ask arrives late, and nobody reads the answer.
    async fn late_copy(&mut self, nth: usize) {
        if let Some(request) = self.late.get(self.rng.usize(..6)) {
            let answer = self.workers[nth].store.acquire(request, None).await;
            answer.expect("the server answers");
        }
    }
}
