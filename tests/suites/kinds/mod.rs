//! The kinds of locks beside mutex and semaphore on real servers: what their users rely
//! on, under load.

mod force;
mod reentrant;
mod rw;

use redis::aio::MultiplexedConnection;

/// Waits until somebody waits for the lock who says this of himself, behind until when
/// he lives.
async fn until_waits(redis: &mut MultiplexedConnection, name: &str, demand: &str) {
    loop {
        let waiters = format!("leasehold:waiters:{{{name}}}");
        let said: Vec<String> =
            redis::cmd("HVALS").arg(waiters).query_async(redis).await.expect("HVALS");
        if said.iter().any(|said| &said[13..] == demand) {
            return;
        }
        tokio::task::yield_now().await;
    }
}
