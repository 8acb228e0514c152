//! The oracle finds nothing where nothing is wrong, and mistakes where they are planted.

mod designs;
mod planted;
mod successes;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use leasehold::LockKey;
use leasehold::store::{Ask, Attempt, ClientId, Kind, Owner, Request, RequestId};
use leasehold_simulation::traffic::{Unusual, connect, judged, on_a_bench};

fn seeds() -> u64 {
    std::env::var("SEEDS").ok().and_then(|it| it.parse().ok()).unwrap_or(8)
}

#[test]
fn the_scripts_keep_their_promises() {
    for seed in 0..seeds() {
        let found = judged(seed, None, Unusual::default());
        assert!(found.is_empty(), "seed {seed}: {}", found.first().map_or("", |it| it));
    }
}

#[test]
fn they_keep_them_when_the_clock_is_set_back() {
    for seed in 0..seeds() {
        let found = judged(seed, None, Unusual { jumps: true });
        assert!(found.is_empty(), "seed {seed}: {}", found.first().map_or("", |it| it));
    }
}

/// When the writer's lease ends goes with that lease. Otherwise it would count again after the clock
/// was set back, and keep other readers out.
#[test]
fn a_writer_that_has_ended_keeps_nobody_out() {
    let found = on_a_bench(None, async |bench| {
        let (client, counter) = (ClientId::random(), AtomicU64::new(1));
        let store = connect(client).await;
        let acquire = async |kind, owner, seconds| {
            let (id, key) = (RequestId::next(client, &counter), LockKey::new("a").unwrap());
            let (owner, ttl) = (Some(Owner::new(owner).unwrap()), Duration::from_secs(seconds));
            let request = Request { key, id, kind, owner, note: None, ttl };
            store.acquire(&request, None).await.expect("the server answers")
        };
        assert!(matches!(acquire(Kind::Write, "x", 5).await, Attempt::Granted { .. }));
        assert!(matches!(acquire(Kind::Read, "x", 60).await, Attempt::Granted { .. }));
        tokio::time::sleep(Duration::from_secs(6)).await;
        // This removes what has ended.
        assert!(matches!(acquire(Kind::Read, "x", 60).await, Attempt::Granted { .. }));
        bench.behind_us.set(3_000_000);
        let other = acquire(Kind::Read, "y", 60).await;
        assert!(matches!(other, Attempt::Granted { .. }), "{other:?}");
    });
    assert!(found.is_empty(), "{found:?}");
}
