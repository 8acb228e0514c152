//! Commands that no careful client would send in this order: late copies, commands of requests that
//! ended, several at once, and clients that hear nothing.

mod bench;
pub mod jobs;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use fastrand::Rng;
use futures_util::future::join_all;
use leasehold::LockKey;
use leasehold::store::redis::{RedisStore, Settings};
use leasehold::store::{
    Ask, Attempt, ClientId, Detached, Force, Hint, Kind, Listener, Note, Once, Owner,
    QueuePosition, Request, RequestId, Stamp, Store, StoreError, Success, TickTimes, Usage,
    Waiting,
};
use tokio::time::sleep;

pub use self::bench::{Bench, on_a_bench, watched};

/// Sends the commands of a seed, and returns what the oracle found. A mistake is a text of the scripts,
/// and what is run in its place.
pub fn judged(seed: u64, mistake: Option<(&str, &str)>, unusual: Unusual) -> Vec<String> {
    on_a_bench(mistake, async |bench| {
        Traffic::start(bench, seed).await.run(300, unusual).await;
    })
}

const URL: &str = "redis://10.0.0.1:6379";
const NAMES: [&str; 2] = ["a", "b"];

/// A client that hears its hints, and does nothing about them.
#[derive(Debug)]
struct Hears;

impl Listener for Hears {
    fn hear(&self, _: Hint) {}
}

/// A request, and what the server has told it.
#[derive(Clone, Debug)]
struct Asked {
    store: usize,
    request: Request,
    position: Option<u64>,
    until: Option<Stamp>,
    token: Option<u64>,
    tick: Option<TickTimes>,
}

#[derive(Debug)]
pub struct Traffic {
    rng: Rng,
    stores: Vec<(ClientId, RedisStore)>,
    _listeners: Vec<Arc<dyn Listener>>,
    counter: AtomicU64,
    asked: Vec<Asked>,
    sorts: [u8; 2],
    bench: Rc<Bench>,
}

/// What a seed may do beyond the usual.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unusual {
    /// The clock is set back at times.
    pub jumps: bool,
}

impl Traffic {
    pub async fn start(bench: Rc<Bench>, seed: u64) -> Self {
        let rng = Rng::with_seed(seed);
        let (mut stores, mut listeners) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let client = ClientId::random();
            let store = connect(client).await;
            let listener: Arc<dyn Listener> = Arc::new(Hears);
            store.listen(client, Arc::downgrade(&listener));
            listeners.push(listener);
            stores.push((client, store));
        }
        // The first seeds have all kinds together.
        let sort = |nth: u64| u8::try_from((seed / nth) % 4).expect("a small number");
        let sorts = [sort(1), sort(4)];
        let counter = AtomicU64::new(1);
        Self { rng, stores, _listeners: listeners, counter, asked: Vec::new(), sorts, bench }
    }

    /// Sends so many commands.
    pub async fn run(&mut self, steps: usize, unusual: Unusual) {
        for _ in 0..steps {
            match self.rng.u8(0..40) {
                0 if unusual.jumps => {
                    let by_us = self.rng.i64(0..30_000_000);
                    self.bench.behind_us.set(self.bench.behind_us.get() + by_us);
                }
                0..4 => {
                    let at_once = self.rng.usize(2..6);
                    let mut several: Vec<_> = (0..at_once).map(|_| self.pick()).collect();
                    let what = self.rng.u8(..);
                    let rngs: Vec<_> = several.iter().map(|_| self.rng.fork()).collect();
                    let sent = several.iter_mut().zip(rngs).map(|(nth, rng)| {
                        let asked = self.asked[*nth].clone();
                        send(&self.stores, asked, what, rng)
                    });
                    let told = join_all(sent.collect::<Vec<_>>()).await;
                    for (nth, told) in several.into_iter().zip(told) {
                        self.asked[nth] = told;
                    }
                }
                4..6 => self.acquire_together().await,
                6..8 => self.adopt().await,
                8 => self.recall().await,
                9..12 => {
                    let longest = [20_u64, 1500, 9000, 70_000][self.rng.usize(0..4)];
                    sleep(Duration::from_micros(self.rng.u64(0..longest * 1000))).await;
                }
                _ => {
                    let (nth, what) = (self.pick(), self.rng.u8(..));
                    let rng = self.rng.fork();
                    self.asked[nth] = send(&self.stores, self.asked[nth].clone(), what, rng).await;
                }
            }
            sleep(Duration::from_micros(self.rng.u64(1..3000))).await;
        }
    }

    /// A request that is known, or a new one.
    fn pick(&mut self) -> usize {
        if self.asked.len() < 10 {
            let asked = self.invent();
            self.asked.push(asked);
            return self.asked.len() - 1;
        }
        let nth = self.rng.usize(0..self.asked.len());
        if self.rng.u8(0..6) == 0 {
            self.asked[nth] = self.invent();
        }
        nth
    }

    fn invent(&mut self) -> Asked {
        let store = self.rng.usize(0..self.stores.len());
        // Some clients hear nothing: theirs is no channel.
        let is_deaf = self.rng.u8(0..6) == 0;
        let deaf = [ClientId::random(), self.stores[store].0];
        let client = deaf[usize::from(!is_deaf)];
        let name = self.rng.usize(0..NAMES.len());
        let sort = if self.rng.u8(0..12) == 0 { self.rng.u8(0..4) } else { self.sorts[name] };
        let kind = match (sort, self.rng.u8(0..6)) {
            (0, 0) => Kind::Once(Once::For(Duration::from_secs(self.rng.u64(1..20)))),
            (0, 1) => Kind::Once(Once::per(Duration::from_secs(7), Duration::ZERO)),
            (0, _) => Kind::Mutex,
            (1, _) => Kind::Reentrant,
            (2, _) => {
                let limit = self.rng.u32(1..5);
                Kind::Semaphore { limit, weight: self.rng.u32(1..=limit) }
            }
            (_, 0..4) => Kind::Read,
            (_, _) => Kind::Write,
        };
        let is_owned = kind == Kind::Reentrant || self.rng.u8(0..3) == 0;
        let owner = is_owned.then(|| Owner::new(["x", "y"][self.rng.usize(0..2)]).expect("a name"));
        let note = (self.rng.u8(0..5) == 0).then(|| Note::new("why @x :2 e~!+ w")).flatten();
        let ttl = Duration::from_millis([50, 1000, 10_000, 40_000][self.rng.usize(0..4)]);
        let key = LockKey::new(NAMES[name]).expect("a name");
        let id = RequestId::next(client, &self.counter);
        let request = Request { key, id, kind, owner, note, ttl };
        Asked { store, request, position: None, until: None, token: None, tick: None }
    }

    async fn acquire_together(&mut self) {
        let mut requests: Vec<Request> = Vec::new();
        for _ in 0..20 {
            let mut request = self.invent().request;
            let fits = matches!(request.kind, Kind::Mutex | Kind::Semaphore { .. });
            if fits && requests.iter().all(|it| it.key != request.key) {
                (request.owner, request.note, request.ttl) = (None, None, Duration::from_secs(5));
                requests.push(request);
            }
        }
        if requests.is_empty() {
            return;
        }
        let store = &self.stores[0].1;
        let _ = store.acquire_all(&requests, &[]).expect("it can").await;
        for request in requests {
            let nth = self.rng.usize(0..self.asked.len().max(1));
            let asked =
                Asked { store: 0, request, position: None, until: None, token: None, tick: None };
            match self.asked.get_mut(nth) {
                Some(place) => *place = asked,
                None => self.asked.push(asked),
            }
        }
    }

    /// A client keeps a lease, another one wants it, and the first one asks again. Or the work of a
    /// client succeeds, and another one asks for it.
    async fn recall(&mut self) {
        let (nth, mut other) = (self.pick(), self.invent().request);
        let Asked { store, request, .. } = self.asked[nth].clone();
        if request.kind == Kind::Reentrant {
            return;
        }
        (other.key, other.kind) = (request.key.clone(), request.kind);
        let (client, store) = &self.stores[store];
        let _ = store.acquire(&request, None).await;
        if let Some(answer) = store.complete(&request, Success::default()) {
            let _ = answer.await;
            let _ = store.acquire(&other, None).await;
        }
        let in_use = self.rng.bool();
        for usage in [Usage::Ended, Usage::Recalled { in_use }] {
            if let Some(answer) = store.linger(&request, usage) {
                let _ = answer.await;
            }
            if other.id.client() != *client {
                let _ = store.acquire(&other, None).await;
            }
        }
    }

    async fn adopt(&mut self) {
        let (nth, from) = (self.pick(), self.pick());
        let from = self.asked[from].clone();
        let client = self.stores[from.store].0;
        let id = RequestId::next(client, &self.counter);
        let request = Request { id, ..from.request.clone() };
        let most = from.token.map_or(u64::MAX, |token| token + 63);
        let ticket = Detached { id: from.request.id, most };
        let store = &self.stores[from.store].1;
        let _ = store.adopt(ticket, &request).await;
        self.asked[nth] = Asked { request, token: None, tick: None, ..from };
    }
}

pub async fn connect(client: ClientId) -> RedisStore {
    let handle = tokio::runtime::Handle::current();
    let store = RedisStore::connect(URL, &Settings::default(), client, handle).await;
    store.expect("the server is there")
}

/// Sends a command of a request. Returns the request with what it has been told.
async fn send(
    stores: &[(ClientId, RedisStore)],
    mut asked: Asked,
    what: u8,
    mut rng: Rng,
) -> Asked {
    let (request, store) = (asked.request.clone(), &stores[asked.store].1);
    let sent: Result<(), StoreError> = async {
        match what {
            0..90 => {
                let live = Duration::from_millis([300, 6000, 14_000][rng.usize(0..3)]);
                let position = asked.position.filter(|_| rng.u8(0..4) > 0);
                let age = Duration::from_millis(rng.u64(0..3) * 500);
                let position = position.map_or(QueuePosition::New { age }, QueuePosition::Assigned);
                let waiting = (rng.u8(0..3) > 0).then_some(Waiting { live, position });
                match store.acquire(&request, waiting).await? {
                    Attempt::Queued { position, until, .. } => {
                        (asked.position, asked.until) = (Some(position), Some(until));
                    }
                    Attempt::Granted { token } => asked.token = Some(token),
                    Attempt::GrantedTick { token, tick } => {
                        (asked.token, asked.tick) = (Some(token), Some(tick));
                    }
                    _ => {}
                }
            }
            90..110 => {
                let _answer = store.renew(&request).await?;
            }
            110..140 => {
                let keep = Duration::from_millis([0, 0, 0, 500][rng.usize(0..4)]);
                let _answer = store.release(&request, keep).await?;
            }
            140..155 => {
                let _answer = store.release_and_forget(&request).await?;
            }
            155..175 => {
                let _answer = store.cancel(&request).await?;
            }
            175..220 => {
                let in_use = rng.bool();
                let usage = [Usage::Ended, Usage::InUse, Usage::Recalled { in_use }];
                if let Some(answer) = store.linger(&request, usage[rng.usize(0..3)]) {
                    let _answer = answer.await?;
                }
            }
            220..230 => {
                let token = asked.token.filter(|_| rng.bool());
                if let Some(answer) = store.complete(&request, Success { tick: asked.tick, token })
                {
                    let _answer = answer.await?;
                }
            }
            230..240 => {
                if let Some(until) = asked.until {
                    store.keep_offer(&request, until).await?;
                }
            }
            240..245 => {
                let (by, why) = (Note::new("ann").expect("a note"), Note::new("why @x :2"));
                let mut only = Vec::new();
                // Now and then from some.
                if rng.bool() {
                    let seen = store.inspect(&request.key).await?;
                    only.extend(seen.holders.iter().step_by(2).map(|it| it.member().to_owned()));
                }
                let _answer = store.force_release(&request.key, Force { by, why, only }).await?;
            }
            245..247 => {
                let (by, why) = (Note::new("ann").expect("a note"), Note::new("why @x :2"));
                let _answer = store.run_again(&request.key, by, why).await?;
            }
            247 => {
                let _answer = store.was_forced(&request).await?;
            }
            248..252 => {
                let owner = Owner::new("x").expect("a name");
                let _answer = store.is_held_by(&request.key, &owner).await?;
            }
            _ => {
                let _answer = store.inspect(&request.key).await?;
            }
        }
        Ok(())
    }
    .await;
    // The oracle blames scripts that fail.
    drop(sent);
    asked
}
