//! Makes all new connections to one server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::{ConnectionInfo, ProtocolVersion, RedisError, RedisResult};
use tokio::sync::SetOnce;

use super::endpoint::Endpoint;
use super::hints::HintReceiver;
use super::link_state::LinkState;
use super::server_state::ServerState;
use super::settings::Settings;

/// Makes connections to one server. A pool makes them by its
/// [`ManageConnection`](bb8_redis::bb8::ManageConnection); see `manager.rs`.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    pub(super) endpoint: Endpoint,
    pub(super) server: Arc<ServerState>,
    pub(super) flags: Arc<Flags>,
    /// Its connections carry hints.
    pub(super) carries_hints: bool,
    /// It checks the server's settings, and warns of unsafe ones.
    pub(super) checks_settings: bool,
}

#[derive(Debug, Default)]
pub(super) struct Flags {
    /// The server does not speak RESP3, or the URL chooses RESP2.
    pub(super) resp2: SetOnce<()>,
    /// The log says that there are no hints.
    has_logged_no_hints: AtomicBool,
    /// The log says that scripts are sent without flags.
    has_logged_plain_scripts: AtomicBool,
    /// The server's settings were checked.
    pub(super) has_checked_settings: AtomicBool,
}

impl Connector {
    pub(super) fn new(
        endpoint: Endpoint,
        settings: Settings,
        hints: Arc<HintReceiver>,
        carries_hints: bool,
    ) -> Self {
        let is_resp2 = endpoint.protocol().is_some_and(|protocol| !protocol.supports_resp3());
        let resp2 = SetOnce::new_with(is_resp2.then_some(()));
        Self {
            server: ServerState::new(endpoint.describe(), settings, hints),
            endpoint,
            flags: Arc::new(Flags { resp2, ..Flags::default() }),
            carries_hints,
            checks_settings: carries_hints,
        }
    }

    /// Makes another connection to the same server as `other`: what one finds out, both know, and
    /// the log says it once.
    pub(super) fn beside(self, other: &Self) -> Self {
        Self { flags: other.flags.clone(), ..self }
    }

    pub(super) fn is_resp2(&self) -> bool {
        self.flags.resp2.initialized()
    }

    /// The server's address now. Sentinels have a part of the time for connecting.
    pub(super) async fn resolve(&self) -> RedisResult<ConnectionInfo> {
        self.endpoint.resolve(self.server.settings.connect_timeout / 3).await
    }

    /// Leaves flags out of scripts on this connection, and logs once that the server refuses them.
    pub(super) fn leave_out_flags(&self, link: &LinkState) {
        link.leave_out_flags();
        if !self.flags.has_logged_plain_scripts.swap(true, Ordering::Relaxed) {
            let server = &self.server.name;
            tracing::warn!(%server, "the lock store refuses the flags of scripts; they are sent without, so it does not check their keys, and reads wait while writes are paused");
        }
    }

    /// Logs once that the server refuses hints.
    pub(super) fn log_no_hints(&self, error: &RedisError) {
        if !self.flags.has_logged_no_hints.swap(true, Ordering::Relaxed) {
            let server = &self.server.name;
            tracing::info!(%server, %error, "the lock store refuses pub/sub messages; waiters poll it instead");
        }
    }
}

/// The same server by RESP2.
pub(super) fn with_resp2(info: ConnectionInfo) -> ConnectionInfo {
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
    info.set_redis_settings(settings)
}
