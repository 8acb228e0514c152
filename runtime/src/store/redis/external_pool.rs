//! Connections of a pool that the user has already.

use std::sync::Arc;
use std::time::Duration;

use bb8_redis::RedisConnectionManager;
use bb8_redis::bb8::{Pool, RunError};
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisResult};
use tokio::time::timeout;

use super::connection::Link;
use super::manager::Manager;
use super::server_state::Health;

/// Longer than any command waits: ours have time-outs of their own.
const LONG: Duration = Duration::from_secs(3600);

impl Manager {
    /// Takes a connection from the pool, clones it and puts it back at once.
    ///
    /// The pool does not know which of its connections are dead, and may hand the same
    /// one out for ever, or none if all are in use for long. So one that can't be had or
    /// does not answer is replaced by one of our own.
    pub(super) async fn borrow(&self, pool: &Pool<RedisConnectionManager>) -> RedisResult<Link> {
        let lent = async {
            let connection = match pool.get().await {
                Ok(connection) => connection.clone(),
                Err(RunError::User(error)) => return Err(error),
                Err(RunError::TimedOut) => {
                    return Err((ErrorKind::Io, "the pool has no connection in time").into());
                }
            };
            self.take_over(connection, true).await
        };
        match timeout(self.shared.settings.connect_timeout / 3, lent).await {
            Ok(Ok(link)) => return Ok(link),
            Ok(Err(error)) if error.code().is_some() => return Err(error),
            Ok(Err(_)) | Err(_) => {}
        }
        self.take_over(pool.dedicated_connection().await?, false).await
    }

    async fn take_over(
        &self,
        mut connection: MultiplexedConnection,
        is_lent: bool,
    ) -> RedisResult<Link> {
        connection.set_response_timeout(LONG);
        let health = Health::new(self.hears, is_lent);
        self.greet(connection.into(), Arc::new(health), &self.shared.server).await
    }
}
