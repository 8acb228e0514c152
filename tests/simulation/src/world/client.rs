//! The client of a process, of whichever deployment it is.

use std::time::Duration;

use leasehold::{LockError, Locks, Mutex, QuorumLocks, ShutdownReport};

use super::plan::Deployment;
use super::version::USUAL_TTL;
use super::wishes::{Guard, Wish};

#[derive(Clone)]
pub(super) enum Client {
    All(Locks),
    Quorum(QuorumLocks),
}

impl Client {
    pub(super) async fn shut_down(&self) -> ShutdownReport {
        match self {
            Self::All(locks) => locks.shutdown().await,
            Self::Quorum(locks) => locks.shutdown().await,
        }
    }

    pub(super) fn mutex(&self, name: &'static str) -> Mutex {
        match self {
            Self::All(locks) => locks.mutex(name),
            Self::Quorum(locks) => locks.mutex(name),
        }
    }

    pub(super) async fn acquire(&self, wish: &Wish) -> Result<Guard, LockError> {
        match self {
            Self::All(locks) => wish.acquire(locks).await,
            Self::Quorum(locks) => wish.acquire_on_quorum(locks).await,
        }
    }
}

/// Connects to the servers of a deployment.
pub(super) fn connect(deployment: Deployment, urls: &[String]) -> Client {
    let builder = Locks::builder().service("simulation");
    let builder = builder.command_timeout(Duration::from_millis(300));
    match deployment {
        Deployment::Single | Deployment::Cluster | Deployment::Sentinel { syncs: false } => {
            Client::All(builder.connect_lazy(&urls[0]).expect("a URL"))
        }
        Deployment::Sentinel { syncs: true } => {
            let builder = builder.sync_replicas(1, Duration::from_millis(100));
            Client::All(builder.connect_lazy(&urls[0]).expect("a URL"))
        }
        Deployment::Quorum(_) => {
            let builder = builder.longest_ttl(USUAL_TTL + Duration::from_secs(1));
            Client::Quorum(builder.connect_quorum_lazy(urls).expect("URLs"))
        }
    }
}
