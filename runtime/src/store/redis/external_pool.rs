//! Connections from the user's own pool.

use std::sync::Arc;
use std::time::Duration;

use bb8_redis::RedisConnectionManager;
use bb8_redis::bb8::{Pool, RunError};
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisResult};
use tokio::time::timeout;

use super::connector::Connector;
use super::handshake;
use super::link::Link;
use super::link_state::LinkState;

/// Longer than any command waits: ours have time limits of their own.
const LONG: Duration = Duration::from_secs(3600);

/// Takes a connection from the pool, clones it and puts it back at once.
///
/// The pool does not know which of its connections are dead. It may hand out the same dead
/// one for ever, or none while all are in use. So a connection that can't be acquired, or
/// does not answer, is replaced by one of our own.
pub(super) async fn link(
    connector: &Connector,
    pool: &Pool<RedisConnectionManager>,
) -> RedisResult<Link> {
    let external = async {
        let connection = match pool.get().await {
            Ok(connection) => connection.clone(),
            Err(RunError::User(error)) => return Err(error),
            Err(RunError::TimedOut) => {
                return Err((ErrorKind::Io, "the pool has no connection in time").into());
            }
        };
        adopt(connector, connection, true).await
    };
    match timeout(connector.server.settings.connect_timeout / 3, external).await {
        Ok(Ok(link)) => return Ok(link),
        Ok(Err(error)) if error.code().is_some() => return Err(error),
        Ok(Err(_)) | Err(_) => {}
    }
    adopt(connector, pool.dedicated_connection().await?, false).await
}

async fn adopt(
    connector: &Connector,
    mut connection: MultiplexedConnection,
    is_external: bool,
) -> RedisResult<Link> {
    connection.set_response_timeout(LONG);
    let state = Arc::new(LinkState::new(connector.carries_hints, is_external));
    handshake::run(connector, connection.into(), state, &connector.server.name).await
}
