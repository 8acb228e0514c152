//! The rules without a store: a state, a request and a time in, a state, an answer and hints
//! out.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

use super::*;
use crate::core::error::LossReason;
use crate::core::key::LockKey;
use crate::store::{
    ClientId, Force, Forced, Hint, Note, OFFER, Owner, QueuePosition, Repaired, RequestId, TOKENS,
};

const TTL: Duration = Duration::from_secs(10);
const LIVE: Duration = Duration::from_secs(6);
const PERMIT: Kind = Kind::Semaphore { limit: 3, weight: 1 };

/// One lock, and all that its rules are given.
struct Bench {
    lock: LockState,
    counters: Counters,
    now: Time,
    deaf: Vec<ClientId>,
    counter: AtomicU64,
}

impl Bench {
    fn new(tokens: Tokens) -> Self {
        let now = Time::since_beginning(Duration::from_secs(1_000_000));
        let (lock, counters) = (LockState::default(), Counters::new(tokens));
        Self { lock, counters, now, deaf: Vec::new(), counter: AtomicU64::new(1) }
    }

    fn request(&self, client: ClientId, kind: Kind, owner: Option<&str>) -> Request {
        let (key, id) = (LockKey::new("a").unwrap(), RequestId::next(client, &self.counter));
        let owner = owner.map(|name| Owner::new(name).unwrap());
        Request { key, id, kind, owner, note: None, ttl: TTL }
    }

    /// A request of a client of its own.
    fn stranger(&self, kind: Kind) -> Request {
        self.request(ClientId::random(), kind, None)
    }

    /// Runs a rule, as a store does. Returns its answer and its hints.
    fn run<T>(
        &mut self,
        rule: impl FnOnce(&mut LockState, &mut Context<'_>) -> T,
    ) -> (T, Vec<Hint>) {
        self.lock.expire(self.now);
        let is_listening = |client| !self.deaf.contains(&client);
        let (now, counters) = (self.now, &mut self.counters);
        let mut context = Context { now, counters, is_listening: &is_listening, hints: Vec::new() };
        let answer = rule(&mut self.lock, &mut context);
        (answer, context.hints.into_iter().map(|(_, hint)| hint).collect())
    }

    fn acquire(&mut self, request: &Request, waits: bool) -> (Attempt, Vec<Hint>) {
        let position = QueuePosition::New { age: Duration::ZERO };
        let waiting = waits.then_some(Waiting { live: LIVE, position });
        self.run(|lock, context| acquire(lock, request, waiting, context))
    }

    fn granted(&mut self, request: &Request) -> u64 {
        let (Attempt::Granted { token }, _) = self.acquire(request, true) else {
            panic!("{request:?} is not granted")
        };
        token
    }

    fn queued(&mut self, request: &Request) {
        let answer = self.acquire(request, true);
        assert!(matches!(answer, (Attempt::Queued { .. }, _)), "{answer:?}");
    }

    fn release(&mut self, request: &Request) -> (Ended, Vec<Hint>) {
        self.run(|lock, context| release(lock, request, Duration::ZERO, context))
    }

    fn renew(&mut self, request: &Request) -> Renewal {
        self.run(|lock, context| renew(lock, request, context.now)).0
    }
}

#[test]
fn a_release_offers_the_lock_to_the_first_waiter() {
    for kind in [Kind::Mutex, Kind::Write] {
        let mut bench = Bench::new(Tokens::Clock);
        let [first, second, third] = [(); 3].map(|()| bench.stranger(kind));
        let token = bench.granted(&first);
        bench.queued(&second);
        bench.queued(&third);
        let (answer, hints) = bench.release(&first);
        assert_eq!(answer, Ended::Released);
        let [Hint::Offered { id, token: next, early, .. }] = hints[..] else { panic!("{hints:?}") };
        assert_eq!((id, early + OFFER), (second.id, LIVE));
        assert!(next >= token + TOKENS);
        assert_eq!(bench.renew(&second), Renewal::Renewed);
        assert_eq!(bench.renew(&third), Renewal::NotHeld(LossReason::Taken));
        assert_eq!(bench.granted(&second), next, "the same request, the same token");
    }
}

#[test]
fn an_offer_that_nobody_confirms_goes_to_the_next_waiter_that_asks() {
    for kind in [Kind::Mutex, Kind::Write] {
        let mut bench = Bench::new(Tokens::Counter(0));
        let [first, second, third] = [(); 3].map(|()| bench.stranger(kind));
        bench.granted(&first);
        bench.queued(&second);
        bench.queued(&third);
        bench.deaf.push(second.id.client());
        let (_, hints) = bench.release(&first);
        // The offer's client is deaf, so the next one learns when the offer ends.
        assert_eq!(hints, [Hint::Free { id: third.id }]);
        assert!(matches!(bench.acquire(&third, true).0, Attempt::Queued { ask_again, .. }
            if ask_again == OFFER));
        bench.now = bench.now + OFFER;
        bench.granted(&third);
    }
}

#[test]
fn a_heavy_waiter_is_not_overtaken() {
    let mut bench = Bench::new(Tokens::Counter(0));
    let holder = bench.stranger(PERMIT);
    let heavy = bench.stranger(Kind::Semaphore { limit: 3, weight: 3 });
    let light = bench.stranger(PERMIT);
    bench.granted(&holder);
    bench.queued(&heavy);
    bench.queued(&light);
    let (answer, hints) = bench.release(&holder);
    assert_eq!(answer, Ended::Released);
    assert!(matches!(hints[..], [Hint::Offered { id, .. }] if id == heavy.id), "{hints:?}");
    assert_eq!(bench.renew(&light), Renewal::NotHeld(LossReason::Expired));
}

#[test]
fn a_repaired_token_must_be_within_reach_of_the_clock() {
    let mut bench = Bench::new(Tokens::Clock);
    let lease = bench.stranger(Kind::Mutex);
    let clock = bench.now.micros();
    let mut repair = |token, lasts| {
        bench.run(|lock, context| quorum_member::repair(lock, &lease, token, lasts, context)).0
    };
    assert_eq!(repair(clock, Duration::ZERO), Repaired::NotHeld);
    let far = clock + 200_000;
    assert!(matches!(repair(far, TTL), Repaired::Behind(by) if by.as_millis() == 101));
    let near = clock + 50_000;
    assert_eq!(repair(near, TTL), Repaired::Held { token: near });
}

/// Draws numbers, always the same for a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

/// The beliefs that the answers so far justify: who may rely on a lease, and until when.
#[derive(Default)]
struct Beliefs {
    live: HashMap<RequestId, (Request, Time)>,
    offers: HashMap<RequestId, u64>,
    /// The greatest token of all grants and offers, and the owner it was for.
    greatest: (u64, Option<Owner>),
}

impl Beliefs {
    fn hear(&mut self, hints: Vec<Hint>, owners: &HashMap<RequestId, Option<Owner>>) {
        for hint in hints {
            if let Hint::Offered { id, token, .. } = hint {
                self.check_token(token, owners[&id].clone());
                self.offers.insert(id, token);
            }
        }
    }

    /// Tokens only grow; holds of one owner may share one.
    fn check_token(&mut self, token: u64, owner: Option<Owner>) {
        if token > 0 {
            let (greatest, of) = &self.greatest;
            let is_shared = token == *greatest && owner.is_some() && owner == *of;
            assert!(token > *greatest || is_shared, "{token} after {greatest}");
            self.greatest = (token, owner);
        }
    }

    fn check_holders(&mut self, now: Time) {
        self.live.retain(|_, (_, until)| *until > now);
        let of = |kind: Kind| self.live.values().filter(move |(it, _)| it.kind == kind);
        assert!(of(Kind::Mutex).count() <= 1);
        assert!(of(PERMIT).count() <= 3);
        assert!(of(Kind::Write).count() <= 1);
        if let Some((writer, _)) = of(Kind::Write).next() {
            let is_own =
                |(it, _): &&(Request, Time)| it.owner.is_some() && it.owner == writer.owner;
            assert_eq!(of(Kind::Read).filter(is_own).count(), of(Kind::Read).count());
        }
        let mut owners: Vec<_> = of(Kind::Reentrant).map(|(it, _)| it.owner.clone()).collect();
        owners.dedup();
        assert!(owners.len() <= 1, "{owners:?}");
    }
}

/// Whatever clients do, and however late: no lease has too many holders, and tokens grow.
#[test]
fn random_commands_never_grant_a_held_lock() {
    let kinds: [&[Kind]; 4] =
        [&[Kind::Mutex], &[Kind::Reentrant], &[PERMIT], &[Kind::Read, Kind::Write]];
    for seed in 0..100 {
        let mut dice = Dice(seed);
        for kinds in kinds {
            run_randomly(&mut dice, kinds);
        }
    }
}

fn run_randomly(dice: &mut Dice, kinds: &[Kind]) {
    let tokens = if dice.roll(2) == 0 { Tokens::Clock } else { Tokens::Counter(0) };
    let (mut bench, mut beliefs) = (Bench::new(tokens), Beliefs::default());
    let clients = [(); 3].map(|()| ClientId::random());
    bench.deaf.push(clients[2]);
    let (mut requests, mut owners) = (Vec::new(), HashMap::new());
    for _ in 0..200 {
        if requests.len() < 6 {
            let kind = kinds[dice.roll(kinds.len())];
            let is_owned = kind == Kind::Reentrant || kind != Kind::Mutex && dice.roll(2) == 0;
            let owner = is_owned.then(|| ["x", "y"][usize::from(dice.roll(2) == 0)]);
            let request = bench.request(clients[dice.roll(3)], kind, owner);
            owners.insert(request.id, request.owner.clone());
            requests.push(request);
        }
        let nth = dice.roll(requests.len());
        let request = requests[nth].clone();
        let until = bench.now + TTL;
        let hints = match dice.roll(10) {
            0..5 => {
                let (answer, hints) = bench.acquire(&request, dice.roll(4) > 0);
                if let Attempt::Granted { token } = answer {
                    let is_new = !beliefs.live.contains_key(&request.id)
                        && beliefs.offers.remove(&request.id) != Some(token);
                    // A grant may itself be repeated after its lease was thought lost.
                    if is_new && token != beliefs.greatest.0 {
                        beliefs.check_token(token, request.owner.clone());
                    }
                    beliefs.live.insert(request.id, (request, until));
                }
                hints
            }
            5 => {
                match bench.renew(&request) {
                    Renewal::Renewed => beliefs.live.insert(request.id, (request, until)),
                    Renewal::NotHeld(_) => beliefs.live.remove(&request.id),
                };
                Vec::new()
            }
            6 | 7 => {
                beliefs.live.remove(&request.id);
                let ended = requests.swap_remove(nth);
                if dice.roll(2) == 0 {
                    bench.release(&ended).1
                } else {
                    bench.run(|lock, context| cancel(lock, &ended, context)).1
                }
            }
            8 => {
                bench.now = bench.now + Duration::from_millis(dice.roll(4000) as u64);
                Vec::new()
            }
            _ if dice.roll(8) == 0 => {
                let (answer, hints) = bench.run(|lock, context| {
                    force_release(lock, &Force::all(Note::new("ann").unwrap()), context)
                });
                if let Forced::Released { fence, .. } = answer {
                    beliefs.check_token(u64::from(fence), None);
                    beliefs.live.clear();
                }
                hints
            }
            _ => Vec::new(),
        };
        beliefs.hear(hints, &owners);
        beliefs.check_holders(bench.now);
    }
}
