//! Acquiring and releasing as fast as it goes, one pair after another or by many tasks.

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;

use crate::contender::Client;
use crate::failure::Failure;
use crate::stats::{Times, real};

/// The least number of pairs of a measurement, however slow they are.
const LEAST: usize = 20;

/// The times of pairs of one task, one after another. Each is of a lock that this names.
pub(crate) async fn one_by_one(
    client: &Client,
    name: impl Fn() -> String + Send + 'static,
    time: Duration,
) -> Result<Times, Failure> {
    let client = client.clone();
    let work = async move {
        let (mut times, begun) = (Vec::new(), Instant::now());
        while begun.elapsed() < time || times.len() < LEAST {
            let mut lock = client.mutex(&name());
            let asked = Instant::now();
            lock.acquire_free().await?.release().await?;
            times.push(asked.elapsed());
        }
        Ok(times.into_iter().collect())
    };
    // As in the other scenarios, it is a task of the runtime.
    tokio::spawn(work).await?
}

/// The times of PINGs over this connection, one after another.
pub(crate) async fn pings(
    mut redis: MultiplexedConnection,
    time: Duration,
) -> Result<Times, Failure> {
    let work = async move {
        let (mut times, begun) = (Vec::new(), Instant::now());
        while begun.elapsed() < time || times.len() < LEAST {
            let asked = Instant::now();
            redis::cmd("PING").exec_async(&mut redis).await?;
            times.push(asked.elapsed());
        }
        Ok(times.into_iter().collect())
    };
    tokio::spawn(work).await?
}

/// Acquires and releases so many times, by tasks that each have a lock of their own.
pub(crate) async fn so_many(client: &Client, tasks: usize, pairs: usize) -> Result<(), Failure> {
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let mut lock = client.mutex(&format!("task-{task}"));
        running.spawn(async move {
            for _ in (task..pairs).step_by(tasks) {
                lock.acquire_free().await?.release().await?;
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(done) = running.join_next().await {
        done??;
    }
    Ok(())
}

/// What many tasks did, each with a lock of its own.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) pairs: f64,
    /// Pairs a second.
    pub(crate) rate: f64,
}

/// Acquires and releases by this many tasks, each with a lock of its own.
pub(crate) async fn by_tasks(
    client: &Client,
    tasks: usize,
    time: Duration,
) -> Result<Load, Failure> {
    let begun = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let mut lock = client.mutex(&format!("task-{task}"));
        running.spawn(async move {
            let mut pairs = 0;
            while begun.elapsed() < time {
                lock.acquire_free().await?.release().await?;
                pairs += 1;
            }
            Ok::<_, Failure>(pairs)
        });
    }
    let mut pairs = 0;
    while let Some(done) = running.join_next().await {
        pairs += done??;
    }
    Ok(Load { pairs: real(pairs), rate: real(pairs) / begun.elapsed().as_secs_f64() })
}
