//! Connections by the manager of the user's own pool.

use std::sync::Arc;
use std::time::Duration;

use bb8_redis::RedisConnectionManager;
use bb8_redis::bb8::Pool;
use redis::RedisResult;

use super::connector::Connector;
use super::handshake;
use super::link::Link;
use super::link_state::LinkState;

/// Longer than any command waits: ours have time limits of their own.
const LONG: Duration = Duration::from_secs(3600);

/// Lets the pool's manager make a connection that never is in the pool. So nobody else can send
/// on it: a `SELECT` or an open `MULTI` would move the locks to another database, and there would
/// be two holders.
pub(super) async fn link(
    connector: &Connector,
    pool: &Pool<RedisConnectionManager>,
) -> RedisResult<Link> {
    let mut connection = pool.dedicated_connection().await?;
    connection.set_response_timeout(LONG);
    let state = Arc::new(LinkState::new(connector.carries_hints));
    handshake::run(connector, connection.into(), state, &connector.server.name).await
}
