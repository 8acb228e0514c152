//! Acquire and release without contention, each task on keys of its own:
//! leasehold beside a plain `SET NX PX` and a script that compares and deletes,
//! over one multiplexed connection each, in turns, on one server.
//!
//! The raw loop is what a client could do at the least. It has no fencing
//! token, does not notice a repeated command, and renews nothing.

use std::time::{Duration, Instant};

use leasehold::Locks;
use leasehold_tests::server::Server;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(700);
const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await?;
    let raw = server.redis().await;
    println!("pairs of acquire and release a second; medians of {ROUNDS} rounds in turns");
    println!("tasks      raw     ours   ours/raw   (least to most)");
    for tasks in [1, 8, 64, 512] {
        let mut rounds = Vec::new();
        for _ in 0..=ROUNDS {
            let raw = rate(tasks, |task, until| raw_pairs(raw.clone(), task, until)).await;
            let ours = rate(tasks, |task, until| our_pairs(locks.clone(), task, until)).await;
            rounds.push((raw, ours, ours / raw));
        }
        rounds.remove(0); // the first one warms up
        let median = |value: fn(&(f64, f64, f64)) -> f64| {
            let mut values: Vec<_> = rounds.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            (values[0], values[ROUNDS / 2], values[ROUNDS - 1])
        };
        let (least, ratio, most) = median(|round| round.2);
        println!(
            "{tasks:>5} {:>8.0} {:>8.0} {ratio:>10.2}   ({least:.2} to {most:.2})",
            median(|round| round.0).1,
            median(|round| round.1).1,
        );
    }
    Ok(())
}

/// Pairs a second, of so many tasks together.
async fn rate<W>(tasks: u32, work: impl Fn(u32, Instant) -> W) -> f64
where
    W: Future<Output = u32> + Send + 'static,
{
    let begun = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        running.spawn(work(task, begun + ROUND));
    }
    let pairs: u32 = running.join_all().await.into_iter().sum();
    f64::from(pairs) / begun.elapsed().as_secs_f64()
}

async fn raw_pairs(mut redis: MultiplexedConnection, task: u32, until: Instant) -> u32 {
    let release = redis::Script::new(COMPARE_AND_DELETE);
    let key = format!("raw:{task}");
    let mut pairs = 0;
    while Instant::now() < until {
        let mut set = redis::cmd("SET");
        set.arg(&key).arg("0123456789012345678901").arg("NX").arg("PX").arg(30_000);
        let set: Option<String> = set.query_async(&mut redis).await.expect("the server answers");
        assert!(set.is_some());
        let deleted: u32 = release
            .key(&key)
            .arg("0123456789012345678901")
            .invoke_async(&mut redis)
            .await
            .expect("the server answers");
        assert_eq!(deleted, 1);
        pairs += 1;
    }
    pairs
}

async fn our_pairs(locks: Locks, task: u32, until: Instant) -> u32 {
    let mutex = locks.mutex(format!("ours:{task}"));
    let mut pairs = 0;
    while Instant::now() < until {
        let lease = mutex.lock().await.expect("the server answers");
        lease.release().await.expect("it is held");
        pairs += 1;
    }
    pairs
}
