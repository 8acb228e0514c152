//! Makes a connection for bb8: opens it by the right protocol, and not too soon after the last.

use std::sync::Arc;
use std::time::Duration;

use bb8_redis::bb8::{self, ManageConnection};
use redis::{
    AsyncConnectionConfig, ConnectionInfo, ErrorKind, PushInfo, PushKind, RedisError, RedisResult,
};
use tokio::time::{sleep, timeout};

use super::connect_errors;
use super::connector::{Connector, with_resp2};
use super::endpoint::Endpoint;
use super::link::Link;
use super::link_state::LinkState;
use super::wire::Wire;
use super::{errors, external_pool, handshake};
use crate::core::sync::lock;
use crate::system;

/// The shortest time from one connection to the next.
const PAUSE: Duration = Duration::from_millis(100);

/// Opens a connection and shakes hands.
async fn connect(connector: &Connector) -> RedisResult<Link> {
    if let Endpoint::ExternalPool(pool) = &connector.endpoint {
        return external_pool::link(connector, pool).await;
    }
    let info = connector.resolve().await?;
    let state = Arc::new(LinkState::new(connector.carries_hints));
    let server = info.addr().to_string();
    let wire = open(connector, info, &state).await?;
    connector.server.address.send_if_modified(|known| {
        let has_moved = *known != server;
        known.clone_from(&server);
        has_moved
    });
    handshake::run(connector, wire, state, &server).await
}

/// Opens a connection, by RESP3 if the server speaks it.
async fn open(
    connector: &Connector,
    info: ConnectionInfo,
    state: &Arc<LinkState>,
) -> RedisResult<Wire> {
    let server = &connector.server;
    // Each command has a time limit of its own.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(server.settings.connect_timeout))
        .set_response_timeout(None);
    if !connector.is_resp2() {
        let (server, state) = (server.clone(), state.clone());
        let config = config.clone().set_push_sender(move |push: PushInfo| {
            match push.kind {
                PushKind::Disconnection => server.abandon(&state),
                _ => server.hints.take_push(&push),
            }
            Ok::<_, ()>(())
        });
        match Wire::connect(info.clone(), config).await {
            // A proxy has its own text for an unknown command.
            Err(error) if errors::is_lacking(&error) => {}
            Err(error) if error.kind() == ErrorKind::RESP3NotSupported => {}
            opened => return opened,
        }
    }
    let opened = Wire::connect(with_resp2(info), config).await?;
    if connector.flags.resp2.set(()).is_ok() {
        tracing::info!(server = %server.name, "the lock store does not speak RESP3; using RESP2");
    }
    Ok(opened)
}

impl ManageConnection for Connector {
    type Connection = Link;
    type Error = RedisError;

    async fn connect(&self) -> Result<Link, RedisError> {
        // All waiters together must not reconnect without a pause to a server that refuses
        // everything, such as a replica.
        let last = *lock(&self.server.last_connected);
        if let Some(last) = last {
            sleep(PAUSE.saturating_sub(system::since(last))).await;
        }
        let limit = self.server.settings.connect_timeout;
        let is_tls = self.endpoint.is_tls();
        let link = match timeout(limit, connect(self)).await {
            Ok(link) => link.map_err(|error| connect_errors::explained(error, is_tls))?,
            Err(_) => return Err(connect_errors::no_answer(is_tls)),
        };
        // It is not the cause of any later failure.
        *lock(&self.server.last_error) = None;
        *lock(&self.server.last_connected) = Some(system::now());
        *lock(&self.server.next_connect) = None;
        Ok(link)
    }

    async fn is_valid(&self, _: &mut Link) -> Result<(), RedisError> {
        Ok(())
    }

    fn has_broken(&self, link: &mut Link) -> bool {
        link.is_abandoned()
    }
}

impl bb8::ErrorSink<RedisError> for Connector {
    fn sink(&self, error: RedisError) {
        *lock(&self.server.last_error) = Some(error);
    }

    fn boxed_clone(&self) -> Box<dyn bb8::ErrorSink<RedisError>> {
        Box::new(self.clone())
    }
}
