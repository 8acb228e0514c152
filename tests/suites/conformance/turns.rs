//! Turns over every store. Each grant reserves a block of tokens for the later holders of a turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::store::{Adoption, Ask, Ended, Forced, Kind, Request, TOKENS};
use leasehold::{Lease, LockError, LockKey};
use leasehold_tests::backend::Backend;
use leasehold_tests::waiting::{until, work_for};
use tokio::task::{JoinSet, yield_now};

use super::operator::forced;
use super::{Client, FIRST, LIVE, LONG, SHORT, ask, cancelled, claims, granted, released, waits};

macro_rules! cases {
    ($case:path) => {
        $case! {
            turns:
            a_release_leaves_a_block,
            an_expiry_leaves_a_block,
            an_offer_by_a_release_leaves_a_block,
            an_offer_by_a_cancel_leaves_a_block,
            a_queue_that_is_served_late_leaves_a_block,
            an_adoption_leaves_a_block,
            force_leaves_a_block,
            locks_granted_together_leave_a_block_each,
            a_grant_sent_twice_has_one_block,
            a_lock_goes_round_two_crowds,
        }
    };
}
pub(super) use cases;

/// The kinds with tokens.
const FENCED: [Kind; 3] = [Kind::Mutex, Kind::Reentrant, Kind::Write];

/// The last token of a lock. Checks that each next token is above its block.
struct Tokens(u64);

impl Tokens {
    fn next(&mut self, token: u64) {
        assert!(token >= self.0 + TOKENS, "{token} after {}", self.0);
        self.0 = token;
    }
}

/// This many requests, each of its own client and owner.
fn requests<const N: usize>(kind: Kind, ttl: Duration) -> [Request; N] {
    std::array::from_fn(|n| Client::new().owned(kind, &format!("owner {n}"), ttl))
}

async fn ended(backend: &dyn Backend, request: &Request) {
    assert_eq!(released(backend, request).await, Ended::Released);
}

pub(super) async fn a_release_leaves_a_block(backend: &dyn Backend) {
    let mut tokens = Tokens(0);
    for kind in FENCED {
        for request in requests::<20>(kind, LONG) {
            tokens.next(granted(backend, &request).await);
            ended(backend, &request).await;
        }
    }
}

pub(super) async fn an_expiry_leaves_a_block(backend: &dyn Backend) {
    let mut tokens = Tokens(0);
    for kind in FENCED {
        let [first, second] = requests(kind, SHORT);
        tokens.next(granted(backend, &first).await);
        backend.pass(SHORT).await;
        tokens.next(granted(backend, &second).await);
        backend.pass(SHORT).await;
    }
}

pub(super) async fn an_offer_by_a_release_leaves_a_block(backend: &dyn Backend) {
    let mut tokens = Tokens(0);
    for kind in FENCED {
        let all = requests::<5>(kind, LONG);
        tokens.next(granted(backend, &all[0]).await);
        for waiter in &all[1..] {
            waits(backend, waiter, LIVE).await;
        }
        for pair in all.windows(2) {
            ended(backend, &pair[0]).await;
            // The waiter asks again, and so learns its token.
            tokens.next(granted(backend, &pair[1]).await);
        }
        ended(backend, &all[4]).await;
    }
}

pub(super) async fn an_offer_by_a_cancel_leaves_a_block(backend: &dyn Backend) {
    let mut tokens = Tokens(0);
    for kind in FENCED {
        let [holder, first, second, third] = requests(kind, LONG);
        tokens.next(granted(backend, &holder).await);
        for waiter in [&first, &second, &third] {
            waits(backend, waiter, LIVE).await;
        }
        // The cancel ends a lease, and then an offer.
        assert!(cancelled(backend, &holder).await, "{kind:?}");
        tokens.next(granted(backend, &first).await);
        ended(backend, &first).await;
        assert!(cancelled(backend, &second).await, "{kind:?}");
        // The offer that nobody took had a block too.
        tokens.0 += TOKENS;
        tokens.next(granted(backend, &third).await);
        ended(backend, &third).await;
    }
}

/// Nobody released the lock. The first waiter gets it when it asks again.
pub(super) async fn a_queue_that_is_served_late_leaves_a_block(backend: &dyn Backend) {
    let mut tokens = Tokens(0);
    for kind in FENCED {
        let [mut holder, first, second] = requests(kind, LONG);
        holder.ttl = SHORT;
        tokens.next(granted(backend, &holder).await);
        waits(backend, &first, LIVE).await;
        waits(backend, &second, LIVE).await;
        backend.pass(SHORT).await;
        // The second waiter asks, and the first gets the offer.
        let _ = ask(backend, &second, LIVE, FIRST).await;
        tokens.next(granted(backend, &first).await);
        ended(backend, &first).await;
        tokens.next(granted(backend, &second).await);
        ended(backend, &second).await;
    }
}

pub(super) async fn an_adoption_leaves_a_block(backend: &dyn Backend) {
    let mut tokens = Tokens(0);
    for kind in FENCED {
        let [mut from] = requests(kind, LONG);
        tokens.next(granted(backend, &from).await);
        for _ in 0..3 {
            let [heir] = requests(kind, LONG);
            let adopted = backend.store().adopt(from.id.into(), &heir).await.unwrap();
            let Adoption::Adopted { token } = adopted else { panic!("{kind:?}: {adopted:?}") };
            tokens.next(token);
            from = heir;
        }
        ended(backend, &from).await;
    }
}

/// A forced release returns a token for writes to the resource. It is above all earlier tokens, and
/// below all later ones.
pub(super) async fn force_leaves_a_block(backend: &dyn Backend) {
    let mut tokens = Tokens(0);
    for kind in FENCED {
        let [holder, waiter, late] = requests(kind, LONG);
        tokens.next(granted(backend, &holder).await);
        waits(backend, &waiter, LIVE).await;
        let Forced::Released { held: 1, fence, .. } = forced(backend).await else { panic!("held") };
        tokens.next(fence.get());
        tokens.next(granted(backend, &waiter).await);
        let Forced::Released { held: 1, fence, .. } = forced(backend).await else { panic!("held") };
        tokens.next(fence.get());
        tokens.next(granted(backend, &late).await);
        ended(backend, &late).await;
    }
}

pub(super) async fn locks_granted_together_leave_a_block_each(backend: &dyn Backend) {
    // On a cluster, all keys of a script are in one slot.
    let names = ["of:{one}:a", "of:{one}:b", "of:{one}:c"];
    let mut tokens = names.map(|_| Tokens(0));
    for _ in 0..5 {
        let client = Client::new();
        let of = |name| Request { key: LockKey::new(name).unwrap(), ..client.mutex(LONG) };
        let requests = names.map(of);
        let all = backend.store().acquire_all(&requests, &[]).expect("it grants them together");
        let all = all.await.unwrap().expect("they are free");
        for ((tokens, token), request) in tokens.iter_mut().zip(all).zip(&requests) {
            tokens.next(token);
            ended(backend, request).await;
        }
        // Single grants of the same lock count from the same token.
        let single = client.mutex(LONG);
        tokens[0].next(granted(backend, &single).await);
        ended(backend, &single).await;
    }
}

/// A repeated request keeps its token.
pub(super) async fn a_grant_sent_twice_has_one_block(backend: &dyn Backend) {
    for kind in FENCED {
        let [holder, waiter] = requests(kind, LONG);
        let token = granted(backend, &holder).await;
        assert_eq!(granted(backend, &holder).await, token, "{kind:?}");
        waits(backend, &waiter, LIVE).await;
        ended(backend, &holder).await;
        claims(backend, &waiter).await;
        let token = granted(backend, &waiter).await;
        assert_eq!(granted(backend, &waiter).await, token, "{kind:?}");
        ended(backend, &waiter).await;
    }
}

const TASKS: u64 = 8;
const TIMES: u64 = 20;

/// The data that all tasks of a crowd share.
#[derive(Default)]
struct Inside {
    weight: AtomicU64,
    last: AtomicU64,
    count: AtomicU64,
}

impl Inside {
    /// Works under a lease, and ends it in one way or the other.
    async fn work(&self, lease: Lease, weight: u64, limit: u64, ends: bool) {
        let before = self.weight.fetch_add(weight, Ordering::SeqCst);
        assert!(before + weight <= limit, "{before} are in it, and {weight} more of {limit}");
        assert!(lease.is_held());
        match lease.fence() {
            Ok(token) => {
                let before = self.last.swap(token.get(), Ordering::SeqCst);
                assert!(before < token.get(), "{token:?} after {before}");
            }
            Err(LockError::NotFenced { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        if ends {
            work_for(Duration::from_millis(1)).await;
        } else {
            yield_now().await;
        }
        self.weight.fetch_sub(weight, Ordering::SeqCst);
        self.count.fetch_add(1, Ordering::SeqCst);
        if ends {
            lease.release().await.unwrap();
        }
    }
}

pub(super) async fn a_lock_goes_round_two_crowds(backend: &dyn Backend) {
    for limit in [1, 4] {
        let (inside, mut tasks) = (Arc::<Inside>::default(), JoinSet::new());
        for locks in [backend.locks().await, backend.locks().await] {
            for task in 0..TASKS {
                let mutex = locks.mutex("m").wait(LONG).ttl(LONG);
                let permits = locks.semaphore("s", limit).wait(LONG).ttl(LONG);
                let inside = inside.clone();
                tasks.spawn(async move {
                    for time in 0..TIMES {
                        // Most ask for the same, and some are heavier.
                        let weight = if limit > 1 && task == 0 { 3 } else { 1 };
                        let lease = match limit {
                            1 => mutex.lock().await,
                            _ => permits.acquire_many(weight).await,
                        };
                        let ends = (task + time) % 3 > 0;
                        inside.work(lease.unwrap(), weight.into(), limit.into(), ends).await;
                    }
                });
            }
        }
        tasks.join_all().await;
        assert_eq!(inside.count.load(Ordering::SeqCst), 2 * TASKS * TIMES);
    }
    // Dropped leases are released in the background.
    let locks = backend.locks().await;
    for name in ["m", "s"] {
        let is_free = async || {
            let info = locks.inspect(name).await.unwrap();
            info.held == 0 && info.waiting == 0
        };
        until("nothing is left", is_free).await;
    }
}
