//! Where the server is, and who makes the connections to it.

use std::time::Duration;

use bb8_redis::RedisConnectionManager;
use bb8_redis::bb8::Pool;
use redis::{ConnectionAddr, ConnectionInfo, ErrorKind, ProtocolVersion, RedisResult};

use super::sentinel::Sentinels;

/// Where connections lead, or where they come from.
#[derive(Clone, Debug)]
pub(super) enum Endpoint {
    /// To one address.
    Fixed(ConnectionInfo),
    /// To the server that is the master when the connection is made.
    Sentinel(Sentinels),
    /// From the manager of the user's own pool.
    ExternalPool(Pool<RedisConnectionManager>),
}

impl Endpoint {
    /// Its name in errors and log messages.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Fixed(info) => info.addr().to_string(),
            Self::Sentinel(sentinels) => sentinels.describe(),
            Self::ExternalPool(_) => "the server of the given pool".to_owned(),
        }
    }

    /// The server's address now. Each sentinel has `limit` to answer.
    pub(super) async fn resolve(&self, limit: Duration) -> RedisResult<ConnectionInfo> {
        match self {
            Self::Fixed(info) => Ok(info.clone()),
            Self::Sentinel(sentinels) => sentinels.find_master(limit).await,
            Self::ExternalPool(_) => Err((ErrorKind::Client, "a pool has no address").into()),
        }
    }

    /// The user that connects. Only the owner of a pool knows the pool's.
    pub(super) fn user(&self) -> Option<&str> {
        match self {
            Self::Fixed(info) => Some(user(info)),
            Self::Sentinel(sentinels) => Some(user(sentinels.master())),
            Self::ExternalPool(_) => None,
        }
    }

    /// Returns true if the connections use TLS. Only the owner of a pool knows the pool's.
    pub(super) fn is_tls(&self) -> bool {
        let is_tls = |info: &ConnectionInfo| matches!(info.addr(), ConnectionAddr::TcpTls { .. });
        match self {
            Self::Fixed(info) => is_tls(info),
            Self::Sentinel(sentinels) => is_tls(sentinels.master()),
            Self::ExternalPool(_) => false,
        }
    }

    /// The protocol that the URL chooses. A pool has chosen its own.
    pub(super) fn protocol(&self) -> Option<ProtocolVersion> {
        match self {
            Self::Fixed(info) => Some(info.redis_settings().protocol()),
            Self::Sentinel(sentinels) => Some(sentinels.protocol()),
            Self::ExternalPool(_) => None,
        }
    }
}

fn user(info: &ConnectionInfo) -> &str {
    info.redis_settings().username().unwrap_or("default")
}
