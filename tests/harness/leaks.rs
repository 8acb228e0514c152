//! Finds locks that were not released on a server.

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;

use crate::server::Server;
use crate::waiting::until;

/// Far below the 30 seconds of a lease. A lock that is free by then was released, and did not
/// expire.
const BOUND: Duration = Duration::from_secs(20);

impl Server {
    /// The keys of all locks that are held, waited for, kept or offered. Empty when all were
    /// released.
    ///
    /// # Panics
    ///
    /// If the server can't be asked.
    pub async fn unfree(&self) -> Vec<String> {
        unfree(&mut self.patient().await).await
    }

    /// Waits until no lock is held or waited for, well before leases of the default TTL expire.
    ///
    /// # Panics
    ///
    /// If that does not come about.
    pub async fn until_all_is_free(&self) {
        let (mut redis, begun) = (self.patient().await, Instant::now());
        until("all is free", async || {
            let left = unfree(&mut redis).await;
            assert!(begun.elapsed() < BOUND, "{} are left: {left:?}", left.len());
            left.is_empty()
        })
        .await;
    }

    /// The number of locks that the server knows, free ones included.
    ///
    /// # Panics
    ///
    /// If the server can't be asked.
    pub async fn known(&self) -> usize {
        keys(&mut self.patient().await, "leasehold:lock:*").await.len()
    }

    /// A connection with enough time to list a million keys.
    async fn patient(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.url()).expect("a URL");
        let patient = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let connection = client.get_multiplexed_async_connection_with_config(&patient);
        connection.await.expect("the server is there")
    }
}

async fn keys(redis: &mut MultiplexedConnection, pattern: &str) -> Vec<String> {
    redis::cmd("KEYS").arg(pattern).query_async(redis).await.expect("KEYS")
}

async fn unfree(redis: &mut MultiplexedConnection) -> Vec<String> {
    let mut left = Vec::new();
    for role in ["holders", "queue", "waiters"] {
        left.extend(keys(redis, &format!("leasehold:{role}:*")).await);
    }
    for records in keys(redis, "leasehold:lock:*").await.chunks(1_000) {
        let states: Vec<Option<String>> =
            redis::cmd("MGET").arg(records).query_async(redis).await.expect("MGET");
        for (key, record) in records.iter().zip(states) {
            // The second letter is the state. A record may have expired meanwhile.
            if record.is_some_and(|record| record.as_bytes().get(1) != Some(&b'F')) {
                left.push(key.clone());
            }
        }
    }
    left
}
