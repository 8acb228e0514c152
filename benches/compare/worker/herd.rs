//! Many clients that hold a lease each, and lose their connections.

use std::time::Duration;

use clap::Args;
use leasehold::Locks;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::setup::ready;
use crate::clock::{nanos, now};
use crate::failure::Failure;

/// The number of clients that connect at the same time.
const TOGETHER: usize = 16;

#[derive(Args, Clone, Debug)]
pub(crate) struct Herd {
    #[arg(long)]
    pub(crate) url: String,
    #[arg(long)]
    pub(crate) clients: usize,
    #[arg(long)]
    pub(crate) ttl_ms: u64,
    /// Each asks for another lock as soon as the connections are gone
    #[arg(long)]
    pub(crate) asks: bool,
}

impl Herd {
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--url".to_owned(), self.url.clone()];
        let numbers = [("--clients", self.clients as u64), ("--ttl-ms", self.ttl_ms)];
        for (name, number) in numbers {
            arguments.extend([name.to_owned(), number.to_string()]);
        }
        arguments.extend(self.asks.then(|| "--asks".to_owned()));
        arguments
    }

    pub(super) async fn run(self) -> Result<(), Failure> {
        let (ttl, process) = (Duration::from_millis(self.ttl_ms), std::process::id());
        let (mut held, mut running) = (Vec::new(), JoinSet::new());
        for client in 0..self.clients {
            if running.len() >= TOGETHER {
                held.extend(running.join_next().await.transpose()?.transpose()?);
            }
            let url = self.url.clone();
            running.spawn(async move {
                let locks = Locks::connect(&url).await?;
                let lease =
                    locks.mutex(format!("lease-{process}-{client}")).ttl(ttl).lock().await?;
                Ok::<_, leasehold::LockError>((locks, lease))
            });
        }
        while let Some(one) = running.join_next().await {
            held.push(one??);
        }
        ready().await?;
        let mut asking = JoinSet::new();
        for (client, (locks, _)) in held.iter().enumerate().filter(|_| self.asks) {
            let mutex = locks.mutex(format!("next-{process}-{client}")).ttl(ttl);
            let mutex = mutex.wait(Duration::from_secs(60));
            asking.spawn(async move {
                // The drop releases it in the background. That may fail while the clients
                // reconnect.
                let _lease = mutex.lock().await?;
                Ok::<_, leasehold::LockError>(now())
            });
        }
        let mut back = Duration::ZERO;
        while let Some(one) = asking.join_next().await {
            back = back.max(one??);
        }
        // Leases that were not renewed are lost by then.
        sleep(2 * ttl).await;
        let held = held.iter().filter(|(_, lease)| lease.is_held()).count();
        println!("[{},{held}]", nanos(back));
        // The keys go with the server.
        std::process::exit(0)
    }
}
