//! Many leases that are held and renewed: by our client, or by a bare loop.

use std::time::Duration;

use clap::Args;
use leasehold::{Lease, Locks};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::setup::ready;
use crate::clock::{nanos, own_cpu};
use crate::failure::Failure;
use crate::{script, server};

/// The renewals in one pipeline of the bare loop: as many as in one of ours.
const PIPELINE: usize = 100;

#[derive(Args, Clone, Debug)]
pub(crate) struct Renewals {
    #[arg(long)]
    pub(crate) url: String,
    #[arg(long)]
    pub(crate) leases: usize,
    #[arg(long)]
    pub(crate) ttl_ms: u64,
    /// Time over which the processor time is measured
    #[arg(long)]
    pub(crate) window_ms: u64,
    /// Renews by a bare loop, not by our client
    #[arg(long)]
    pub(crate) raw: bool,
}

impl Renewals {
    pub(crate) fn arguments(&self) -> Vec<String> {
        let numbers = [
            ("--leases", self.leases as u64),
            ("--ttl-ms", self.ttl_ms),
            ("--window-ms", self.window_ms),
        ];
        let mut arguments = vec!["--url".to_owned(), self.url.clone()];
        arguments.extend(self.raw.then(|| "--raw".to_owned()));
        for (name, number) in numbers {
            arguments.extend([name.to_owned(), number.to_string()]);
        }
        arguments
    }

    pub(super) async fn run(self) -> Result<(), Failure> {
        if self.raw {
            let keys = self.set_keys().await?;
            let renewing = tokio::spawn(self.clone().renew(keys));
            let used = self.measure().await?;
            if renewing.is_finished() {
                renewing.await??;
            }
            println!("[{used},{}]", self.leases);
            return Ok(());
        }
        let leases = self.acquire().await?;
        let used = self.measure().await?;
        println!("[{used},{}]", leases.iter().filter(|lease| lease.is_held()).count());
        // The keys go with the server. Releasing so many would only take time.
        std::process::exit(0)
    }

    async fn measure(&self) -> Result<u64, Failure> {
        ready().await?;
        let before = own_cpu();
        sleep(Duration::from_millis(self.window_ms)).await;
        Ok(nanos(own_cpu().saturating_sub(before)))
    }

    async fn acquire(&self) -> Result<Vec<Lease>, Failure> {
        let (locks, ttl) = (Locks::connect(&self.url).await?, Duration::from_millis(self.ttl_ms));
        let (mut leases, mut running) = (Vec::new(), JoinSet::new());
        for number in 0..self.leases {
            if running.len() >= 256 {
                leases.extend(running.join_next().await.transpose()?.transpose()?);
            }
            let mutex = locks.mutex(format!("lease-{number}")).ttl(ttl);
            running.spawn(async move { mutex.lock().await });
        }
        while let Some(lease) = running.join_next().await {
            leases.push(lease??);
        }
        Ok(leases)
    }

    async fn set_keys(&self) -> Result<Vec<(String, String)>, Failure> {
        let mut redis = server::connect(&self.url).await?;
        let named = |n| (format!("raw:lock:{{lease-{n}}}"), script::id("raw", n));
        let keys: Vec<_> = (0..self.leases as u64).map(named).collect();
        for some in keys.chunks(PIPELINE) {
            let mut pipe = redis::pipe();
            for (key, id) in some {
                pipe.cmd("SET").arg(key).arg(id).arg("PX").arg(self.ttl_ms);
            }
            pipe.exec_async(&mut redis).await?;
        }
        Ok(keys)
    }

    /// Renews all keys each third of the TTL, at an even pace.
    async fn renew(self, keys: Vec<(String, String)>) -> Result<(), Failure> {
        let mut redis = server::connect(&self.url).await?;
        let hash = script::load(&redis, script::COMPARE_AND_EXPIRE).await?;
        let pipelines = u32::try_from(keys.len().div_ceil(PIPELINE))?;
        let mut pace = interval(Duration::from_millis(self.ttl_ms) / 3 / pipelines);
        pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for some in keys.chunks(PIPELINE).cycle() {
            pace.tick().await;
            let mut pipe = redis::pipe();
            for (key, id) in some {
                pipe.cmd("EVALSHA").arg(&*hash).arg(1).arg(key).arg(id).arg(self.ttl_ms);
            }
            let renewed: Vec<u32> = pipe.query_async(&mut redis).await?;
            if renewed.contains(&0) {
                return Err("a key of the bare loop has expired".into());
            }
        }
        Ok(())
    }
}
